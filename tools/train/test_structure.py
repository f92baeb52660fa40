# SPDX-License-Identifier: MIT
"""The stages of the image encoder and of the structure: targets agree with geometry, mirrored objects with their mirrored pictures, and a
short run of the stages ends in a model that loads. Exit code 77 (skipped) without torch or Pillow.
Usage: test_structure.py LIBRARY SOURCE_DIR KERNELS"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    from PIL import Image  # noqa: F401 (objects.py needs it)
except ImportError:
    print("SKIPPED: the trainer needs python3-torch and python3-pil")
    sys.exit(77)

import numpy as np

import export
import kernels
import structure_data
from checkpoint import read_arrays
from flow import FlowModel, dense_coords
from objects import ELLIPSOID, Object, Sketch, crop_box, load_library
from pipeline import TinyPipeline
from structure import position_channels
from structure_training import Objects, cell_losses, random_times, velocity
from train_image_encoder import Heads, with_layers, with_patches
from train_structure_encoder import new_structure_encoder, overlap, with_position

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, MODEL = load_library(sys.argv[1]), os.path.join(sys.argv[2], "models", "tiny")


def sphere(radius, center, color):
    sketch = Sketch(0)
    sketch.add(ELLIPSOID, center, [radius] * 3, color)
    item = Object.__new__(Object)
    item.library, item.seed, item.parts = LIBRARY, 0, np.ascontiguousarray(np.stack(sketch.parts))
    item.scale, item.center = 1.0, np.zeros(3, np.float32)
    return item


class Targets(unittest.TestCase):
    def test_sphere(self):
        """A sphere fills pi / 4 of the square around it; what is seen lies on it, on the camera's side, and has its colour."""
        item = sphere(0.4, [0.05, 0, -0.02], [0.2, 0.4, 0.6])
        box = crop_box(item.picture(3, structure_data.DRAWN))
        patches = structure_data.patch_targets(item.surface(3, structure_data.SURFACE), box).astype(float)
        covered = patches[..., 0]
        self.assertAlmostEqual(covered.mean(), np.pi / 4, delta=0.02)
        seen = patches[covered == 1]
        distance = np.linalg.norm(seen[:, 1:4] - [0.05, 0, -0.02], axis=1)
        self.assertTrue(((distance > 0.38) & (distance < 0.401)).all(), "a mean of points on the sphere lies little below it")
        self.assertGreater((seen[:, 1:4] @ item.view(3)[0][:3]).min(), 0)
        np.testing.assert_allclose(seen[:, 4:], np.tile([0.2, 0.4, 0.6], (len(seen), 1)), atol=1e-3)

    def test_cell_losses(self):
        """Two of three cells right and one too many: 2 / 4; where nothing is known, ln 2 a cell."""
        occupied = torch.tensor([[True, True, True, False, False]])
        values = cell_losses(torch.tensor([[40.0, 40, -40, 40, -40]]), occupied)
        self.assertAlmostEqual(values["overlap"].item(), 0.5, places=6)
        self.assertAlmostEqual(values["cells"].item(), 40 * 2 / 5, places=4)
        self.assertAlmostEqual(cell_losses(torch.zeros(1, 5), occupied)["cells"].item(), np.log(2), places=6)

    def test_occupancy(self):
        """Cells at a quarter of the resolution, and only those."""
        volume = structure_data.occupancy(np.array([[0, 0, 0], [3, 3, 3], [4, 60, 63]], np.uint8))
        self.assertEqual(np.argwhere(volume).tolist(), [[0, 0, 0], [1, 15, 15]])

    def test_times(self):
        """Each picture gets early and late times, and together they have the distribution's median."""
        times = random_times(2000, 3)
        self.assertTrue((times[:, 0] < times[:, 2]).all())
        self.assertAlmostEqual(times.median().item(), torch.sigmoid(torch.tensor(0.8)).item(), delta=0.01)


