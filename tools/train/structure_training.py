# SPDX-License-Identifier: MIT
"""What the image encoder's and the structure flow's training share: pictures with the latents they should lead to, as batches; the flow's
losses; and how much of the true occupancy its samples have."""
import os

import numpy as np
import torch
from torch.nn import functional as F

import fast
import kernels
from flow import add_noise, dense_coords, sample
from image_encoder import normalize_pictures
from structure_data import Pictures
from train_structure_encoder import new_structure_encoder, overlap, with_position
from training import average_of, mixed_precision

NO_CONDITION = 0.1   # share of pictures that train the branch without one
OTHER_COLORS = 0.25  # share of pictures whose colour channels change places
SIDE = 4             # of the latent


def latents_of(encoder, volumes):
    """f16 [n, 64, channels] of bool [n, X, Y, Z], position channels included."""
    with torch.no_grad():
        parts = [with_position(encoder(part[:, None].float())[0]) for part in torch.from_numpy(volumes).split(64)]
    return torch.cat(parts).flatten(2).transpose(1, 2).half()


class Objects:
    """Pictures and latents, also of the mirrored objects."""

    def __init__(self, work, folder):
        self.pictures = Pictures(os.path.join(work, folder))
        self.encoder = average_of(os.path.join(work, "structure_encoder.pt"), new_structure_encoder())
        self.parts, self.sizes = [], []
        self.scan()

    def scan(self):
        """Takes over files that are new."""
        self.pictures.scan()
        for number in range(len(self.parts), len(self.pictures.parts)):
            volumes = self.pictures.volumes(number)[:len(self.pictures.parts[number]["seeds"])]
            both = np.stack([volumes, volumes[:, ::-1]], axis=1)
            latents = latents_of(self.encoder, both.reshape(-1, *volumes.shape[1:])).unflatten(0, (-1, 2))
            self.parts.append((both, latents))
            self.sizes.append(len(volumes))

    def __len__(self):
        return sum(self.sizes)

    def item(self, index, view, mirrored):
        """Picture u8 [side, side, 3], patches [rows, columns, 7], camera [4], category, occupancy, latent [64, channels]. view: a number,
        or where to draw one from."""
        part = 0
        while index >= self.sizes[part]:
            index -= self.sizes[part]
            part += 1
        arrays, (volumes, latents) = self.pictures.parts[part], self.parts[part]
        view = view if isinstance(view, int) else int(view.integers(arrays["pictures"].shape[1]))
        picture, patches = arrays["pictures"][index, view], arrays["patches"][index, view].astype(np.float32)
        camera = arrays["cameras"][index, view].copy()
        if mirrored:
            picture, patches = picture[:, ::-1], patches[:, ::-1].copy()
            patches[:, :, 1] *= -1
            camera[0] *= -1
        return picture, patches, camera, int(arrays["seeds"][index]) % 13, volumes[index, int(mirrored)], latents[index, int(mirrored)]

    def batch(self, size, random):
        """Random pictures, mirrored or not, some with other colours."""
        items = []
        for _ in range(size):
            index = int(random.integers(len(self)))
            picture, patches, *rest = self.item(index, random, bool(random.integers(2)))
            if random.random() < OTHER_COLORS:
                order = random.permutation(3)
                picture, patches = picture[:, :, order], np.concatenate([patches[:, :, :4], patches[:, :, 4 + order]], axis=2)
            items.append((picture, patches, *rest))
        return Batch(items)

    def groups(self, count, size=26):
        """The first objects, first view, as batches."""
        return [Batch([self.item(i, 0, False) for i in range(first, min(first + size, count))]) for first in range(0, count, size)]


class Batch:
    def __init__(self, items):
        pictures, patches, cameras, categories, occupied, latents = zip(*items)
        self.pixels = normalize_pictures(np.stack(pictures))
        self.patches, self.cameras = torch.from_numpy(np.stack(patches)), torch.from_numpy(np.stack(cameras))
        self.categories, self.occupied = torch.tensor(categories), torch.from_numpy(np.stack(occupied))
        self.latents = torch.stack(latents).float()


def velocity(flow, x, t, condition):
    """Of tokens [B, 64, channels], with the C kernels where they are loaded; condition [B or fewer, tokens, channels]."""
    if kernels.library is None:
        return flow(x, t, condition, dense_coords(SIDE)).float()
    count, tokens, channels = x.shape
    with mixed_precision(False):
        packed = fast.velocity(flow, x.reshape(-1, channels), t, condition.float(), dense_coords(SIDE).expand(count, -1, -1).reshape(-1, 3),
                               torch.arange(count + 1) * tokens)
    return packed.reshape(count, tokens, -1)


def random_times(count, repeats):
    """[count, repeats], rising; spread evenly over the logistic normal distribution that the flows are trained with."""
    ranks = (torch.arange(repeats) + torch.rand(count, repeats)) / repeats
    return torch.sigmoid(torch.erfinv((2 * ranks - 1).clamp(-0.999, 0.999)) * 2 ** 0.5 * 1.1 + 0.8)


def cell_losses(logits, occupied):
    """Per cell, and one minus the intersection over union of probabilities: the first asks for each cell alone, the second for the set."""
    share, wanted = logits.sigmoid().flatten(1), occupied.float().flatten(1)
    common = (share * wanted).sum(1)
    union = share.sum(1) + wanted.sum(1) - common
    return {"cells": F.binary_cross_entropy_with_logits(logits.flatten(1), wanted), "overlap": 1 - (common / union).mean()}


def flow_losses(flow, decoder, condition, batch, repeats, one_step=False):
    """Flow matching, `repeats` times per picture; and for every second picture, at its latest time, how well the latent that the flow
    expects there decodes: the mean of all latents is not the best guess of the cells. one_step: for a sampler of one step; the latest time
    is where that begins, and every picture is decoded."""
    t = random_times(len(batch.latents), repeats)
    if one_step:
        t[:, -1] = 1
    t = t.reshape(-1)
    latents = batch.latents.repeat_interleave(repeats, 0)
    noised, wanted = add_noise(latents, torch.randn_like(latents), t[:, None, None])
    got = velocity(flow, noised, t, condition)
    rows = torch.arange(0, len(batch.latents), 1 if one_step else 2)
    last = rows * repeats + repeats - 1
    guess = noised[last] - t[last, None, None] * got[last]
    logits = decoder(guess.transpose(1, 2).unflatten(2, (SIDE,) * 3))[:, 0].float()
    return {"flow": (got - wanted).square().mean(), **cell_losses(logits, batch.occupied[rows])}


def sampled_overlap(encoder, flow, decoder, groups, sampler):
    """Mean intersection over union of sampled occupancy with the true one; of one Euler step, and of the sampler's if there is one."""
    once, full, one_step = [], [], {"steps": 1, "guidance_strength": 1, "guidance_rescale": 0, "guidance_interval": (0, 1), "rescale_t": 1,
                                    "sigma_min": 1e-5}
    for batch in groups:
        condition = encoder(batch.pixels).float()
        noise, coords = torch.randn_like(batch.latents), dense_coords(SIDE)
        for values, settings in ((once, one_step), (full, sampler))[:2 if sampler else 1]:
            latent = sample(flow, noise, condition, coords, settings, dense=True)
            values.append(overlap(decoder(latent.transpose(1, 2).unflatten(2, (SIDE,) * 3)).float(), batch.occupied))
    return {"one step": float(torch.cat(once).mean()), **({"iou": float(torch.cat(full).mean())} if sampler else {})}
