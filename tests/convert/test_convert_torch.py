# SPDX-License-Identifier: MIT
"""The converter of matting weights on files that PyTorch itself wrote: archives of torch.save in the forms people have, and ONNX exports of
U2-NetP and IS-Net. Exit code 77 (skipped) where torch is not installed. Usage: test_convert_torch.py BUILD_DIR SOURCE_DIR"""
import os
import sys
import unittest
import warnings

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("SKIPPED: reading PyTorch's own files needs python3-torch, which is not installed")
    sys.exit(77)

import files
import graph
import test_convert
from test_convert import MODEL, Base, golden

TORCH = {"F32": torch.float32, "F16": torch.float16}


def to_torch(tensor):
    dtype, shape, data = tensor
    return torch.frombuffer(bytearray(data), dtype=TORCH[dtype]).reshape(shape)


class Network(torch.nn.Module):
    """U2-Net or IS-Net, made for the widths of the weights that it is given; graph.forward runs over its methods."""

    def __init__(self, weights, isnet):
        super().__init__()
        self.isnet = isnet
        state = {name: to_torch(tensor) for name, tensor in weights.items()}
        for name, weight in state.items():
            if weight.dim() == 4:
                conv = name[:-len(".weight")]
                dilated = torch.nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2])
                self.place(conv, dilated)
                if "rebnconv" in conv:
                    self.place(conv.replace("conv_s1", "bn_s1"), torch.nn.BatchNorm2d(weight.shape[0]))
        self.load_state_dict({name: tensor.float() for name, tensor in state.items()}, strict=False)
        self.eval()

    def place(self, name, module):
        parent = self
        *path, last = name.split(".")
        for part in path:
            if part not in parent._modules:
                parent.add_module(part, torch.nn.Module())
            parent = parent._modules[part]
        parent.add_module(last, module)

    def conv(self, x, name, pad, stride=1, dilation=1):
        module = self.get_submodule(name)
        module.padding, module.stride, module.dilation = (pad, pad), (stride, stride), (dilation, dilation)
        return module(x)

    def batch_norm(self, x, name):
        return self.get_submodule(name)(x)

    def relu(self, x):
        return F.relu(x)

    def pool(self, x):
        return F.max_pool2d(x, 2, 2, ceil_mode=True)

    def resize(self, x, like):
        return F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)

    def concat(self, xs):
        return torch.cat(xs, 1)

    def add(self, a, b):
        return a + b

    def sigmoid(self, x):
        return torch.sigmoid(x)

    def forward(self, picture):
        return tuple(graph.forward(self, picture, self.isnet))


def network(case, isnet):
    everything, weights = golden(case)
    return everything, {name: files.floats(files.values(tensor), tensor[1]) for name, tensor in weights.items()}, Network(weights, isnet)


class TorchFiles(Base):
    def save(self, value, **options):
        path = self.path("saved.pth")
        torch.save(value, path, **options)
        with open(path, "rb") as file:
            return file.read()

    def network(self, case="u2netp", isnet=False):
        everything, self.weights, module = network(case, isnet)
        return everything, module

    def same(self, found):
        found = {name: tensor for name, tensor in found.items() if not name.endswith("num_batches_tracked")}
        self.assertEqual(found, dict(sorted(self.weights.items())))

    def test_reference(self):
        """The modules of this test are the golden case's network."""
        for case, isnet in test_convert.NETWORKS:
            everything, module = self.network(case, isnet)
            with torch.no_grad():
                results = module(to_torch(everything["in.x"]))
            for i, result in enumerate(results):
                want = to_torch(everything[f"out.d{i + isnet}"])
                self.assertLess(float((result - want).norm() / want.norm()), 1e-5)

    def test_archives(self):
        _, module = self.network()
        state = module.state_dict()
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
        for value in (state, torch.nn.DataParallel(module).state_dict(), dict(state),
                      dict(module.named_parameters()) | dict(module.named_buffers()),
                      {"state_dict": state, "epoch": 7, "best": 0.5, "optimizer": optimizer.state_dict(), "done": True, "note": None},
                      {name: tensor.T.contiguous().T if tensor.dim() else tensor for name, tensor in state.items()},
                      {name: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
                       for name, tensor in state.items()},
                      {name: torch.stack([tensor, tensor + 1], -1)[..., 0] for name, tensor in state.items()}):
            self.same(self.converted(self.save(value)))
        half = {name: tensor.half() if tensor.dim() == 4 else tensor.bfloat16() for name, tensor in state.items()}
        self.assertEqual({one[0] for one in self.converted(self.save(half)).values()}, {"F16", "BF16"})

    def test_trained_archive(self):
        """Weights and optimizer after a step, so that the checkpoint holds the optimizer's tensors as well."""
        everything, module = self.network("isnet_tiny", True)
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
        module(to_torch(everything["in.x"]))[0].mean().backward()
        optimizer.step()
        self.weights = {name: ("F32", tuple(tensor.shape), tensor.detach().numpy().tobytes())
                        for name, tensor in module.state_dict().items() if tensor.dtype == torch.float32}
        self.same(self.converted(self.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()})))

    def test_refused(self):
        _, module = self.network()
        for data, words in ((self.save(module.state_dict(), _use_new_zipfile_serialization=False), "before 1.6"),
                            (self.save(module), ".Network'"),
                            (self.save({"state_dict": module.state_dict(), "when": os.stat_result(range(10))}), "stat_result"),
                            (self.save({"a": module.state_dict(), "b": module.state_dict()}), "2 dictionaries of tensors"),
                            (self.save(module.conv_in.weight if hasattr(module, "conv_in") else module.side1.weight), "a single tensor")):
            status, out, err = self.convert(data)
            self.assertEqual((status, out), (MODEL, ""))
            self.assertIn(words, err)
        traced = torch.jit.trace(module, torch.zeros(1, 3, 32, 32), check_trace=False)
        torch.jit.save(traced, self.path("saved.pth"))
        with open(self.path("saved.pth"), "rb") as file:
            status, _, err = self.convert(file.read())
        self.assertEqual(status, MODEL)
        self.assertIn("TorchScript", err)

    def export(self, module, everything, **options):
        path = self.path("exported.onnx")
        torch.onnx.export(module, to_torch(everything["in.x"]), path, opset_version=options.pop("opset_version", 11), **options)
        with open(path, "rb") as file:
            return file.read()

    def test_folded_exports(self):
        everything, module = self.network()
        for folding in (True, False):
            with self.subTest(folding=folding):
                tensors = self.converted(self.export(module, everything, do_constant_folding=folding))
                self.assertEqual(len(tensors), 2 * 119)
        self.run_golden("u2netp", tensors)

    def test_export_with_batch_norms(self):
        """The exporter leaves them apart when it is told to keep the mode."""
        everything, module = self.network("isnet_tiny", True)
        self.same(self.converted(self.export(module, everything, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                                             opset_version=16, dynamic_axes={"picture": [2, 3]}, input_names=["picture"])))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unittest.main(warnings="ignore", argv=sys.argv[:1], defaultTest="TorchFiles")
