# SPDX-License-Identifier: MIT
"""Tensors out of a zip archive that torch.save (PyTorch 1.6 and later) wrote, without PyTorch and without running what the pickle in it
asks for: the interpreter below knows the opcodes of protocol 2 that state dicts are made of and builds dictionaries, lists, numbers, texts
and descriptions of tensors. The few callables that state dicts name stand for our own code; any other name is refused."""
import pickletools
import struct
import zipfile

from common import ELEMENT_SIZE, Refused, Tensor, shown

STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "LongStorage": "I64",
            "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8", "BoolStorage": "BOOL"}
CALLABLES = ("collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter")
PREFIXES = ("module.", "_orig_mod.")    # DataParallel's and torch.compile's
MAX_PICKLE = 64 << 20
MAX_ENTRIES = 1 << 17
MAX_RANK = 8


def damaged(what):
    return Refused(f"damaged, or no archive of torch.save: {what}")


# ------------------------------------------------------------------ the archive

class Archive:
    """Stored entries of a zip file by name, all below one folder. Nothing is ever extracted to a file."""

    def __init__(self, file, size):
        try:
            self.zip = zipfile.ZipFile(file)
            entries = self.zip.infolist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError, EOFError, OSError, struct.error) as error:
            raise damaged(f"no zip archive that can be read ({one_line(error)})") from None
        self.entries = {}
        if len(entries) > MAX_ENTRIES:
            raise damaged(f"more than {MAX_ENTRIES} entries")
        if any(entry.filename.endswith("/constants.pkl") for entry in entries):
            raise Refused("a TorchScript archive (torch.jit.save), which holds a program; save its state_dict() with torch.save")
        for entry in entries:
            if entry.filename in self.entries:
                raise damaged(f"entry {shown(entry.filename)} is there twice")
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
                raise Refused(f"entry {shown(entry.filename)} is compressed or encrypted, which torch.save never does")
            self.entries[entry.filename] = entry
        if sum(entry.file_size for entry in entries) > size:
            raise damaged("the entries say that they are larger than the file")
        pickles = [name for name in self.entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise Refused(f"a zip archive with {len(pickles) or 'no'} data.pkl, not one of torch.save")
        self.folder = pickles[0][:-len("data.pkl")]
        if self.folder + "byteorder" in self.entries and self.read("byteorder", 16) != b"little":
            raise Refused("its numbers are not stored little-endian")

    def size(self, name):
        entry = self.entries.get(self.folder + name)
        return None if entry is None else entry.file_size

    def read(self, name, limit=None):
        if limit is not None and self.size(name) > limit:
            raise damaged(f"entry {shown(name)} has {self.size(name)} bytes")
        try:
            return self.zip.read(self.entries[self.folder + name])
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError, struct.error) as error:
            raise damaged(f"entry {shown(name)} ({one_line(error)})") from None


def one_line(error):
    return shown(str(error))[1:-1]


# ------------------------------------------------------------------ the pickle

class Name:
    """A global of the pickle. Only ever compared."""

    def __init__(self, text):
        self.text = text


class Storage:
    def __init__(self, dtype, key, count):
        self.dtype, self.key, self.count = dtype, key, count


class View:
    """A tensor as the pickle describes it: a view of a storage."""

    def __init__(self, storage, offset, shape, strides):
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides


