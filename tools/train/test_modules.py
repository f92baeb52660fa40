# SPDX-License-Identifier: MIT
"""Checks that the training modules compute what the reference computes: the golden cases in tests/golden, and the shipped model's
recorded results. Exit code 77 (skipped) where torch is not installed. Usage: test_modules.py SOURCE_DIR"""
import json
import os
import sys
import unittest

try:
    import torch
except ImportError:
    print("SKIPPED: the trainer needs python3-torch, which is not installed")
    sys.exit(77)

import numpy as np

from checkpoint import read_arrays, to_bfloat16_bits, write_arrays
from flow import FlowModel, dense_coords, sample
from image_encoder import ImageEncoder, normalize_pictures
from pipeline import TinyPipeline
from sparse import Grid, SparseConv3d
from structure import StructureDecoder
from vae import ConvNeXtBlock, SparseDecoder, UpBlock, predicted

SOURCE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", ".."))


def tensor(array):
    return torch.from_numpy(np.asarray(array, np.float32))


class Case:
    """A golden case: its tensors, its weights as a state dict, its tolerance."""

    def __init__(self, name, siblings=()):
        folder = os.path.join(SOURCE, "tests", "golden", name)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.arrays = read_arrays(os.path.join(folder, "case.safetensors"))
        self.tolerance = self.config["tolerance"]["default"]["rel_l2"]

    def weights(self, prefix="w."):
        return {name[len(prefix):]: tensor(array) for name, array in self.arrays.items() if name.startswith(prefix)}

    def __getitem__(self, name):
        return self.arrays[name]


