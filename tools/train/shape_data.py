# SPDX-License-Identifier: MIT
"""Voxels of training objects as the shape autoencoder takes them, and its loss."""
import numpy as np
import torch
from torch.nn import functional as F

from objects import Object
from sparse import Grid
from vae import SparseEncoder, children_in

LATENT, POSITION = 32, 3
CREASED = 64  # of 255; the split weight's target
ODD = 1       # weight of odd faces


class Voxels:
    """One object: coords int64 [n, 3], dual f32 [n, 3], crossed f32 [n, 3], creased f32 [n], material f32 [n, 6] (base colour, metallic,
    roughness, alpha, each -1..1)."""

    def __init__(self, coords, dual, flags, material):
        self.coords, self.dual = coords.astype(np.int64), dual
        self.crossed = (flags[:, None] >> np.arange(3) & 1).astype(np.float32)
        self.creased = (material[:, 5] >= CREASED).astype(np.float32)
        self.material = np.concatenate([material[:, :5] / np.float32(127.5) - 1, np.ones((len(coords), 1), np.float32)], axis=1)

    @classmethod
    def without_material(cls, coords, dual, crossed, creased):
        voxels = cls.__new__(cls)
        voxels.coords, voxels.dual, voxels.crossed, voxels.creased = coords, dual, crossed, creased
        voxels.material = np.zeros((len(coords), 6), np.float32)
        return voxels

    def part(self, keep):
        piece = Voxels.__new__(Voxels)
        for name in ("coords", "dual", "crossed", "creased", "material"):
            setattr(piece, name, getattr(self, name)[keep])
        return piece

    def half(self, random):
        """One side of a plane near the middle: cheaper, and cuts teach that a surface may end."""
        values = self.coords[:, random.integers(3)]
        cut = int(np.median(values)) // 4 * 4 + int(random.integers(-1, 2)) * 4
        keep = values < cut if random.random() < 0.5 else values >= cut
        return self.part(keep) if keep.sum() >= 500 else self


def voxels_of(library, seed):
    return Voxels(*Object(library, seed).voxels())


class Batch:
    """Objects side by side, with the grids of all levels, coarsest first."""

    def __init__(self, items, levels=2):
        self.dual, self.crossed = (torch.from_numpy(np.concatenate([getattr(v, n) for v in items])) for n in ("dual", "crossed"))
        self.creased, self.material = (torch.from_numpy(np.concatenate([getattr(v, n) for v in items])) for n in ("creased", "material"))
        coords = np.concatenate([np.insert(v.coords, 0, number, axis=1) for number, v in enumerate(items)])
        self.grids = [Grid(coords)]
        for _ in range(levels):
            coords = np.unique(np.concatenate([coords[:, :1], coords[:, 1:] >> 1], axis=1), axis=0)
            self.grids.insert(0, Grid(coords))

    def features(self):
        return torch.cat([self.dual, self.crossed], dim=1) - 0.5


def new_encoder(latent=LATENT):
    """Of shapes (dual vertex and flags) or of textures (material): both take 6 values per voxel."""
    return SparseEncoder(6, [16, 32, 64], [1, 1, 1], latent)


