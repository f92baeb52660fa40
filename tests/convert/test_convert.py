# SPDX-License-Identifier: MIT
"""The converter of matting weights: golden cases through every form of file it reads, and files made to break it.
Usage: test_convert.py BUILD_DIR SOURCE_DIR"""
import contextlib
import io
import json
import os
import pickle
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tools", "convert"))

import convert_matting
import files
import graph
from files import OnnxFile, archive, field, floats, number, pickled, state_pickle, tensor_pickle, text, torch_file

TOOL = os.path.join(SOURCE, "tools", "convert", "convert_matting.py")
MODEL = 4


def limit_memory(size):
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


def golden(case):
    """All tensors of a golden case, and its weights under PyTorch's names."""
    everything = files.read_safetensors(os.path.join(SOURCE, "tests", "golden", case, "case.safetensors"))
    return everything, {name[2:]: tensor for name, tensor in everything.items() if name.startswith("w.")}


def onnx(weights, isnet=False, sides=6, change=None, **options):
    model = OnnxFile(weights, **options)
    graph.forward(model, "picture", isnet, sides)
    if change:
        change(model)
    return model.bytes()


class Base(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = holder.name

    def path(self, name, data=None):
        path = os.path.join(self.dir, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def convert(self, data, *options, name="input"):
        """exit status, standard output, standard error; in this process, so that any other exception than a refusal fails the test."""
        out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = convert_matting.main([self.path(name, data), "-o", self.path("out.safetensors"), *options])
        return status, out.buffer.getvalue().decode(), err.getvalue()

    def converted(self, data, *options):
        status, out, err = self.convert(data, *options)
        self.assertEqual((status, err), (0, ""))
        return files.read_safetensors(self.path("out.safetensors"))

    def refused(self, data, *words, status=MODEL, options=()):
        found, out, err = self.convert(data, *options)
        self.assertEqual((found, out), (status, ""), err)
        self.assertRegex(err, r"\Aconvert_matting: [ -~]{1,700}\n\Z")
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(sorted(os.listdir(self.dir)), ["input"])

    def run_golden(self, case, tensors, without=()):
        """The case with the converted weights instead of its own."""
        everything, _ = golden(case)
        folder = self.path("case-" + case)
        os.makedirs(folder)
        kept = {name: tensor for name, tensor in everything.items() if not name.startswith("w.") and name not in without}
        files.write_safetensors(os.path.join(folder, "case.safetensors"), kept | {"w." + name: one for name, one in tensors.items()})
        with open(os.path.join(SOURCE, "tests", "golden", case, "config.json"), "rb") as source:
            self.path(os.path.join(folder, "config.json"), source.read())
        done = subprocess.run([os.path.join(BUILD, "espalier-golden"), "--expect-cases", "1", folder], capture_output=True, text=True,
                              preexec_fn=lambda: limit_memory(resource.RLIM_INFINITY))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("out.d1", done.stdout)


NETWORKS = (("u2netp", False), ("isnet_tiny", True))


class GoldenCases(Base):
    def test_batch_norms_kept(self):
        """Every form of ONNX file and archive gives back the very tensors it was made from, whatever they are called in it."""
        forms = {"plain": {}, "anonymous": {"anonymous": True}, "Constant nodes": {"constants": True, "anonymous": True},
                 "typed fields": {"typed": True, "anonymous": True}, "Cast nodes": {"casts": True}}
        for case, isnet in NETWORKS:
            _, weights = golden(case)
            for form, options in forms.items():
                with self.subTest(case=case, form=form):
                    self.assertEqual(self.converted(onnx(weights, isnet, **options)), dict(sorted(weights.items())))
            self.run_golden(case, self.converted(onnx(weights, isnet, anonymous=True)))

    def test_batch_norms_folded(self):
        for case, isnet in NETWORKS:
            _, weights = golden(case)
            tensors = self.converted(onnx(weights, isnet, fold=True, anonymous=True))
            self.assertEqual(len(tensors), 2 * 119)
            self.run_golden(case, tensors)

    def test_archives(self):
        wrap = {"plain": ("", lambda state: state), "module.": ("module.", lambda state: state),
                "compiled": ("module._orig_mod.", lambda state: state),
                "checkpoint": ("", lambda state: b"}(" + text("epoch") + number(3) + text("state_dict") + state + text("lr") + b"G" +
                               struct.pack(">d", 0.1) + text("optimizer") + b"}" + text("betas") + b"]" + number(1) + b"asu")}
        for case in ("u2netp", "isnet_tiny", "birefnet_tiny"):
            _, weights = golden(case)
            for form, (prefix, function) in wrap.items():
                with self.subTest(case=case, form=form):
                    self.assertEqual(self.converted(torch_file(weights, prefix, function)), dict(sorted(weights.items())))
        self.run_golden("isnet_tiny", self.converted(torch_file(golden("isnet_tiny")[1])))

    def test_only_first_side_map(self):
        """An IS-Net exported for use lacks the side maps of training."""
        _, weights = golden("isnet_tiny")
        tensors = self.converted(onnx(weights, True, sides=1))
        self.run_golden("isnet_tiny", tensors, without=tuple(f"out.d{i}" for i in range(2, 7)))
        self.assertEqual(set(weights) - set(tensors), {f"side{i}.{part}" for i in range(2, 7) for part in ("weight", "bias")})

    def test_strides(self):
        """A transposed weight, one inside a larger storage, and two that share one storage."""
        weights = files.tiny_weights(False)
        name = "stage1.rebnconvin.conv_s1.weight"
        shape = weights[name][1]
        order = files.values(weights[name])
        channels_last = [order[((o * 3 + c) * 3 + y) * 3 + x] for o in range(2) for y in range(3) for x in range(3) for c in range(3)]
        entries, storages = [], {}
        for i, (key, (dtype, extents, data)) in enumerate(weights.items()):
            count, offset, strides = len(data) // 4, 0, files.dense_strides(extents)
            if key == name:
                data, strides, offset, count = bytes(20) + floats(channels_last, shape)[2] + bytes(8), [27, 1, 9, 3], 5, len(order) + 7
            storages[str(i)] = data
            entries.append((key, tensor_pickle(dtype, str(i), count, offset, extents, strides)))
        self.assertEqual(self.converted(archive(state_pickle(entries), storages)), dict(sorted(weights.items())))

    def test_types(self):
        weights = files.tiny_weights(False)
        name = "stage2.rebnconv3.conv_s1.weight"
        plain = files.values(weights[name])
        for dtype, data in (("F64", struct.pack(f"<{len(plain)}d", *plain)),
                            ("BF16", b"".join(struct.pack("<f", value)[2:] for value in plain))):
            weights[name] = (dtype, weights[name][1], data)
            exact = plain
            if dtype == "BF16":
                exact = [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
            for file in (onnx(weights), onnx(weights, typed=True), torch_file(weights)):
                kept = self.converted(file)[name]
                self.assertEqual(kept, floats(plain, kept[1]) if dtype == "F64" else weights[name])
                half = self.converted(file, "--f16")
                self.assertEqual(half[name], floats(exact, kept[1], "F16"))
                self.assertEqual({one[0] for one in half.values()}, {"F16", "F32"})
                self.assertTrue(all((one[0] == "F16") == (len(one[1]) > 1) for one in half.values()))

    def test_list(self):
        _, weights = golden("isnet_tiny")
        path = self.path("isnet.onnx", onnx(weights, True, fold=True))
        done = subprocess.run([sys.executable, TOOL, path, "--list"], capture_output=True, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual((done.returncode, done.stderr, len(lines)), (0, "", 1 + 2 * 119))
        self.assertRegex(lines[0], r"^IS-Net: 238 tensors, \d+ values, \d+ bytes, batch norms folded$")
        self.assertEqual(lines[2].split(), ["conv_in.weight", "F16", "[8,", "3,", "3,", "3]", "conv_in.weight"])
        self.assertEqual(sorted(os.listdir(self.dir)), ["isnet.onnx"])


class Refusals(Base):
    def onnx(self, change=None, **options):
        return onnx(files.tiny_weights(options.get("isnet", False)), change=change, **options)

    def test_arguments_and_files(self):
        def run(*arguments):
            done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)
            self.assertRegex(done.stderr, r"\Aconvert_matting: [ -~]+\n\Z")
            return done.returncode, done.stderr
        good = self.path("good.onnx", self.onnx())
        self.assertEqual(run(), (2, "convert_matting: the following arguments are required: input; see --help\n"))
        self.assertEqual(run(good)[0], 2)
        self.assertEqual(run(good, "--nonsense")[0], 2)
        self.assertEqual(run(good, "-o", good)[0], 2)
        self.assertIn("No such file", run(self.path("none"), "--list")[1])
        self.assertEqual(run(self.dir, "--list"), (4, f"convert_matting: {self.dir}: not a file\n"))
        self.assertEqual(run(self.path("empty", b""), "--list"), (4, f"convert_matting: {self.path('empty')}: empty\n"))
        missing = os.path.join(self.dir, "none", "out")
        self.assertEqual(run(good, "-o", missing), (7, f"convert_matting: {missing}: No such file or directory\n"))
        self.assertEqual(run(good, "-o", self.dir)[0], 7)
        self.assertEqual(sorted(os.listdir(self.dir)), ["empty", "good.onnx"])

    def test_output_whole_or_not_at_all(self):
        """A failure while the output is being written leaves what was there before."""
        weights = files.tiny_weights(False)
        weights["stage6.rebnconv4.conv_s1.weight"] = floats([1e6] * 36, (2, 2, 3, 3))
        before = self.path("out.safetensors", b"before")
        for data in (onnx(weights), torch_file(weights)):
            status, _, err = self.convert(data, "--f16")
            self.assertEqual(status, MODEL)
            self.assertIn("tensor stage6.rebnconv4.conv_s1.weight has values too large for F16", err)
            with open(before, "rb") as file:
                self.assertEqual(file.read(), b"before")
            self.assertEqual(sorted(os.listdir(self.dir)), ["input", "out.safetensors"])
        os.unlink(before)
        data = bytearray(torch_file(files.tiny_weights(False)))
        at = data.index(files.tiny_weights(False)["outconv.weight"][2])
        data[at] ^= 1
        self.refused(bytes(data), "Bad CRC-32")

    def test_interrupted(self):
        """Neither signal leaves anything behind."""
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with unittest.mock.patch.object(convert_matting.os, "fsync", lambda file: os.kill(os.getpid(), number)):
                self.refused(self.onnx(), "interrupted", status=status)

    def test_full_output(self):
        path = self.path("input", self.onnx())
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, TOOL, path, "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (7, "convert_matting: standard output cannot be written\n"))

    def test_other_files(self):
        self.refused(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "before 1.6", "torch.save")
        self.refused(pickle.dumps({"a": 1}, 4), "before 1.6")
        self.refused(bytes(257) + b"ustar" + bytes(250), "before 1.6")
        self.refused(b"GGUF" + bytes(60), "nothing to convert")
        self.refused(struct.pack("<Q", 2) + b"{}", "nothing to convert")
        for junk in (b"\0", b"hello, this is no model at all", bytes(1000), b"\xff" * 1000, b"\x89PNG\r\n\x1a\n" + bytes(100)):
            self.refused(junk, "damaged, or no ONNX model")

    def test_other_graphs(self):
        def weight(model, name, data):
            model.tensors.append(field(8, name) + data)
        changes = {
            "functions of its own": lambda m: setattr(m, "extra", field(25, field(1, "f"))),
            "lies in another file": lambda m: weight(m, "w", field(1, 2) + field(2, 1) + field(14, 1)),
            "another file; save": lambda m: weight(m, "w", field(2, 1) + field(13, field(1, "location") + field(2, "../../etc/passwd"))),
            "weight 'same' is there twice": lambda m: [weight(m, "same", field(2, 1) + field(9, bytes(4))) for _ in range(2)],
            "value 'twice' is made twice": lambda m: [m.node("Relu", ["picture"], outputs=["twice"]) for _ in range(2)],
            "that U2-Net, U2-NetP and IS-Net do not have": lambda m: m.node("Conv", [m.concat(["picture"] * 2), "side1.weight"]),
            "with 2 inputs": lambda m: m.inputs.append("another"),
            "adds a map twice": lambda m: m.node("Conv", [m.add("picture", "picture"), "side1.weight"]),
            "adds several maps at once": lambda m: m.node("Conv", [m.add(m.concat(["picture"] * 2), "picture"), "side1.weight"]),
            "quantised to 8 bits": lambda m: m.node("ConvInteger", ["picture"]),
            "depends on its own result": lambda m: [m.node("Relu", ["b"], outputs=["a"]), m.node("Relu", ["a"], outputs=["b"]),
                                                     m.node("Conv", ["a", "side1.weight"])],
            "is made nowhere": lambda m: m.node("Conv", ["nothing", "side1.weight"]),
            "'Softmax' node": lambda m: m.node("Conv", [m.node("Softmax", ["picture"]), "side1.weight"]),
            "is of the domain 'com.example'": lambda m: m.node("Conv", [m.node("Relu", ["picture"], domain="com.example"), "side1.weight"]),
            "a weight where a map is expected": lambda m: m.node("Conv", ["side1.weight", "side1.weight"]),
            "does not follow a convolution": lambda m: m.node("BatchNormalization", ["picture"] + ["side1.bias"] * 4),
            "resizes by 'linear', 'align_corners'": lambda m: m.node("Conv", [m.node("Resize", ["picture"], [
                ("mode", "linear"), ("coordinate_transformation_mode", "align_corners")]), "side1.weight"]),
            "more than 8 maps": lambda m: m.node("Conv", [m.concat(["picture"] * 9), "side1.weight"]),
            "sparse weights": lambda m: setattr(m, "sparse", True)}
        for words, change in changes.items():
            with self.subTest(words):
                model = OnnxFile(files.tiny_weights(False))
                graph.forward(model, "picture", False)
                change(model)
                data = model.bytes()
                if hasattr(model, "sparse"):
                    data = field(7, field(15, b""))
                self.refused(data, words)

    def test_wrong_networks(self):
        def changed(name, tensor):
            return files.tiny_weights(False) | {name: tensor}
        name = "stage3.rebnconv2.conv_s1.weight"
        self.refused(onnx(changed(name, floats([1] * 18, (1, 2, 3, 3)))), "tensor stage3.rebnconv2.conv_s1.bias: shape [2], expected [1]")
        self.refused(onnx(changed(name, floats([1] * 54, (2, 3, 3, 3)))), name + ": shape [2, 3, 3, 3], expected [2, 2, 3, 3]")
        self.refused(onnx(changed(name, ("I64", (2, 2, 3, 3), bytes(288)))), "not of floating-point numbers")
        for number_of, words in ((2, "dilations"), (4, "group")):
            with self.subTest(words):
                class Odd(OnnxFile):
                    def node(self, op, inputs, attributes=(), outputs=None, domain=""):
                        if op == "Conv" and inputs[1] == name:
                            attributes = [(key, [3, 3] if key == words == "dilations" else 2 if key == words else value)
                                          for key, value in attributes]
                        return super().node(op, inputs, attributes, outputs, domain)
                model = Odd(files.tiny_weights(False))
                graph.forward(model, "picture", False)
                self.refused(model.bytes(), f"is where stage3.rebnconv2.conv_s1 should be, but has {words}")

        class Swapped(OnnxFile):
            def concat(self, xs):
                return super().concat(xs[::-1])
        model = Swapped(files.tiny_weights(False))
        graph.forward(model, "picture", False)
        self.refused(model.bytes(), "no convolutions read what stage1.rebnconv6d.conv_s1 should read")

        class OtherEpsilon(OnnxFile):
            def node(self, op, inputs, attributes=(), outputs=None, domain=""):
                return super().node(op, inputs, [(key, 1e-3 if key == "epsilon" else value) for key, value in attributes], outputs, domain)
        model = OtherEpsilon(files.tiny_weights(False))
        graph.forward(model, "picture", False)
        self.refused(model.bytes(), "expected epsilon 1e-5")

        lacking = files.tiny_weights(False)
        del lacking["stage2d.rebnconv4.bn_s1.running_mean"]
        self.refused(torch_file(lacking), "tensor stage2d.rebnconv4.bn_s1.running_mean is missing")
        self.refused(torch_file({"fc.weight": floats([1], (1, 1))}), "neither U2-Net, U2-NetP, IS-Net nor BiRefNet: 1 tensors")

    def test_onnx_that_lies(self):
        """Lengths and shapes far beyond the file are refused before anything of that size is made."""
        name = field(8, "w")
        for tensor, words in ((field(1, 1 << 40) + field(1, 1 << 40) + field(2, 1) + name + field(9, bytes(8)), "8 bytes, expected"),
                              (field(1, -1) + field(2, 1) + name + field(9, b""), "has the shape"),
                              (b"".join(field(1, 1) for _ in range(9)) + field(2, 1) + name + field(9, bytes(4)), "has the shape"),
                              (field(1, 2) + field(2, 10) + name + field(5, files.varint(70000) + files.varint(1)), None),
                              (field(2, 1) + field(2, 1) + name, "field type is there twice"),
                              (field(9, 5), "field raw has wire type 0"),
                              (b"\x4a" + b"\xff" * 9 + b"\x01", "bytes where"), (b"\x4a" + b"\xff" * 11, "does not end"),
                              (field(0, 1), "field number 0"), (b"\x4b", "wire type 3"), (b"\x4d\0\0", "ends within a number")):
            if words is None:
                tensor = field(1, 2) + tensor[2:]
            self.refused(field(7, field(5, tensor) + field(11, field(1, "picture"))), words or "")
        self.refused(field(7, field(1, field(4, b"\xff\xfe"))), "not UTF-8")
        self.refused(field(1, 8), "no graph")
        self.refused(field(7, b"") + field(7, b""), "field graph is there twice")
        self.refused(field(7, field(1, field(4, "Conv") + field(1, "x\n\x1b[31m" + "y" * 5000) + field(2, "o")) +
                             field(11, field(1, "picture"))), "x\\n\\x1b[31m")

    def test_deep_graph(self):
        """A hundred thousand nodes in a row are no recursion, and doubling at every node does not grow."""
        def chain(op):
            nodes, last = [], "picture"
            for i in range(100000):
                inputs = [last, last] if op != "Relu" else [last]
                nodes.append(field(1, b"".join(field(1, one) for one in inputs) + field(2, f"n{i}") + field(4, op)))
                last = f"n{i}"
            nodes.append(field(1, field(1, last) + field(1, "w") + field(2, "o") + field(4, "Conv")))
            return field(7, b"".join(nodes) + field(11, field(1, "picture")))
        self.refused(chain("Relu"), "is where stage1.rebnconvin.conv_s1 should be, but has pads")
        self.refused(chain("Concat"), "more than 8 maps")

    def test_malicious_pickles(self):
        """Nothing a pickle names is imported or called."""
        trap = self.path("trap")
        calls = {"posix.system": files.Command(os.system, f"touch {trap}"), "eval": files.Command(eval, f"open({trap!r}, 'w')"),
                 "subprocess.Popen": files.Command(subprocess.Popen, ["touch", trap])}
        weights = files.tiny_weights(False)
        for name, command in calls.items():
            self.refused(archive(pickled({"a": command}), {}), name, "nothing was run")
            hidden = torch_file(weights, wrap=lambda state: b"}(" + text("x") + pickled(command) + text("state_dict") + state + b"u")
            self.refused(hidden, name)
        self.assertFalse(os.path.exists(trap))
        self.refused(archive(b"ctorch\nload\n", {}), "'torch.load'", "nothing was run")
        self.refused(archive(b"ctorch\nFloatStorage\n" + text("x") + b"\x85R", {}), "with other arguments")
        self.refused(archive(b"ctorch._utils\n_rebuild_tensor_v2\n)R", {}), "described wrongly")
        self.refused(archive(b"(ios\nsystem\n", {}), "opcode INST")
        self.refused(archive(b"\x93", {}), "opcode STACK_GLOBAL")
        self.refused(archive(b"\x82\x01", {}), "opcode EXT1")
        self.refused(archive(b"\x80\x04N", {}), "another protocol")
        self.refused(archive(text("self") + b"NNs", {}), "a str where a dict is expected")
        self.refused(archive(b"}q\0" + text("self") + b"h\0s", {}), "no dictionaries of tensors")
        for bad, words in ((b"", "no state dict"), (b"u", "a mark is missing"), (b"(u", "takes more than it has"), (b"h\x05", "never had"),
                           (b"q\0", "remembers"), (b"X\xff\xff\xff\xff", "ends too early"),
                           (b"\x8a\xff" + bytes(255), "more than 16 bytes"), (b"cos", "does not end"),
                           (b"}(]Nu", "a key of the kind list"), (b"}(" + text("k") + b"u", "a key without a value"),
                           (b"}(" + (text("k") + b"N") * 2 + b"u", "'k' is there twice"), (b"X\x01\0\0\0\xff", "not UTF-8"),
                           (b")Q", "no storage"), (b"}b", "takes more"), (b"]", "a list, no state dict")):
            self.refused(archive((b"N" if bad == b"" else b"") + bad, {}), words)

    def test_tensors_that_lie(self):
        def one(count=4, offset=0, shape=(4,), strides=(1,), size=16, key="0", dtype="F32"):
            return archive(state_pickle([("x", tensor_pickle(dtype, key, count, offset, shape, strides))]), {"0": bytes(size)})
        self.refused(one(), "neither U2-Net")
        self.refused(one(size=12), "has 12 bytes, expected 16")
        self.refused(one(key="../../../../etc/passwd"), "is missing")
        self.refused(one(shape=(5,)), "reaches beyond its storage")
        self.refused(one(offset=1), "reaches beyond its storage")
        self.refused(one(offset=-1), "cannot be")
        self.refused(one(shape=(-4,)), "cannot be")
        self.refused(one(shape=(2, 2)), "cannot be")
        self.refused(one(shape=(2, 2), strides=(1 << 40, 1)), "reaches beyond its storage")
        self.refused(one(shape=(1 << 30, 1 << 30), strides=(0, 0)), "reaches beyond its storage")
        self.refused(one(shape=(1,) * 9, strides=(1,) * 9), "cannot be")
        many = state_pickle([(f"x{i}", tensor_pickle("F32", "0", 1000, 0, (1000,), (1,))) for i in range(300)])
        self.refused(archive(many, {"0": bytes(4000)}), "more than twice as large as the file")

    def test_archives_that_lie(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("archive/data.pkl", bytes(50 << 20))
        self.refused(out.getvalue(), "compressed")
        weights = files.tiny_weights(False)
        state = state_pickle([])
        self.refused(archive(state, {}, extra=[("archive/constants.pkl", b"")]), "TorchScript")
        self.refused(archive(state, {}, extra=[("archive/byteorder", b"big")]), "little-endian")
        self.refused(archive(state, {}, extra=[("other/data.pkl", b"")]), "2 data.pkl")
        self.refused(archive(state, {}, folder="../../x"), "no data.pkl")
        with self.assertWarns(UserWarning):
            twice = archive(state, {}, extra=[("archive/version", b"4\n")])
        self.refused(twice, "is there twice")
        data = bytearray(torch_file(weights))
        at = data.rindex(b"PK\x01\x02")         # the last entry of the directory: its sizes, then where it begins
        for size in (0x7FFFFFFF, 0xFFFFFFFF):
            struct.pack_into("<II", data, at + 20, size, size)
            self.refused(bytes(data))
        self.refused(b"PK\x03\x04" + bytes(100), "no zip archive")


class Damage(Base):
    """Whole networks, small, cut and changed everywhere: a refusal in one line or a result, never anything else."""

    def whole(self):
        return {"ONNX": onnx(files.tiny_weights(False), fold=True), "archive": torch_file(files.tiny_weights(True))}

    def test_cut_short(self):
        for form, data in self.whole().items():
            self.assertEqual(self.convert(data)[0], 0)
            os.unlink(self.path("out.safetensors"))
            for size in list(range(0, 300)) + list(range(300, len(data), 151)) + list(range(len(data) - 200, len(data))):
                with self.subTest(form=form, size=size):
                    self.refused(data[:size])

    def test_changed(self):
        generator = random.Random(3)
        for form, data in self.whole().items():
            outcomes = {0: 0, MODEL: 0}
            for _ in range(300):
                changed = bytearray(data)
                for _ in range(generator.choice((1, 1, 3))):
                    at = generator.randrange(len(changed))
                    changed[at] = generator.choice((changed[at] ^ 1 << generator.randrange(8), 0, 255, generator.randrange(256)))
                status, _, err = self.convert(bytes(changed))
                self.assertIn(status, outcomes, err)
                self.assertEqual(err.count("\n"), int(status != 0), err)
                outcomes[status] += 1
            self.assertTrue(all(outcomes.values()), outcomes)


if __name__ == "__main__":
    limit_memory(1 << 30)
    unittest.main(argv=sys.argv[:1])
