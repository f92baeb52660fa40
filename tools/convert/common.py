# SPDX-License-Identifier: MIT
"""What the readers and the writer share: refusals, element types, tensors whose bytes are read when they are written."""
import math

SHOWN = 120  # characters of a foreign name in a message


class Refused(Exception):
    """One line for the user, and the exit status that espalier itself has for such a thing (include/espalier/base.h)."""
    ARGUMENT, MODEL, RESOURCE, OUTPUT, CANCELLED = 2, 4, 5, 7, 130

    def __init__(self, message, status=MODEL):
        super().__init__(message)
        self.status = status


def shown(name):
    """A name out of a file as printable ASCII, cut off, so that a message stays one line."""
    text = name if isinstance(name, str) else bytes(name).decode("utf-8", "backslashreplace")
    text = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text[:SHOWN + 1])
    return "'" + (text if len(text) <= SHOWN else text[:SHOWN] + "...") + "'"


ELEMENT_SIZE = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
FLOATS = ("F64", "F32", "F16", "BF16")


class Tensor:
    """dtype (safetensors' name), shape, and read() -> its bytes, dense, little-endian. source: what the file calls it, for --list."""

    def __init__(self, dtype, shape, read, source=""):
        self.dtype, self.shape, self.read, self.source = dtype, tuple(shape), read, source

    @property
    def size(self):
        return math.prod(self.shape) * ELEMENT_SIZE[self.dtype]