def encoder_of(path):
    """The averaged encoder of a checkpoint, with as many channels as it has."""
    state = torch.load(path)["average"]
    encoder = new_encoder(len(state["to_latent.bias"]) // 2)
    encoder.load_state_dict(state)
    return encoder.eval()


def without_position(latent):
    """The position channels are the flow's affair; for the decoder they are zero."""
    return torch.cat([latent[:, :-POSITION], torch.zeros(len(latent), POSITION)], dim=1)


def over_faces(volumes, a, b, join):
    """For each face across axes a and b, its four edges joined: two along a, side by side along b, and the other way round. volumes: of
    the edges along each axis [batch, X, Y, Z]."""
    def both(values, dimension):
        count = values.shape[dimension] - 1
        return join(values.narrow(dimension, 0, count), values.narrow(dimension, 1, count))

    along_a, along_b = both(volumes[a], b + 1), both(volumes[b], a + 1)
    return join(along_a.narrow(a + 1, 0, along_b.shape[a + 1]), along_b.narrow(b + 1, 0, along_a.shape[b + 1]))


def odd_faces(coords, crossed):
    """Expected share of voxel faces with an odd number of crossed edges, which is where the raw mesh is open (docs/geometry.md), of faces
    with an edge that a voxel owns. coords int64 [n, 4] with the batch first; crossed: probabilities [n, 3]. As if each edge were decided
    alone, the product of 1 - 2 p over a face's edges is the probability of even minus that of odd."""
    low = coords.min(0)
    size = (coords - low).max(0) + [1, 3, 3, 3]
    index = [torch.from_numpy(np.ravel_multi_index(tuple((coords - low + [0, *offset]).T), size))
             for offset in ((0, 1, 1), (1, 0, 1), (1, 1, 0))]  # of the near corner of the edge that a voxel owns, by axis
    even = [torch.ones(int(size.prod())).index_copy(0, index[axis], 1 - 2 * crossed[:, axis]).reshape(*size) for axis in range(3)]
    owned = [torch.zeros(int(size.prod()), dtype=torch.bool).index_fill(0, index[axis], True).reshape(*size) for axis in range(3)]
    total, count = 0, 0
    for a, b in ((0, 1), (0, 2), (1, 2)):
        has_owner = over_faces(owned, a, b, torch.logical_or)
        total, count = total + (1 - over_faces(even, a, b, torch.mul)[has_owner]).sum() / 2, count + has_owner.sum()
    return total / count


def reconstruction_losses(decoder, latent, grid, batch):
    """Losses of a decoder that subdivides as the objects do, and how many decisions are wrong."""
    wanted = []  # in the order of the decoder's voxels, which is not that of the batch

    def choose(level, _, at):
        """Teacher forcing: the children that the objects have."""
        wanted.append(children_in(at, batch.grids[level + 1]))
        return wanted[-1]

    out, fine, logits = decoder(latent, grid, choose)
    wanted = [torch.from_numpy(w).float() for w in wanted]
    rows = torch.from_numpy(batch.grids[-1].rows_of(fine.coords))
    dual, crossed, creased = batch.dual[rows], batch.crossed[rows], batch.creased[rows]
    values = {"vertex": F.mse_loss(2 * out[:, :3].sigmoid() - 0.5, dual),
              "flags": F.binary_cross_entropy_with_logits(out[:, 3:6], crossed),
              "split": F.binary_cross_entropy_with_logits(out[:, 6], creased),
              "subdivision": sum(F.binary_cross_entropy_with_logits(a, b) for a, b in zip(logits, wanted))}
    values["odd"] = odd_faces(fine.coords, out[:, 3:6].sigmoid())
    values["loss"] = 5 * values["vertex"] + values["flags"] + values["subdivision"] + 0.05 * values["split"] + ODD * values["odd"]
    values["flags_wrong"] = ((out[:, 3:6] > 0) != (crossed > 0.5)).float().mean()
    values["subdivision_wrong"] = torch.stack([((a > 0) != (b > 0.5)).float().mean() for a, b in zip(logits, wanted)]).mean()
    return values


def autoencoder_losses(encoder, decoder, batch, kl_weight=0.3, noise=True):
    """The same for an encoder and a decoder, with the divergence of the latent."""
    mean, log_variance, grid = encoder(batch.features(), batch.grids[-1])
    log_variance = log_variance.clamp(-12, 4)
    latent = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) if noise else mean
    values = reconstruction_losses(decoder, without_position(latent), grid, batch)
    values["kl"] = 0.5 * (mean ** 2 + log_variance.exp() - log_variance - 1)[:, :-POSITION].sum() / mean.numel()
    values["loss"] = values["loss"] + kl_weight * values["kl"]
    return values