class Pickle:
    """Runs the opcodes of one pickle."""
    MARK = object()

    def __init__(self, data):
        self.data, self.at = data, 0
        self.stack, self.memo = [], {}

    def take(self, count):
        if count > len(self.data) - self.at:
            raise damaged("the pickle ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def line(self):
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise damaged("a name in the pickle does not end")
        return self.take(end + 1 - self.at)[:-1].decode("utf-8", "backslashreplace")

    def pop(self, kind=None):
        if not self.stack or self.stack[-1] is self.MARK:
            raise damaged("the pickle takes more than it has")
        value = self.stack.pop()
        if kind is not None and not isinstance(value, kind):
            raise damaged(f"the pickle has a {type(value).__name__} where a {kind.__name__} is expected")
        return value

    def pop_to_mark(self):
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is self.MARK:
                values = self.stack[i + 1:]
                del self.stack[i:]
                return values
        raise damaged("a mark is missing in the pickle")

    def run(self):
        while True:
            code = self.take(1)
            if code == b".":
                return self.pop()
            action = self.ACTIONS.get(code)
            if action is None:
                known = pickletools.code2op.get(code.decode("latin-1"))
                raise Refused(f"the pickle has the opcode {known.name if known else code.hex()}, which state dicts do not need")
            action(self)

    def push(self, value):
        self.stack.append(value)

    def top(self, kind):
        value = self.pop(kind)
        self.stack.append(value)
        return value

    def protocol(self):
        if self.number("B") != 2:
            raise Refused("a pickle of another protocol than 2, which is torch.save's own")

    def text(self):
        size = self.number("I")
        try:
            self.push(str(self.take(size), "utf-8"))
        except UnicodeDecodeError:
            raise damaged("a text in the pickle is not UTF-8") from None

    def long(self):
        size = self.number("B")
        if size > 16:
            raise damaged("a number of more than 16 bytes in the pickle")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def put(self, key):
        if not self.stack or self.stack[-1] is self.MARK:
            raise damaged("the pickle remembers what it does not have")
        self.memo[key] = self.stack[-1]

    def get(self, key):
        if key not in self.memo:
            raise damaged("the pickle recalls what it never had")
        self.push(self.memo[key])

    def named(self):
        text = f"{self.line()} {self.line()}"
        module, _, name = text.partition(" ")
        if text not in CALLABLES and not (module == "torch" and name in STORAGES):
            raise Refused(f"the pickle asks for {shown(module + '.' + name)}, which is no part of a state dict; nothing was run")
        self.push(Name(text))

    def set_items(self, items):
        target = self.top(dict)
        if len(items) % 2:
            raise damaged("a key without a value in the pickle")
        for key, value in zip(items[::2], items[1::2]):
            if not isinstance(key, (str, int)):
                raise damaged(f"a key of the kind {type(key).__name__} in the pickle")
            if key in target:
                raise damaged(f"key {shown(str(key))} is there twice")
            target[key] = value

    def append(self, values):
        self.top(list).extend(values)

    def build(self):
        """What state_dict() hangs on its dictionary (versions of modules); no part of the weights."""
        self.pop(dict)
        self.top(dict)

    def reduce(self):
        arguments, name = self.pop(tuple), self.pop(Name).text
        if name == "collections OrderedDict" and not arguments:
            self.push({})
        elif name == "torch._utils _rebuild_tensor_v2":
            self.push(rebuild_tensor(arguments))
        elif name == "torch._utils _rebuild_parameter" and arguments and isinstance(arguments[0], View):
            self.push(arguments[0])
        else:
            raise damaged(f"the pickle calls {shown(name.replace(' ', '.'))} with other arguments than a state dict does")

    def persistent(self):
        what = self.pop(tuple)
        if len(what) != 5 or what[0] != "storage" or not isinstance(what[1], Name) or not isinstance(what[2], str) or \
                not isinstance(what[4], int) or what[4] < 0:
            raise damaged("the pickle names something that is no storage")
        dtype = STORAGES.get(what[1].text.partition(" ")[2])
        if dtype is None:
            raise damaged(f"the pickle takes {shown(what[1].text.replace(' ', '.'))} for a storage")
        self.push(Storage(dtype, what[2], what[4]))

    ACTIONS = {
        b"\x80": protocol, b"(": lambda p: p.push(p.MARK), b"}": lambda p: p.push({}), b"]": lambda p: p.push([]),
        b")": lambda p: p.push(()), b"N": lambda p: p.push(None), b"\x88": lambda p: p.push(True), b"\x89": lambda p: p.push(False),
        b"J": lambda p: p.push(p.number("i")), b"K": lambda p: p.push(p.number("B")), b"M": lambda p: p.push(p.number("H")),
        b"G": lambda p: p.push(struct.unpack(">d", p.take(8))[0]), b"\x8a": long, b"X": text,
        b"q": lambda p: p.put(p.number("B")), b"r": lambda p: p.put(p.number("I")),
        b"h": lambda p: p.get(p.number("B")), b"j": lambda p: p.get(p.number("I")),
        b"t": lambda p: p.push(tuple(p.pop_to_mark())), b"\x85": lambda p: p.push((p.pop(),)),
        b"\x86": lambda p: p.push((p.pop(), p.pop())[::-1]), b"\x87": lambda p: p.push((p.pop(), p.pop(), p.pop())[::-1]),
        b"s": lambda p: p.set_items([p.pop(), p.pop()][::-1]), b"u": lambda p: p.set_items(p.pop_to_mark()),
        b"a": lambda p: p.append([p.pop()]), b"e": lambda p: p.append(p.pop_to_mark()),
        b"c": named, b"R": reduce, b"b": build, b"Q": persistent}


def rebuild_tensor(arguments):
    """(storage, offset, shape, strides, requires_grad, hooks[, metadata])"""
    if len(arguments) not in (6, 7) or not isinstance(arguments[0], Storage) or not isinstance(arguments[1], int):
        raise damaged("a tensor in the pickle is described wrongly")
    storage, offset, shape, strides = arguments[:4]
    for numbers in (shape, strides):
        if not isinstance(numbers, tuple) or len(numbers) > MAX_RANK or not all(isinstance(n, int) and 0 <= n < 1 << 48 for n in numbers):
            raise damaged("a tensor in the pickle has a shape or strides that cannot be")
    if len(shape) != len(strides) or offset < 0:
        raise damaged("a tensor in the pickle has a shape or strides that cannot be")
    return View(storage, offset, shape, strides)


# ------------------------------------------------------------------ tensors

def dense(data, view):
    """The bytes of a view of any strides, row-major; the extents are checked."""
    item = ELEMENT_SIZE[view.storage.dtype]
    elements = memoryview(data).cast({1: "B", 2: "H", 4: "I", 8: "Q"}[item])
    expected = 1
    for side, stride in zip(reversed(view.shape), reversed(view.strides)):
        if side != 1 and stride != expected:
            break
        expected *= side
    else:
        return elements[view.offset:view.offset + expected].tobytes()

    def rows(axis, offset):
        side, stride = view.shape[axis], view.strides[axis]
        if axis == len(view.shape) - 1:
            yield elements[offset:offset + (side - 1) * stride + 1:stride].tobytes()
            return
        for i in range(side):
            yield from rows(axis + 1, offset + i * stride)
    return b"".join(rows(0, view.offset))


def to_tensor(archive, name, view):
    storage, key = view.storage, "data/" + view.storage.key
    item = ELEMENT_SIZE[storage.dtype]
    if archive.size(key) != storage.count * item:
        found = "is missing" if archive.size(key) is None else f"has {archive.size(key)} bytes"
        raise damaged(f"the storage {shown(storage.key)} of tensor {shown(name)} {found}, expected {storage.count * item}")
    tensor = Tensor(storage.dtype, view.shape, lambda: dense(archive.read(key), view), archive.folder + key)
    last = view.offset + sum((side - 1) * stride for side, stride in zip(view.shape, view.strides))
    if tensor.size > 0 and (last >= storage.count or tensor.size > storage.count * item):
        raise damaged(f"tensor {shown(name)} reaches beyond its storage of {storage.count} elements")
    return tensor


def find_state(value):
    """The dictionary of tensors: the pickle's value itself, or the only dictionary of tensors in a checkpoint."""
    if isinstance(value, View):
        raise Refused("a single tensor, no state dict")
    if not isinstance(value, dict):
        raise Refused(f"a {type(value).__name__}, no state dict")
    if any(isinstance(one, View) for one in value.values()):
        return value
    inner = [one for one in value.values() if isinstance(one, dict) and any(isinstance(two, View) for two in one.values())]
    if len(inner) != 1:
        keys = ", ".join(shown(str(key)) for key in list(value)[:5])
        raise Refused(f"{len(inner) or 'no'} dictionaries of tensors in it (keys: {keys or 'none'}), expected one")
    return inner[0]


def read(file, size):
    """{name: Tensor} of a state dict, with the prefixes that wrappers put before all names cut off."""
    archive = Archive(file, size)
    state = find_state(Pickle(archive.read("data.pkl", MAX_PICKLE)).run())
    for prefix in PREFIXES * 2:
        if state and all(isinstance(name, str) and name.startswith(prefix) for name in state):
            state = {name[len(prefix):]: view for name, view in state.items()}
    tensors = {}
    for name, view in state.items():
        if not isinstance(name, str) or not isinstance(view, View):
            raise Refused(f"{shown(str(name))} is a {type(view).__name__}, expected a state dict with nothing but tensors")
        tensors[name] = to_tensor(archive, name, view)
    if sum(tensor.size for tensor in tensors.values()) > 2 * size:
        raise damaged("the tensors together are more than twice as large as the file")
    return tensors
