# SPDX-License-Identifier: MIT
"""A short run of the stages: the losses fall, a run resumed is the run continued, and the export is a model that loads. Exit code 77
(skipped) without torch or Pillow. Usage: test_training.py LIBRARY SOURCE_DIR KERNELS"""
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from PIL import Image  # noqa: F401 (objects.py needs it)
except ImportError:
    print("SKIPPED: the trainer needs python3-torch and python3-pil")
    sys.exit(77)

import numpy as np

import expected
from checkpoint import read_arrays
from consistent import CORNERS, consistent_voxels, inside_of, voxels_from, votes_of
from flow import FlowModel, rotate
from objects import RESOLUTION, load_library
from pipeline import TinyPipeline
from shape_data import Batch, autoencoder_losses, new_encoder, odd_faces, voxels_of
from sparse import Grid
from slat_data import Items, pack
from texture_data import recolored, texture_losses
from train_shape_flow import add_local_heads
from training import Trainer
from vae import children_in, children_of

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, MODEL, KERNELS = sys.argv[1], os.path.join(sys.argv[2], "models", "tiny"), sys.argv[3]


def run(script, *arguments):
    done = subprocess.run([sys.executable, "-B", os.path.join(HERE, script), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{script}: {done.stdout}{done.stderr}")
    return done.stdout


class Parts(unittest.TestCase):
    def test_resume(self):
        """3 + 3 steps with a restart between them give the weights of 6 steps."""
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for name, stages in (("whole", (6,)), ("parts", (3, 6))):
                for steps in stages:
                    torch.manual_seed(1)
                    trainer = Trainer(torch.nn.Linear(4, 4), os.path.join(folder, name), 6, 1e-2)
                    trainer.steps = 6
                    values = torch.randn(6, 5, 4)
                    while trainer.step < steps:
                        trainer.update((trainer.model(values[trainer.step]) ** 2).mean())
                    trainer.save()
                results.append(trainer)
            for kind in ("model", "average"):
                for a, b in zip(getattr(results[0], kind).parameters(), getattr(results[1], kind).parameters()):
                    self.assertTrue(torch.equal(a, b), kind)

    def test_local_heads(self):
        """At the start the first three heads of block 0 prefer the token itself and its neighbours along x."""
        torch.manual_seed(0)
        model = FlowModel(32, 32, 96, 128, 2, 4, 4, rope_freq=(1.0, 100.0))
        add_local_heads(model)
        coords = torch.stack(torch.meshgrid(*[torch.arange(5)] * 3, indexing="ij"), -1).reshape(1, -1, 3)
        attention, (cos, sin) = model.blocks[0].self_attn, model.rope(coords)
        q, k, _ = attention.split(attention.to_qkv(torch.randn(1, 125, 96)), 3)
        q, k = (rotate(norm(x), cos, sin) for norm, x in ((attention.q_rms_norm, q), (attention.k_rms_norm, k)))
        best = (q[0].transpose(0, 1) @ k[0].permute(1, 2, 0)).argmax(-1)[:3, 62]  # 62 is the middle, 25 apart along x
        self.assertEqual(sorted(best.tolist()), [37, 62, 87])

    def test_perfect_decoder(self):
        """A decoder that knows the objects has no wrong decision, in whatever order its voxels come."""
        library = load_library(LIBRARY)
        batch = Batch([voxels_of(library, seed) for seed in (3, 4)])

        def decoder(latent, grid, choose):
            logits = []
            for level in range(2):
                logits.append(torch.from_numpy(children_in(grid, batch.grids[level + 1])).float() * 40 - 20)
                grid = Grid(children_of(grid.coords)[np.flatnonzero(choose(level, logits[-1], grid))])
            rows = torch.from_numpy(batch.grids[-1].rows_of(grid.coords))
            corner = torch.logit((batch.dual[rows] + 0.5) / 2)
            return torch.cat([corner, batch.crossed[rows] * 40 - 20, batch.creased[rows, None] * 40 - 20], dim=1), grid, logits

        with torch.no_grad():
            values = autoencoder_losses(new_encoder(), decoder, batch)
        self.assertEqual((values["flags_wrong"].item(), values["subdivision_wrong"].item()), (0, 0))
        for name in ("vertex", "flags", "subdivision", "split"):
            self.assertLess(values[name].item(), 1e-6, name)

    def test_perfect_texture(self):
        """A decoder that knows the material has no error, in whatever order its voxels come; recolouring keeps alpha and the range."""
        library = load_library(LIBRARY)
        batch = Batch([voxels_of(library, seed) for seed in (3, 4)])
        material = recolored(batch, np.random.default_rng(0))
        self.assertTrue(torch.equal(material[:, 5], batch.material[:, 5]))
        self.assertLessEqual(material.abs().max().item(), 1)
        changed = (material[:, :3] != batch.material[:, :3]).any(1).float().mean().item()
        self.assertTrue(0.1 < changed < 0.8, changed)

        def decoder(latent, grid, choose):
            for level in range(2):
                grid = Grid(children_of(grid.coords)[np.flatnonzero(choose(level, None, grid))])
            return material[torch.from_numpy(batch.grids[-1].rows_of(grid.coords))], grid, []

        with torch.no_grad():
            values = texture_losses(new_encoder(), decoder, batch, material)
        self.assertEqual([values[name].item() for name in ("absolute", "square", "color")], [0, 0, 0])

    def test_encoder_learns(self):
        torch.manual_seed(0)
        library = load_library(LIBRARY)
        random = np.random.default_rng(0)
        decoder = TinyPipeline(MODEL).shape_decoder.requires_grad_(False)
        encoder = new_encoder()
        optimizer = torch.optim.AdamW(encoder.parameters(), lr=2e-3)
        items, history = [voxels_of(library, seed) for seed in (1, 7)], []
        for _ in range(25):
            loss = autoencoder_losses(encoder, decoder, Batch([items[i].half(random) for i in range(2)]))["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        self.assertLess(np.mean(history[-5:]), 0.5 * history[0])


class Closed(unittest.TestCase):
    """Closed surfaces: the measure of how far from closed a decoder's flags are, and the solid that they speak of."""

    def test_odd_faces(self):
        """A closed surface has none. The three edges that one voxel owns have four faces each, and each two of them share one."""
        voxels = [voxels_of(load_library(LIBRARY), seed) for seed in (0, 3)]
        batch = Batch(voxels)
        self.assertEqual(odd_faces(batch.grids[-1].coords, batch.crossed).item(), 0)
        lone = np.array([[0, 5, 5, 5]])
        self.assertAlmostEqual(odd_faces(lone, torch.tensor([[0.7, 0, 0]])).item(), 4 * 0.7 / 9, places=6)
        p, q, r = 0.7, 0.2, 0.9
        odd = sum(a * (1 - b) + b * (1 - a) for a, b in ((p, q), (q, r), (p, r))) + 2 * (p + q + r)
        self.assertAlmostEqual(odd_faces(lone, torch.tensor([[p, q, r]])).item(), odd / 9, places=6)
        flags = batch.crossed.clone().requires_grad_(True)
        odd_faces(batch.grids[-1].coords, flags * 0.98 + 0.01).backward()
        self.assertTrue(((flags.grad > 0) == (batch.crossed < 0.5)).all(), "the penalty pulls certain flags where they belong")

    def signs(self, voxels, flags, keep=slice(None)):
        everywhere = np.ones((RESOLUTION,) * 3, bool)
        inside = inside_of(load_library(LIBRARY), votes_of(voxels.coords[keep], flags[keep], everywhere))
        return inside, voxels_from(inside, everywhere)

    def test_solid_stays(self):
        """From the flags of a solid come its voxels and its flags again; with some of them wrong or missing too."""
        random = np.random.default_rng(0)
        for seed in (0, 3, 7):
            voxels = voxels_of(load_library(LIBRARY), seed)
            flags = np.where(voxels.crossed > 0, 6.0, -6.0).astype(np.float32)
            inside, (coords, crossed) = self.signs(voxels, flags)
            order = np.lexsort(voxels.coords.T[::-1])
            self.assertTrue(np.array_equal(coords, voxels.coords[order]) and np.array_equal(crossed, voxels.crossed[order] > 0), seed)
            self.assertFalse(inside[[0, -1]].any() or inside[:, [0, -1]].any() or inside[:, :, [0, -1]].any())
            wrong = flags * np.where(random.random(flags.shape) < 0.02, -1, 1).astype(np.float32)
            mended, _ = self.signs(voxels, wrong, random.random(len(flags)) > 0.02)
            damage = int((wrong != flags).sum())
            self.assertGreater(damage, 200)
            self.assertLess((mended != inside).sum(), 0.05 * damage, seed)

    def test_keeps_to_cells(self):
        """Nothing outside the given cells; what is left is what the flags and the votes of the rest say."""
        voxels = voxels_of(load_library(LIBRARY), 3)
        allowed = np.zeros((RESOLUTION,) * 3, bool)
        allowed[tuple(voxels.coords.T)] = True
        allowed[:RESOLUTION // 2] = False
        votes = votes_of(voxels.coords, np.where(voxels.crossed > 0, 6.0, -6.0), allowed)
        self.assertEqual(votes.shape, (3,) + (CORNERS,) * 3)
        coords, _ = voxels_from(inside_of(load_library(LIBRARY), votes), allowed)
        self.assertTrue(len(coords) > 100 and allowed[tuple(coords.T)].all())

    def test_decoder_is_teacher(self):
        """The shipped decoder on a solid's own latent, spoilt: its consistent voxels are closed, nearly its own, and where it puts them."""
        pipeline, item = TinyPipeline(MODEL), np.random.default_rng(1)
        example = read_arrays(os.path.join(MODEL, "expected", "bottle_1_seed42.safetensors"))
        grid, latent = Grid(example["coords"]), torch.from_numpy(example["shape_slat"] + 0.05 * item.standard_normal(
            example["shape_slat"].shape).astype(np.float32))
        latent[:, -3:] = 0
        voxels, added = consistent_voxels(load_library(LIBRARY), pipeline.shape_decoder, latent, grid)
        self.assertTrue(added < 0.25, added)
        coords = np.insert(voxels.coords, 0, 0, axis=1)
        self.assertLess(odd_faces(coords, torch.from_numpy(voxels.crossed)).item(), 0.01)
        out, fine, _ = pipeline.decode_shape(latent, grid.coords)
        self.assertGreater(odd_faces(fine.coords, (out[:, 3:6] > 0).float()).item(), 0.01)
        self.assertTrue(((voxels.dual >= -0.5) & (voxels.dual <= 1.5)).all())


class Chain(unittest.TestCase):
    def test_expected(self):
        """From picture to mesh in PyTorch: the results recorded with the reference's code."""
        pipeline = TinyPipeline(MODEL)
        got = expected.run(pipeline, os.path.join(MODEL, "examples", "bottle_1.png"))
        want = read_arrays(os.path.join(MODEL, "expected", "bottle_1_seed42.safetensors"))
        self.assertEqual(expected.differences(got, want), [])
        got["dec_out"][0, 0] += 0.1
        got["faces"][0, 0] += 1
        self.assertEqual([text.split(":")[0] for text in expected.differences(got, want)], ["dec_out", "faces"])


def decode_all(pipeline, latent, coords):
    """The shape decoder's output with all children of all cells: decisions near 0 may differ by rounding."""
    with torch.no_grad():
        return pipeline.shape_decoder(latent, Grid(coords), lambda level, logits, grid: np.ones((len(grid), 8), bool))[0]


class Stages(unittest.TestCase):
    def test_encoders(self):
        with tempfile.TemporaryDirectory() as work:
            small = [LIBRARY, work, "--model", MODEL, "--objects", "8", "--held-out", "1", "--kernels", KERNELS]
            run("train_shape_encoder.py", *small, "--steps", "4")
            run("train_texture_encoder.py", *small, "--steps", "4", "--batch", "2")
            out, blocks = os.path.join(work, "cut"), TinyPipeline(MODEL).config("shape_slat_decoder")["num_blocks"]
            more = ",".join(str(n + 1) for n in blocks)
            run("cut_latent.py", LIBRARY, work, MODEL, out, "--channels", "9", "--blocks", more, "--objects", "2")
            self.check_cut(work, TinyPipeline(MODEL), TinyPipeline(out))
            run("train_shape_decoder.py", *small[:3], out, *small[4:], "--encoder", "shape_encoder_cut.pt", "--steps", "2")
            self.check_flows(work, out)

    def tokens(self):
        """Of a picture, by the shipped image encoder."""
        patch = TinyPipeline(MODEL).image_encoder.embeddings.patch_embeddings.kernel_size[0]
        return 1 + 4 + (128 // patch) ** 2

    def check_cut(self, work, whole, cut):
        """The cut networks do what the whole ones do to a latent that has nothing outside the kept channels."""
        basis = torch.load(os.path.join(work, "latent_basis.pt"))
        y, position = torch.randn(50, 9), torch.randn(50, 3)
        coords = np.unique(np.random.default_rng(0).integers(0, 8, (90, 4)) * [0, 1, 1, 1], axis=0)[:50]
        (mean, deviation), (_, new_deviation) = whole.normalization("shape"), cut.normalization("shape")
        old = torch.cat([basis["mean"] + (y * new_deviation[:9]) @ basis["axes"][:, :9].t(), torch.zeros(50, 3)], dim=1)
        new = torch.cat([y * new_deviation[:9], torch.zeros(50, 3)], dim=1)
        a, b = decode_all(whole, old, coords), decode_all(cut, new, coords)
        self.assertLess((a - b).abs().max().item(), 0.02 * a.abs().max().item())
        x = torch.cat([((old - mean) / deviation)[:, :-3], position], dim=1)[None]
        arguments = torch.full((1,), 0.4), torch.randn(1, self.tokens(), 128), torch.from_numpy(coords[None, :, 1:])
        with torch.no_grad():
            a = whole.shape_flow(x, *arguments)[0]
            b = cut.shape_flow(torch.cat([y, position], dim=1)[None], *arguments)[0]
        wanted = (a[:, :-3] * deviation[:-3]) @ basis["axes"][:, :9] / new_deviation[:9]
        self.assertLess((b[:, :-3] - wanted).abs().max().item(), 0.05 * wanted.abs().max().item())  # weights are rounded to bfloat16

    def check_flows(self, work, model):
        """Data for the flows, a few steps of each, and the models that come of it."""
        run("structure_data.py", LIBRARY, work, "--objects", "3", "--views", "2", "--validation", "1")
        run("slat_data.py", LIBRARY, work, "--model", model, "--encoder", "shape_encoder_cut.pt", "--texture")
        items = Items(work, ("latents", "texture", "conditions")).items
        self.assertEqual([tuple(items[0][k].shape) for k in ("shape", "texture", "condition")],
                         [(len(items[0]["coords"]), 12), (len(items[0]["coords"]), 32), (2, self.tokens(), 128)])
        batch = pack(items[:2])
        second = slice(batch["begin"][1], batch["begin"][2])
        self.assertTrue(torch.equal(batch["shape"][second], items[1]["shape"].float()))
        common = [LIBRARY, work, "--model", model, "--held-out", "1", "--batch", "2", "--kernels", KERNELS]
        run("train_shape_flow.py", *common, "--steps", "2")
        self.assertIn("resumed at step 2", run("train_shape_flow.py", *common, "--steps", "3", "--first-step", "1"))
        run("train_texture_flow.py", *common, "--steps", "2", "--shape-flow", os.path.join(work, "shape_flow.pt"), "--first-step", "1")
        run("train_shape_decoder.py", *common[:4], "--encoder", "shape_encoder_cut.pt", "--steps", "3", "--kernels", KERNELS,
            "--held-out", "1", "--flow", os.path.join(work, "shape_flow.pt"), "--pool", "1", "--samples")
        out = os.path.join(work, "model")
        files = [part for stage in ("shape_flow", "texture_flow", "shape_decoder")
                 for part in ("--" + stage.replace("_", "-"), os.path.join(work, stage + ".pt"))]
        run("export.py", model, out, *files)
        for name in ("slat_flow_img2shape_tiny_bf16", "slat_flow_imgshape2tex_tiny_bf16", "shape_dec_tiny_fp16"):
            before, after = (read_arrays(os.path.join(folder, "ckpts", name + ".safetensors")) for folder in (model, out))
            self.assertEqual(before.keys(), after.keys())
            moved = max(np.abs(before[key] - after[key]).max() for key in before)
            self.assertTrue(0 < moved < 0.2, (name, moved))
        wide = os.path.join(work, "wide")
        run("pad_latent.py", out, wide)
        self.check_padded(TinyPipeline(out), TinyPipeline(wide))

    def check_padded(self, narrow, wide):
        """The channels that were put in are read by nothing and do not move; the others are as before."""
        coords = np.unique(np.random.default_rng(0).integers(0, 8, (60, 4)) * [0, 1, 1, 1], axis=0)[:40]
        shape, texture, junk = torch.randn(40, 12), torch.randn(40, 32), torch.randn(40, 20)
        padded = torch.cat([shape[:, :9], junk, shape[:, 9:]], dim=1)
        arguments = torch.full((1,), 0.4), torch.randn(1, self.tokens(), 128), torch.from_numpy(coords[None, :, 1:])
        with torch.no_grad():
            a, b = narrow.shape_flow(shape[None], *arguments)[0], wide.shape_flow(padded[None], *arguments)[0]
            self.assertLess((a - torch.cat([b[:, :9], b[:, -3:]], dim=1)).abs().max().item(), 1e-4)
            self.assertEqual(b[:, 9:-3].abs().max().item(), 0)
            a = narrow.texture_flow(torch.cat([texture, shape], dim=1)[None], *arguments)
            self.assertLess((a - wide.texture_flow(torch.cat([texture, padded], dim=1)[None], *arguments)).abs().max().item(), 1e-4)
        a, b = decode_all(narrow, shape, coords), decode_all(wide, padded, coords)
        self.assertLess((a - b).abs().max().item(), 1e-3)
        for kind in ("mean", "std"):
            values = wide.args["shape_slat_normalization"][kind]
            self.assertEqual(values[:9] + values[-3:], narrow.args["shape_slat_normalization"][kind])
            self.assertEqual(len(values), 32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1])