class Golden(unittest.TestCase):
    def close(self, case, name, got):
        want = case[name].astype(np.float64)
        error = np.linalg.norm(got.detach().numpy().reshape(want.shape) - want) / np.linalg.norm(want)
        self.assertLessEqual(error, case.tolerance, name)

    def same_rows(self, want, got):
        self.assertTrue(np.array_equal(want.astype(np.int64), got), "coordinates and their order")

    def test_convolution(self):
        case = Case("sparse_conv")
        for name in case.config["cases"]:
            weight = case["w." + name + ".weight"]
            conv = SparseConv3d(weight.shape[4], weight.shape[0])
            conv.load_state_dict(case.weights("w." + name + "."))
            self.close(case, f"out.{name}.feats", conv(tensor(case[f"in.{name}.feats"]), Grid(case[f"in.{name}.coords"])))

    def test_convolution_gradient(self):
        """Against differences: the convolution is linear, so they are exact up to rounding."""
        generator = torch.Generator().manual_seed(1)
        coords = np.unique(np.random.default_rng(1).integers(0, 5, (60, 4)) * [0, 1, 1, 1], axis=0)
        grid, conv = Grid(coords), SparseConv3d(3, 2)
        feats = torch.randn(len(grid), 3, generator=generator, requires_grad=True)
        out = torch.randn(len(grid), 2, generator=generator)
        (conv(feats, grid) * out).sum().backward()
        for value, grad in ((feats, feats.grad), (conv.weight, conv.weight.grad), (conv.bias, conv.bias.grad)):
            direction = torch.randn(value.shape, generator=generator)
            with torch.no_grad():
                value += direction
                plus = (conv(feats, grid) * out).sum().item()
                value -= 2 * direction
                minus = (conv(feats, grid) * out).sum().item()
                value += direction
            self.assertAlmostEqual((plus - minus) / 2, (grad * direction).sum().item(), delta=1e-3)

    def test_convnext_block(self):
        case = Case("convnext_block")
        block = ConvNeXtBlock(case.config["channels"], case.config["mlp_ratio"])
        block.load_state_dict(case.weights())
        self.close(case, "out.feats", block(tensor(case["in.feats"]), Grid(case["in.coords"])))

    def test_up_block(self):
        case = Case("c2s_block")
        block = UpBlock(case.config["channels"], case.config["out_channels"], True)
        block.load_state_dict(case.weights())
        for prefix, choose in (("out.", lambda logits, grid: predicted(0, logits, grid)),
                               ("out.guided.", lambda logits, grid: case["in.guide_logits"] > 0)):
            feats, grid, logits = block(tensor(case["in.feats"]), Grid(case["in.coords"]), choose)
            self.same_rows(case[prefix + "coords"], grid.coords)
            self.close(case, prefix + "feats", feats)
        self.close(case, "out.subdiv_logits", logits)

    def test_decoders(self):
        for name, outputs, predicts in (("shape_decoder", 7, True), ("tex_decoder", 6, False)):
            case = Case(name)
            args = case.config["args"]
            model = SparseDecoder(outputs, args["model_channels"], args["num_blocks"], predicts, args["latent_channels"])
            model.load_state_dict(case.weights())
            choose = predicted if predicts else lambda level, logits, grid, case=case: case[f"in.guide_subs{level}"] > 0
            out, grid, logits = model(tensor(case["in.feats"]), Grid(case["in.coords"]), choose)
            self.same_rows(case["out.level4.coords" if predicts else "out.coords"], grid.coords)
            self.close(case, "out.head7" if predicts else "out.head6", out)
            for level in range(4 if predicts else 0):
                self.close(case, f"out.subs{level}.logits", logits[level])

    def test_structure_decoder(self):
        case = Case("ss_decoder")
        for args, prefix, output in (("args", "w.", "out.logits"), ("args_group", "w.group.", "out.group.logits")):
            model = StructureDecoder(**case.config[args])
            model.load_state_dict({k: v for k, v in case.weights(prefix).items() if not k.startswith("group.")})
            self.close(case, output, model(tensor(case["in.latent"])))

    def test_image_encoder(self):
        for name in ("dinov3_h64_64", "dinov3_h96_96", "dinov3_h80_rect", "dinov3_eps_hd64"):
            case = Case(name)
            model = ImageEncoder(**case.config["config"])
            model.load_state_dict(case.weights())
            self.close(case, "out.cond", model(tensor(case["in.pixels"])))

    def test_flow(self):
        for name in ("ss_flow_c64", "ss_flow_c96", "ss_flow_c72_b2", "slat_shape_c64", "slat_shape_hd128", "slat_tex_c64", "slat_tex_c96"):
            case = Case(name)
            args = case.config["model"]["args"]
            model = FlowModel(**args)
            model.load_state_dict(case.weights())
            x = tensor(case["in.x"])
            if x.ndim == 5:
                tokens, coords = x.flatten(2).transpose(1, 2), dense_coords(args["resolution"]).expand(len(x), -1, -1)
            else:
                tokens, coords = x[None], torch.from_numpy(case["in.coords"][None, :, 1:])
                if "in.concat_cond" in case.arrays:
                    tokens = torch.cat([tokens, tensor(case["in.concat_cond"])[None]], dim=-1)
            out = model(tokens, tensor(case["in.t"]) / 1000, tensor(case["in.cond"]), coords)
            self.close(case, "out.final", out.transpose(1, 2) if x.ndim == 5 else out)

    def test_samplers(self):
        for name in ("sampler_shape", "sampler_tex", "sampler_tex_cfg", "sampler_ss", "sampler_ss_norescale"):
            case = Case(name)
            args = case.config["model"]["args"]
            model = FlowModel(**args)
            model.load_state_dict(case.weights())
            noise, dense = tensor(case["in.noise"]), case["in.noise"].ndim == 5
            concat = tensor(case["in.concat_cond"])[None] if "in.concat_cond" in case.arrays else None
            tokens = noise.flatten(2).transpose(1, 2) if dense else noise[None]
            coords = dense_coords(args["resolution"]) if dense else torch.from_numpy(case["in.coords"][None, :, 1:])
            out = sample(model, tokens, tensor(case["in.cond"]), coords, case.config["sampler"], concat, dense)
            self.close(case, "out.sample", out.transpose(1, 2) if dense else out)

    def test_shipped_model(self):
        """The modules on the shipped weights, from the recorded input of each stage, against the recorded results."""
        model = TinyPipeline(os.path.join(SOURCE, "models", "tiny"))
        for name in ("bottle_1", "robot_1", "rocket_1"):
            want = read_arrays(os.path.join(SOURCE, "models", "tiny", "expected", name + "_seed42.safetensors"))

            def near(key, got, limit):
                self.assertLess(np.abs(got.detach().numpy().reshape(want[key].shape) - want[key]).max(), limit, key)

            near("cond", model.image_encoder(normalize_pictures(want["image"][None])), 2e-5)
            near("ss_logits", model.structure_decoder(tensor(want["ss_latent"])[None]), 1e-3)
            out, grid, _ = model.decode_shape(tensor(want["shape_slat"]), want["coords"])
            rows = grid.rows_of(want["dec_coords"])
            self.assertEqual(len(rows), len(grid))
            near("dec_out", out[torch.from_numpy(rows)], 1e-3)


class Files(unittest.TestCase):
    def test_rounding(self):
        """Ties go to the even neighbour; 1 + 2^-8 lies halfway between two bfloat16 numbers."""
        values = np.array([1.0, 1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, -2.5, 0.0], np.float32)
        self.assertEqual([hex(v) for v in to_bfloat16_bits(values)], ["0x3f80", "0x3f80", "0x3f82", "0xc020", "0x0"])

    def test_round_trip(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"espalier-train-{os.getpid()}.safetensors")
        arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3) / 4, "a": np.array([1, 2], np.uint8)}
        try:
            for dtype in (None, "BF16", "F16"):  # quarters are exact in each
                write_arrays(path, arrays, dtype)
                back = read_arrays(path)
                for name, array in arrays.items():
                    self.assertTrue(np.array_equal(back[name], array))
        finally:
            os.remove(path)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
