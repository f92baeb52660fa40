# SPDX-License-Identifier: MIT
"""Files for the converter's tests, written by hand with the standard library: safetensors, ONNX, archives like torch.save's. Tensors are
(dtype, shape, bytes) with safetensors' type names."""
import io
import json
import math
import pickle
import random
import struct
import zipfile

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1}
FORMS = {"F64": "d", "F32": "f", "F16": "e"}


# ------------------------------------------------------------------ safetensors

def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: (one["dtype"], tuple(one["shape"]), body[slice(*one["data_offsets"])]) for name, one in header.items()}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def values(tensor):
    return struct.unpack(f"<{math.prod(tensor[1])}{FORMS[tensor[0]]}", tensor[2])


def floats(numbers, shape, dtype="F32"):
    return dtype, tuple(shape), struct.pack(f"<{len(numbers)}{FORMS[dtype]}", *numbers)


def tiny_weights(isnet, seed=1):
    """Random weights of a network with two channels everywhere: whole, but small enough to be cut and damaged thousands of times."""
    generator, shapes = random.Random(seed), {}

    class Shapes:
        def conv(self, x, name, pad, stride=1, dilation=1):
            out, kernel = 1 if name.startswith("side") or name == "outconv" else 2, 1 if name == "outconv" else 3
            shapes[name + ".weight"], shapes[name + ".bias"] = (out, x, kernel, kernel), (out,)
            return out

        def batch_norm(self, x, name):
            for part in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"{name}.{part}"] = (x,)
            return x

        def resize(self, x, like):
            return x

        relu = pool = sigmoid = staticmethod(lambda x: x)
        concat, add = staticmethod(sum), staticmethod(lambda a, b: a)
    import graph
    graph.forward(Shapes(), 3, isnet)
    return {name: floats([generator.uniform(0.5, 1) for _ in range(math.prod(shape))], shape) for name, shape in shapes.items()}


# ------------------------------------------------------------------ protocol buffers and ONNX

def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


TYPES = {"F32": 1, "U8": 2, "I64": 7, "F16": 10, "F64": 11, "BF16": 16}


def tensor_message(name, tensor, typed=False, packed_shape=False):
    """typed: in the field of the type, not as raw bytes."""
    dtype, shape, data = tensor
    out = field(1, b"".join(map(varint, shape))) if packed_shape else b"".join(field(1, side) for side in shape)
    out += field(2, TYPES[dtype]) + field(8, name)
    if not typed:
        return out + field(9, data)
    if dtype in ("F16", "BF16"):
        return out + field(5, b"".join(map(varint, struct.unpack(f"<{len(data) // 2}H", data))))
    return out + field(4 if dtype == "F32" else 10, data)


def attribute(name, value):
    out = field(1, name)
    if isinstance(value, list):
        return out + b"".join(field(8, one) for one in value) + field(20, 7)
    if isinstance(value, tuple):
        return out + field(5, tensor_message("", value)) + field(20, 4)
    number, kind = {int: (3, 2), float: (2, 1), str: (4, 3)}[type(value)]
    return out + field(number, value) + field(20, kind)


