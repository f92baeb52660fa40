# SPDX-License-Identifier: MIT
"""Weights of U2-Net, U2-NetP or IS-Net out of an ONNX file, under PyTorch's names.

Exporters rename the weights and fold batch norms into convolutions, and tools reorder the nodes, so names and order tell nothing that can
be relied on. What stays is the graph: each convolution reads a combination of others' results that no other convolution reads
(networks.py), and by that it is found. Strides, dilations, shapes and the way of resizing must then agree with the network."""
import math
import struct

from common import ELEMENT_SIZE, FLOATS, Refused, Tensor, shown
from networks import PICTURE, check, convolutions, kind_name
from protobuf import Reader, damaged

MODEL = {1: ("ir_version", "int"), 2: ("producer", "text"), 7: ("graph", "bytes"), 25: ("functions", "list")}
GRAPH = {1: ("nodes", "list"), 5: ("tensors", "list"), 11: ("inputs", "list"), 15: ("sparse", "list")}
NODE = {1: ("inputs", "texts"), 2: ("outputs", "texts"), 3: ("name", "text"), 4: ("op", "text"), 5: ("attributes", "list"),
        7: ("domain", "text")}
ATTRIBUTE = {1: ("name", "text"), 2: ("float", "float"), 3: ("int", "int"), 4: ("bytes", "bytes"), 5: ("tensor", "bytes"),
             8: ("ints", "ints")}
VALUE = {1: ("name", "text")}
TENSOR = {1: ("shape", "ints"), 2: ("type", "int"), 4: ("floats", "list"), 5: ("int32s", "ints"), 8: ("name", "text"), 9: ("raw", "bytes"),
          10: ("doubles", "list"), 13: ("external", "list"), 14: ("location", "int")}
