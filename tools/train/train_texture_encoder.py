# SPDX-License-Identifier: MIT
"""Trains a texture encoder against the frozen texture decoder of a model directory, so that its latent space stays what it is. The encoder
makes latents for train_texture_flow.py and is never shipped. Writes WORK/texture_encoder.pt.

    train_texture_encoder.py LIBRARY WORK [--steps 2000] [--kernels libespalier-train-kernels.so]"""
from encoder_stage import train_encoder
from structure_data import VALIDATION
from texture_data import recolored, texture_losses


def train_losses(encoder, decoder, batch, random):
    return texture_losses(encoder, decoder, batch, recolored(batch, random))


def held_out_losses(encoder, decoder, batch):
    return texture_losses(encoder, decoder, batch, batch.material, noise=False)


if __name__ == "__main__":
    train_encoder(__doc__, "texture_encoder", 2000, 4, VALIDATION, lambda p: p.texture_decoder, train_losses, held_out_losses)