class OnnxFile:
    """ops of graph.forward that write an ONNX model. weights: {PyTorch name: tensor}.

    fold: put batch norms into the convolutions; constants: weights as Constant nodes; typed: not as raw bytes; anonymous: names and the
    order of weights and nodes tell nothing; casts: weights go through Cast nodes."""

    def __init__(self, weights, fold=False, constants=False, typed=False, anonymous=False, casts=False):
        self.weights = weights
        self.fold, self.constants, self.typed, self.anonymous, self.casts = fold, constants, typed, anonymous, casts
        self.nodes, self.tensors, self.extra = [], [], b""
        self.count, self.pending = 0, None
        self.inputs = ["picture"]

    def fresh(self, hint):
        self.count += 1
        return f"v{self.count * 7919 % 100003}" if self.anonymous else f"/{hint}_{self.count}"

    def node(self, op, inputs, attributes=(), outputs=None, domain=""):
        outputs = outputs or [self.fresh(op)]
        data = b"".join(field(1, one) for one in inputs) + b"".join(field(2, one) for one in outputs)
        data += field(3, self.fresh("node")) + field(4, op) + b"".join(field(5, attribute(*one)) for one in attributes)
        self.nodes.append(data + (field(7, domain) if domain else b""))
        return outputs[0]

    def weight(self, name, tensor=None):
        tensor = tensor or self.weights[name]
        value = self.fresh("weight") if self.anonymous else name
        if self.constants:
            self.node("Constant", [], [("value", tensor)], [value])
        else:
            self.tensors.append(tensor_message(value, tensor, self.typed, self.typed))
        return self.node("Cast", [value], [("to", 1)]) if self.casts else value

    def conv(self, x, name, pad, stride=1, dilation=1):
        parts = [self.weights[name + ".weight"], self.weights[name + ".bias"]]
        norm = name.replace("conv_s1", "bn_s1")
        if self.fold and norm != name:
            parts = folded(parts, [self.weights[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")])
        names = [self.weight(f"{name}.{part}", tensor) for part, tensor in zip(("weight", "bias"), parts)]
        kernel = parts[0][1][2]
        return self.node("Conv", [x] + names, [("dilations", [dilation] * 2), ("group", 1), ("kernel_shape", [kernel] * 2),
                                               ("pads", [pad] * 4), ("strides", [stride] * 2)])

    def batch_norm(self, x, name):
        if self.fold:
            return x
        names = [self.weight(f"{name}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        return self.node("BatchNormalization", [x] + names, [("epsilon", 1e-5), ("momentum", 0.9)])

    def relu(self, x):
        return self.node("Relu", [x])

    def sigmoid(self, x):
        return self.node("Sigmoid", [x])

    def pool(self, x):
        return self.node("MaxPool", [x], [("ceil_mode", 1), ("kernel_shape", [2, 2]), ("strides", [2, 2])])

    def resize(self, x, like):
        return self.node("Resize", [x, "", "", self.node("Shape", [like])],
                         [("coordinate_transformation_mode", "half_pixel"), ("mode", "linear")])

    def concat(self, xs):
        return self.node("Concat", xs, [("axis", 1)])

    def add(self, a, b):
        return self.node("Add", [a, b])

    def bytes(self):
        if self.anonymous:
            random.Random(5).shuffle(self.nodes)
            random.Random(6).shuffle(self.tensors)
        graph = b"".join(field(1, one) for one in self.nodes) + field(2, "test") + b"".join(field(5, one) for one in self.tensors)
        graph += b"".join(field(11, field(1, name)) for name in self.inputs)
        return field(1, 8) + field(2, "test") + field(8, field(2, 13)) + self.extra + field(7, graph)


def folded(parts, norm):
    """A convolution with its batch norm, computed in double precision and rounded to fp32."""
    scale, shift, mean, variance = map(values, norm)
    weight, bias = map(values, parts)
    factor = [s / math.sqrt(v + 1e-5) for s, v in zip(scale, variance)]
    each = len(weight) // len(bias)
    return [floats([w * factor[i // each] for i, w in enumerate(weight)], parts[0][1]),
            floats([(b - m) * f + s for b, m, f, s in zip(bias, mean, factor, shift)], parts[1][1])]


# ------------------------------------------------------------------ archives of torch.save

STORAGES = {"F64": "DoubleStorage", "F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    return b"J" + struct.pack("<i", value) if abs(value) < 1 << 31 else b"\x8a\x08" + struct.pack("<q", value)


def numbers(items):
    return b"(" + b"".join(map(number, items)) + b"t"


def tensor_pickle(dtype, key, count, offset, shape, strides):
    storage = b"(" + text("storage") + f"ctorch\n{STORAGES[dtype]}\n".encode() + text(key) + text("cpu") + number(count) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + numbers(shape) + numbers(strides) +
            b"\x89ccollections\nOrderedDict\n)RtR")


def dense_strides(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def state_pickle(entries):
    """entries: (name, pickle of the value); an OrderedDict with the attribute that state_dict() gives it."""
    return (b"ccollections\nOrderedDict\n)R(" + b"".join(text(name) + value for name, value in entries) + b"u" +
            b"}" + text("_metadata") + b"ccollections\nOrderedDict\n)R" + b"sb")


def archive(pickled, storages, folder="archive", extra=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr(zipfile.ZipInfo(folder + "/data.pkl"), b"\x80\x02" + pickled + b".")
        for key, data in storages.items():
            file.writestr(zipfile.ZipInfo(f"{folder}/data/{key}"), data)
        file.writestr(zipfile.ZipInfo(folder + "/version"), b"3\n")
        for name, data in extra:
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def torch_file(tensors, prefix="", wrap=lambda state: state):
    entries, storages = [], {}
    for i, (name, (dtype, shape, data)) in enumerate(tensors.items()):
        storages[str(i)] = data
        entries.append((prefix + name, tensor_pickle(dtype, str(i), len(data) // SIZES[dtype], 0, shape, dense_strides(shape))))
    return archive(wrap(state_pickle(entries)), storages)


class Command:
    """What a malicious pickle runs when it is loaded the usual way."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def pickled(value):
    return pickle.dumps(value, 2, fix_imports=False)[2:-1]
