# SPDX-License-Identifier: MIT
"""Trains a shape encoder against the frozen decoder of a model directory, so that its latent space stays what it is. The encoder is only
needed to make latents for train_shape_flow.py and is never shipped. Writes WORK/shape_encoder.pt.

    train_shape_encoder.py LIBRARY WORK [--steps 1700] [--kernels libespalier-train-kernels.so]"""
from encoder_stage import train_encoder
from objects import HELD_OUT
from shape_data import autoencoder_losses


def train_losses(encoder, decoder, batch, random):
    return autoencoder_losses(encoder, decoder, batch)


def held_out_losses(encoder, decoder, batch):
    return autoencoder_losses(encoder, decoder, batch, noise=False)


if __name__ == "__main__":
    train_encoder(__doc__, "shape_encoder", 1700, 2, HELD_OUT, lambda p: p.shape_decoder, train_losses, held_out_losses)