TYPES = {1: "F32", 2: "U8", 3: "I8", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64", 16: "BF16"}

MAX_NODES = 1 << 17
MAX_SIDE = 1 << 20      # of a weight
MAX_PARTS = 8           # maps side by side, or added; the networks have six
PASSED_OVER = ("Relu", "MaxPool", "Resize", "Upsample", "Cast", "Identity", "Dropout", "BatchNormalization")
QUANTIZED = ("ConvInteger", "QLinearConv", "DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear")
EPSILON = 1e-5


class Node:
    def __init__(self, reader, data):
        fields = reader.message(data, NODE)
        self.op, self.name = fields.get("op", ""), fields.get("name", "")
        self.inputs, self.outputs = fields["inputs"], fields["outputs"]
        self.domain = fields.get("domain", "")
        self.attributes = {}
        for one in fields["attributes"]:
            attribute = reader.message(one, ATTRIBUTE)
            if attribute.get("name", "") in self.attributes:
                raise damaged(f"{self}: attribute {shown(attribute.get('name', ''))} twice")
            self.attributes[attribute.get("name", "")] = attribute

    def __str__(self):
        return f"{shown(self.op)} node {shown(self.name or (self.outputs[0] if self.outputs else ''))}"

    def input(self, i):
        return self.inputs[i] if i < len(self.inputs) else ""

    def int(self, name, default):
        return self.attributes.get(name, {}).get("int", default)

    def ints(self, name, default):
        return self.attributes.get(name, {}).get("ints") or default

    def text(self, name, default):
        value = self.attributes.get(name, {}).get("bytes")
        return default if value is None else bytes(value[:64]).decode("ascii", "replace")


def read_tensor(reader, data):
    """name, Tensor. The bytes must be as many as the shape says before anything is made of them."""
    fields = reader.message(data, TENSOR)
    name, dtype = fields.get("name", ""), TYPES.get(fields.get("type", 0))
    if fields.get("location") or fields["external"]:
        raise Refused(f"tensor {shown(name)} lies in another file; save the model as one file (onnx.save without external data)")
    if dtype is None:
        return name, None
    shape = fields["shape"]
    if len(shape) > 8 or any(not 0 <= side <= 1 << 40 for side in shape):
        raise damaged(f"tensor {shown(name)} has the shape {shown(str(shape))}")
    size = math.prod(shape) * ELEMENT_SIZE[dtype]
    if "raw" in fields:
        found, read = len(fields["raw"]), lambda: bytes(fields["raw"])
    elif dtype in ("F32", "F64"):
        parts = fields["floats" if dtype == "F32" else "doubles"]
        found, read = sum(len(part) for part in parts), lambda: b"".join(parts)
    else:
        values = fields["int32s"]
        found, read = len(values) * ELEMENT_SIZE[dtype], lambda: small_integers(name, dtype, values)
    if found != size:
        if dtype in ("I64", "I32"):
            return name, None  # their other fields are not read: no weight has them
        raise damaged(f"tensor {shown(name)}: {found} bytes, expected {size} for {dtype} {shape}")
    return name, Tensor(dtype, shape, read, name)


def small_integers(name, dtype, values):
    """F16 and BF16 may be stored as the integers that have their bits."""
    form = "H" if dtype in FLOATS else {"I32": "i", "I16": "h", "I8": "b"}.get(dtype, "B")
    try:
        return struct.pack(f"<{len(values)}{form}", *values)
    except struct.error:
        raise damaged(f"tensor {shown(name)}: a value does not fit {dtype}") from None


class Graph:
    """tensors: the weights, also those in Constant nodes, by name; made_by: value name -> node; pictures: inputs that are no weights."""

    def __init__(self, data):
        reader = Reader()
        model = reader.message(data, MODEL)
        if "graph" not in model:
            raise damaged("there is no graph in it")
        if model["functions"]:
            raise Refused("an ONNX model with functions of its own; export it without them (torch.onnx.export with dynamo=False)")
        self.producer = model.get("producer", "")
        graph = reader.message(model["graph"], GRAPH)
        if graph["sparse"]:
            raise Refused("an ONNX model with sparse weights")
        if len(graph["nodes"]) > MAX_NODES or len(graph["tensors"]) > MAX_NODES:
            raise damaged(f"more than {MAX_NODES} nodes or weights")
        self.tensors, self.made_by = {}, {}
        for one in graph["tensors"]:
            self.add_tensor(*read_tensor(reader, one))
        self.nodes = [Node(reader, one) for one in graph["nodes"]]
        for node in self.nodes:
            self.add_node(reader, node)
        names = (reader.message(one, VALUE).get("name", "") for one in graph["inputs"])
        self.pictures = {name for name in names if name not in self.tensors}
        if len(self.pictures) != 1:
            raise Refused(f"an ONNX model with {len(self.pictures) or 'no'} inputs that are no weights, expected one, the picture")

    def add_tensor(self, name, tensor):
        if name in self.tensors:
            raise damaged(f"weight {shown(name)} is there twice")
        self.tensors[name] = tensor

    def add_node(self, reader, node):
        for output in node.outputs:
            if output and (output in self.made_by or output in self.tensors):
                raise damaged(f"value {shown(output)} is made twice")
            if output:
                self.made_by[output] = node
        value = node.attributes.get("value", {}).get("tensor")
        if node.op == "Constant" and value is not None and len(node.outputs) == 1:
            tensor = read_tensor(reader, value)[1]
            if tensor is not None:
                tensor.source = node.outputs[0]
            self.add_tensor(node.outputs[0], tensor)

    def weight(self, name, node):
        """A weight, also behind Identity and Cast (which lets it keep the type that it is stored in)."""
        first = name
        for _ in range(16):
            if name in self.tensors:
                tensor = self.tensors[name]
                if tensor is None or tensor.dtype not in FLOATS:
                    raise Refused(f"{node} reads {shown(first)}, which is not of floating-point numbers")
                return tensor
            maker = self.made_by.get(name)
            if maker is None or maker.op not in ("Identity", "Cast"):
                break
            name = maker.input(0)
        raise Refused(f"{node} reads its weight {shown(first)} from elsewhere than the file's weights")


# ------------------------------------------------------------------ what reads what

class Tracer:
    """For each value the tuple of convolutions (their output names) that it is put together of: parts side by side, each the set of those
    added. Nodes between convolutions that the networks do not have are refused."""

    def __init__(self, graph):
        self.graph, self.known, self.norms = graph, {}, {}

    def merge(self, node):
        """What a node makes of its inputs, all of which are known."""
        inputs = [self.known[name] for name in self.needed(node)]
        if node.op == "Concat":
            if node.int("axis", 1) not in (1, -3):
                raise Refused(f"{node} does not put channels side by side: no U2-Net, U2-NetP or IS-Net")
            result = tuple(part for one in inputs for part in one)
        elif node.op == "Add":
            if len(inputs[0]) != 1 or len(inputs[1]) != 1:
                raise Refused(f"{node} adds several maps at once: no U2-Net, U2-NetP or IS-Net")
            if inputs[0][0] & inputs[1][0]:
                raise Refused(f"{node} adds a map twice: no U2-Net, U2-NetP or IS-Net")
            result = (inputs[0][0] | inputs[1][0],)
        else:
            result = inputs[0]
        if len(result) > MAX_PARTS or any(len(part) > MAX_PARTS for part in result):
            raise Refused(f"{node} reads more than {MAX_PARTS} maps: no U2-Net, U2-NetP or IS-Net")
        if node.op == "BatchNormalization":
            self.add_norm(node)
        elif node.op in ("Resize", "Upsample"):
            check_resize(node)
        return result

    def needed(self, node):
        if node.op == "Concat":
            if len(node.inputs) > MAX_PARTS:
                raise Refused(f"{node} reads more than {MAX_PARTS} maps: no U2-Net, U2-NetP or IS-Net")
            return node.inputs
        return [node.input(0), node.input(1)] if node.op == "Add" else [node.input(0)]

    def add_norm(self, node):
        maker = self.graph.made_by.get(node.input(0))
        if maker is None or maker.op != "Conv":
            raise Refused(f"{node} does not follow a convolution")
        if maker.outputs[0] in self.norms:
            raise Refused(f"{node} is the second on one convolution")
        if abs(node.attributes.get("epsilon", {}).get("float", EPSILON) - EPSILON) > 1e-8 or node.int("training_mode", 0):
            raise Refused(f"{node}: expected epsilon 1e-5 and no training mode")
        self.norms[maker.outputs[0]] = node

    def begin(self, name):
        """A value that needs no other one, or None."""
        maker = self.graph.made_by.get(name)
        if maker is None:
            if name in self.graph.pictures:
                return (frozenset([PICTURE]),)
            raise Refused(f"value {shown(name)} is {'a weight where a map is expected' if name in self.graph.tensors else 'made nowhere'}")
        if maker.domain not in ("", "ai.onnx"):
            raise Refused(f"{maker} is of the domain {shown(maker.domain)}, not ONNX's own")
        if maker.op == "Conv":
            return (frozenset([name]),)
        if maker.op not in PASSED_OVER + ("Add", "Concat"):
            raise Refused(f"{maker} stands between the picture and a convolution: no U2-Net, U2-NetP or IS-Net as published")
        return None

    def parts(self, name):
        """Depth first over a list, so that a deep graph is no deep recursion."""
        open_values, waiting = set(), [name]
        while waiting:
            value = waiting[-1]
            if value in self.known:
                waiting.pop()
                continue
            result = self.begin(value)
            if result is None:
                node = self.graph.made_by[value]
                missing = [one for one in self.needed(node) if one not in self.known]
                if missing:
                    if value in open_values:
                        raise damaged(f"{node} depends on its own result")
                    open_values.add(value)
                    waiting += missing
                    continue
                result = self.merge(node)
            self.known[value] = result
            waiting.pop()
        return self.known[name]


def check_resize(node):
    mode = node.text("mode", "nearest")
    pixels = node.text("coordinate_transformation_mode", "half_pixel")
    if mode not in ("linear", "bilinear") or pixels not in ("half_pixel", "pytorch_half_pixel"):
        raise Refused(f"{node} resizes by {shown(mode)}, {shown(pixels)}; the networks do it bilinearly without aligned corners")


# ------------------------------------------------------------------ giving names

def check_convolution(node, layer):
    pad = layer.dilation * (layer.kernel // 2)
    for name, found, wanted in (("strides", node.ints("strides", [1, 1]), [layer.stride] * 2),
                                ("dilations", node.ints("dilations", [1, 1]), [layer.dilation] * 2),
                                ("pads", node.ints("pads", [0, 0, 0, 0]), [pad] * 4), ("group", node.int("group", 1), 1),
                                ("auto_pad", node.text("auto_pad", "NOTSET"), "NOTSET")):
        if found != wanted:
            raise Refused(f"{node} is where {layer.name} should be, but has {name} {shown(str(found))}, expected {wanted}")


def find_node(layer, readers, output_of):
    """The only convolution that reads what the layer reads."""
    wanted = tuple(frozenset(output_of.get(name, "") for name in part) for part in layer.reads)
    found = readers.pop(wanted, [])
    if not found and layer.optional:
        return None
    if len(found) != 1:
        raise Refused(f"neither U2-Net, U2-NetP nor IS-Net: {len(found) or 'no'} convolutions read what {layer.name} should read")
    return found[0]


def take_convolution(tensors, graph, tracer, layer, node):
    check_convolution(node, layer)
    weight = graph.weight(node.input(1), node)
    tensors[layer.name + ".weight"] = weight
    if node.input(2):
        tensors[layer.name + ".bias"] = graph.weight(node.input(2), node)
    else:
        width = weight.shape[0] if weight.shape and 0 < weight.shape[0] <= MAX_SIDE else 1
        tensors[layer.name + ".bias"] = Tensor("F32", [width], lambda: bytes(4 * width), "(none: zeros)")
    norm = tracer.norms.get(node.outputs[0])
    if norm is not None and not layer.norm:
        raise Refused(f"{norm} follows {layer.name}, which has none in these networks")
    if norm is not None:
        for i, part in enumerate(("weight", "bias", "running_mean", "running_var")):
            tensors[f"{layer.norm}.{part}"] = graph.weight(norm.input(1 + i), norm)


def read(data):
    """kind, whether batch norms are apart, {PyTorch name: Tensor}."""
    graph = Graph(data)
    quantized = next((node for node in graph.nodes if node.op in QUANTIZED), None)
    if quantized is not None:
        raise Refused(f"quantised to 8 bits ({quantized}), which changes the mask; take the fp32 or fp16 file of the same network")
    tracer = Tracer(graph)
    convs = [node for node in graph.nodes if node.op == "Conv"]
    if not convs:
        raise Refused(f"an ONNX model with {len(graph.nodes)} nodes and no convolution: neither U2-Net, U2-NetP nor IS-Net")
    readers = {}
    for node in convs:
        if len(node.outputs) != 1:
            raise damaged(f"{node} has {len(node.outputs)} outputs")
        readers.setdefault(tracer.parts(node.input(0)), []).append(node)
    for node in graph.nodes:  # also those behind the last convolutions, which no convolution reads
        if node.op == "BatchNormalization" and node.outputs:
            tracer.parts(node.outputs[0])
    first = readers.get((frozenset([PICTURE]),), [None])[0]
    isnet = first is not None and first.ints("strides", [1, 1]) == [2, 2]
    tensors, output_of = {}, {PICTURE: PICTURE}
    for layer in convolutions(isnet):
        node = find_node(layer, readers, output_of)
        if node is not None:
            output_of[layer.name] = node.outputs[0]
            take_convolution(tensors, graph, tracer, layer, node)
    if readers:
        spare = next(iter(readers.values()))[0]
        raise Refused(f"{spare} is a convolution that U2-Net, U2-NetP and IS-Net do not have")
    with_norms = check(tensors, isnet)
    return kind_name(isnet, tensors), with_norms, tensors
