# SPDX-License-Identifier: MIT
"""What a decoder should have made of a latent that shows no particular object: the closed surface that contradicts its own decisions least.
A sample of the flow has no true voxels. But nearly all of what is decoded from it is of one solid, and which one can be found (signs.c)."""
import ctypes

import numpy as np
import torch

from objects import RESOLUTION
from shape_data import Voxels
from vae import children_of

CORNERS = RESOLUTION + 1
SWEEPS = 150
NO_OWNER = 0.3  # certainty of an edge at the surface whose owner was not decoded
NOT_ALLOWED = 3.0  # certainty that the surface keeps to the given cells
# The four cells around an edge of each axis, from the edge's near corner.
AROUND = tuple(tuple(np.array(offset) for offset in offsets) for offsets in (
    ((0, 0, 0), (0, -1, 0), (0, 0, -1), (0, -1, -1)), ((0, 0, 0), (-1, 0, 0), (0, 0, -1), (-1, 0, -1)),
    ((0, 0, 0), (-1, 0, 0), (0, -1, 0), (-1, -1, 0))))


def edge_of(coords, axis):
    """Near corners of the edges along an axis that voxels own: those at the voxel's far side in the other two axes."""
    near = coords + 1
    near[:, axis] -= 1
    return tuple(near.T)


def cells_around(cells, how):
    """Of bool [R, R, R]: per axis and edge, whether `how` (np.any, np.all) of the four cells around are set; [3, R + 1, R + 1, R + 1]."""
    padded = np.pad(cells, 1)
    return np.stack([how([padded[1 + dx:1 + dx + CORNERS, 1 + dy:1 + dy + CORNERS, 1 + dz:1 + dz + CORNERS] for dx, dy, dz in offsets],
                         axis=0) for offsets in AROUND])


def votes_of(coords, flags, allowed):
    """Certainties [3, R + 1, R + 1, R + 1], negative: the ends of the edge along that axis lie on two sides. flags: logits [n, 3];
    allowed: bool [R, R, R] of where voxels can be at all."""
    present = np.zeros((RESOLUTION,) * 3, bool)
    present[tuple(coords.T)] = True
    votes = np.where(cells_around(present, np.any), np.float32(NO_OWNER), np.float32(1))
    for axis in range(3):
        votes[(axis, *edge_of(coords, axis))] = -np.tanh(flags[:, axis] / 2)
    votes[~cells_around(allowed, np.all)] = NOT_ALLOWED
    return votes


def inside_of(library, votes, sweeps=SWEEPS):
    """bool [R + 1, R + 1, R + 1]"""
    value, votes = np.empty((CORNERS,) * 3, np.float32), np.ascontiguousarray(votes, np.float32)
    library.train_signs(votes.ctypes.data_as(ctypes.c_void_p), CORNERS, sweeps, value.ctypes.data_as(ctypes.c_void_p))
    return value < 0


def crossings(inside):
    """bool [3, R + 1, R + 1, R + 1]: edges with ends on two sides; the last along each axis is none."""
    crossed = np.zeros((3, *inside.shape), bool)
    for axis in range(3):
        whole = [slice(None)] * 3
        whole[axis] = slice(0, -1)
        crossed[(axis, *whole)] = np.diff(inside, axis=axis)
    return crossed


def voxels_from(inside, allowed):
    """Coordinates [n, 3] and flags [n, 3] of the solid's dual grid, without what is not allowed."""
    crossed, cells = crossings(inside), np.zeros((RESOLUTION + 2,) * 3, bool)
    for axis, offsets in enumerate(AROUND):
        for dx, dy, dz in offsets:
            cells[1 + dx:1 + dx + CORNERS, 1 + dy:1 + dy + CORNERS, 1 + dz:1 + dz + CORNERS] |= crossed[axis]
    coords = np.argwhere(cells[1:-1, 1:-1, 1:-1] & allowed)
    return coords, np.stack([crossed[(axis, *edge_of(coords, axis))] for axis in range(3)], axis=1)


def tree_of(coarse, fine):
    """choose() of a decoder that subdivides towards voxels [n, 3] at RESOLUTION from cells [n, 4] at a fourth of it."""
    wanted = [np.zeros((RESOLUTION >> 1,) * 3, bool), np.zeros((RESOLUTION,) * 3, bool)]
    wanted[0][tuple((fine >> 1).T)], wanted[1][tuple(fine.T)] = True, True
    return lambda level, _, grid: wanted[level][tuple(children_of(grid.coords)[:, 1:].T)].reshape(-1, 8)


@torch.no_grad()
def consistent_voxels(library, decoder, latent, grid):
    """Voxels whose surface is closed (but where the cells of `grid` end), nearest to what the decoder makes of the latent; and how many of
    them the decoder has not made itself, as a share of what it has."""
    out, fine, _ = decoder(latent, grid, lambda level, logits, at: (logits > 0).numpy())
    cells = np.zeros((RESOLUTION // 4,) * 3, bool)
    cells[tuple(grid.coords[:, 1:].T)] = True
    allowed = cells.repeat(4, 0).repeat(4, 1).repeat(4, 2)
    inside = inside_of(library, votes_of(fine.coords[:, 1:], out[:, 3:6].numpy(), allowed))
    coords, flags = voxels_from(inside, allowed)
    before = set(map(tuple, fine.coords[:, 1:].tolist()))
    added = sum(tuple(c) not in before for c in coords.tolist()) / max(1, len(before))
    out, fine, _ = decoder(latent, grid, tree_of(grid.coords, coords))
    order = {tuple(c): i for i, c in enumerate(coords.tolist())}
    rows = [order[tuple(c)] for c in fine.coords[:, 1:].tolist()]
    voxels = Voxels.without_material(fine.coords[:, 1:], (2 * out[:, :3].sigmoid() - 0.5).numpy(), flags[rows].astype(np.float32),
                                     (out[:, 6] > 0).numpy().astype(np.float32))
    return voxels, added