class Networks(unittest.TestCase):
    def test_shared_context(self):
        """Samples that share a picture need its features once."""
        torch.manual_seed(0)
        model = TinyPipeline(MODEL).structure_flow
        self.assertIsInstance(model, FlowModel)
        x, t, context = torch.randn(6, 64, 8), torch.rand(6), torch.randn(2, 69, 128)
        with torch.no_grad():
            shared = model(x, t, context, dense_coords(4))
            alone = model(x, t, context.repeat_interleave(3, 0), dense_coords(4))
            kernels.load(sys.argv[3])
            fast = velocity(model, x, t, context)
            kernels.load(None)
        self.assertLess((shared - alone).abs().max().item(), 1e-5)
        self.assertLess((shared - fast).square().mean().item(), 1e-4 * shared.square().mean().item(), "bfloat16 products")

    def test_smaller_patches(self):
        """Where nothing changes from pixel to pixel, patches of half the size see what the larger ones saw."""
        pipeline = TinyPipeline(MODEL)
        with open(os.path.join(MODEL, "dinov3-tiny", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        half = config["patch_size"] // 2
        other = with_patches(pipeline.image_encoder, config, half)
        pixels = torch.tensor([0.3, -1.0, 2.0]).reshape(1, 3, 1, 1).expand(1, 3, 128, 128)
        before, after = (encoder.embeddings.patch_embeddings(pixels) for encoder in (pipeline.image_encoder, other))
        self.assertEqual(after.shape[2:], (128 // half, 128 // half))
        self.assertLess((before[:, :, 0, 0] - after[:, :, 5, 9]).abs().max().item(), 1e-4)

    def test_more_layers(self):
        """New layers change nothing until they are trained, and can be."""
        pipeline = TinyPipeline(MODEL)
        with open(os.path.join(MODEL, "dinov3-tiny", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        count = config["num_hidden_layers"]
        other, pixels = with_layers(pipeline.image_encoder, config, count + 2), torch.randn(1, 3, 128, 128)
        self.assertEqual(len(other.layer), count + 2)
        out = other(pixels)
        self.assertLess((out - pipeline.image_encoder(pixels)).abs().max().item(), 1e-5)
        out.square().mul(torch.randn_like(out)).sum().backward()
        self.assertGreater(other.layer[count].layer_scale2.lambda1.grad.abs().max().item(), 0)

    def test_heads(self):
        """A patch of 2 x 2 targets answers for those that lie in it."""
        heads, patches = Heads(5, 8), torch.rand(1, 16, 16, 7) * 0.5 + 0.25
        batch = type("Batch", (), {"patches": patches, "cameras": torch.zeros(1, 4), "categories": torch.tensor([0])})
        tokens = torch.zeros(1, 1 + 64, 5)
        with torch.no_grad():
            heads.patch.weight.zero_()
            heads.patch.bias.copy_(patches[0, 6:8, 2:4].reshape(-1))  # right for the patch in row 3, column 1
            errors = []
            for row, column in ((3, 1), (1, 3)):
                only = torch.zeros_like(patches)
                only[:, 2 * row:2 * row + 2, 2 * column:2 * column + 2] = patches[:, 2 * row:2 * row + 2, 2 * column:2 * column + 2]
                batch.patches = only
                errors.append(heads.losses(tokens, batch)["position"].item())
        self.assertLess(errors[0], 1e-6)
        self.assertGreater(errors[1], 0.05)

    def test_position_channels(self):
        """Mean 0, deviation 1; the axis is the volume's."""
        channels = position_channels(4)
        self.assertAlmostEqual(channels[1, 2, 3, 0].item(), 1.5 / 1.25 ** 0.5, places=6)
        self.assertAlmostEqual(channels.std(unbiased=False).item(), 1, places=6)


class Stages(unittest.TestCase):
    def run_stage(self, script, work, *arguments):
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.join(HERE, script), sys.argv[1], work, *arguments],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def make(self, work):
        for folder, first, count in (("pictures", structure_data.TRAINING, 5), ("validation", structure_data.VALIDATION, 2)):
            os.mkdir(os.path.join(work, folder))
            structure_data.make_file(LIBRARY, os.path.join(work, folder, f"{first}.npz"), first, count, 2)

    def check_objects(self, work):
        """Encoding and decoding gives occupancy; the mirrored item is the mirror of the item."""
        objects = Objects(work, "pictures")
        picture, patches, camera, category, occupied, _ = objects.item(3, 1, False)
        other = objects.item(3, 1, True)
        self.assertEqual(category, (structure_data.TRAINING + 3) % 13)
        self.assertTrue(np.array_equal(other[0], picture[:, ::-1]))
        self.assertTrue(np.array_equal(other[4], occupied[::-1]))
        np.testing.assert_allclose(other[1][:, ::-1] * [1, -1, 1, 1, 1, 1, 1], patches)
        np.testing.assert_allclose(other[2], camera * [-1, 1, 1, 1])

    def test_smoke(self):
        with tempfile.TemporaryDirectory() as work:
            self.make(work)
            text = self.run_stage("train_structure_encoder.py", work, "--steps", "200", "--rate", "4e-3", "--batch", "4", "--held-out", "2")
            losses = [float(line.split("loss ")[1].split()[0]) for line in text.splitlines() if "held out" in line]
            self.assertLess(losses[-1], 0.7 * losses[0])
            self.check_objects(work)
            small = ["--batch", "2", "--held-out", "2", "--patch", "8", "--layers", "5"]
            self.run_stage("train_image_encoder.py", work, "--steps", "2", *small)
            self.assertIn("resumed at step 2", self.run_stage("train_image_encoder.py", work, "--steps", "3", *small))
            self.run_stage("train_structure_flow.py", work, "--steps", "2", "--bf16", "--kernels", sys.argv[3], *small)
            out = os.path.join(work, "model")
            with mock.patch.object(sys, "argv", ["export.py", MODEL, out, "--image-encoder", os.path.join(work, "image_encoder.pt"),
                                                 "--structure-flow", os.path.join(work, "structure_flow.pt")]):
                export.main()
            encoder = TinyPipeline(out).image_encoder
            self.assertEqual((encoder.embeddings.patch_embeddings.weight.shape[2:], len(encoder.layer)), ((8, 8), 5))
            self.check_one_step(work, out, small)
            name = os.path.join("ckpts", "ss_flow_tiny_bf16.safetensors")
            before, after = read_arrays(os.path.join(MODEL, name)), read_arrays(os.path.join(out, name))
            moved = np.abs(before["out_layer.weight"] - after["out_layer.weight"]).max()
            self.assertTrue(0 < moved < 0.1, moved)

    def check_one_step(self, work, model, small):
        """The stage for a sampler of one step starts from an exported model, patches and all, and moves the decoder too."""
        os.remove(os.path.join(work, "image_encoder.pt"))
        text = self.run_stage("train_image_encoder.py", work, "--model", model, "--steps", "2", "--one-step", *small[:4])
        self.assertNotIn(" iou ", text)
        out, file = os.path.join(work, "one"), os.path.join(work, "image_encoder.pt")
        with mock.patch.object(sys, "argv", ["export.py", model, out, "--image-encoder", file, "--structure-flow", file,
                                             "--structure-decoder", file]):
            export.main()
        for name, tensor in (("ss_dec_tiny_fp16", "out_layer.2.weight"), ("ss_flow_tiny_bf16", "out_layer.weight")):
            before, after = (read_arrays(os.path.join(folder, "ckpts", name + ".safetensors"))[tensor] for folder in (model, out))
            self.assertTrue(0 < np.abs(before - after).max() < 0.1, name)

    def test_autoencoder_sees_position(self):
        """What the encoder makes has the decoder's number of channels; overlap is that of the sets."""
        volumes = torch.zeros(1, 16, 16, 16, dtype=torch.bool)
        volumes[0, :2, 0, 0] = True
        latent = with_position(new_structure_encoder()(volumes[:, None].float())[0])
        self.assertEqual(latent.shape, (1, 8, 4, 4, 4))
        logits = torch.full((1, 1, 16, 16, 16), -1.0)
        logits[0, 0, 1:4, 0, 0] = 1
        self.assertAlmostEqual(overlap(logits, volumes).item(), 0.25)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1])
