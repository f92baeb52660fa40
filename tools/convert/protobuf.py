# SPDX-License-Identifier: MIT
"""The part of the protocol buffers wire format that ONNX files use, over bytes that nobody vouches for: every length is checked against
what is there, and the number of fields in a file is limited. Format: protobuf.dev, "Encoding"."""
import struct

from common import Refused

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 1 << 22


def damaged(what):
    return Refused(f"damaged, or no ONNX model: {what}")


class Reader:
    """Splits messages into fields. One for each file, so that the limit on fields is one on the file."""

    def __init__(self):
        self.fields_left = MAX_FIELDS

    def varint(self, data, at):
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise damaged("a number that does not end")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFFFFFFFFFF, at
            shift += 7

    def fields(self, data):
        """(number, wire type, value) of each field; bytes are a view into data, the others integers."""
        at = 0
        while at < len(data):
            self.fields_left -= 1
            if self.fields_left < 0:
                raise damaged(f"more than {MAX_FIELDS} fields")
            key, at = self.varint(data, at)
            number, kind = key >> 3, key & 7
            if number == 0 or number >= 1 << 29:
                raise damaged(f"field number {number}")
            if kind == VARINT:
                value, at = self.varint(data, at)
            elif kind == BYTES:
                size, at = self.varint(data, at)
                if size > len(data) - at:
                    raise damaged(f"a field of {size} bytes where {len(data) - at} are left")
                value, at = data[at:at + size], at + size
            elif kind in (FIXED32, FIXED64):
                size = 4 if kind == FIXED32 else 8
                if size > len(data) - at:
                    raise damaged("it ends within a number")
                value, at = int.from_bytes(data[at:at + size], "little"), at + size
            else:
                raise damaged(f"wire type {kind}")
            yield number, kind, value

    def message(self, data, schema):
        """A message as {name: value}. schema: {number: (name, kind)} with kind "int", "ints", "text", "texts", "bytes", "list" (of
        messages or numbers as bytes) or "float"; fields it does not name are passed over. A single field that comes twice is refused."""
        found = {name: [] for name, kind in schema.values() if kind in ("ints", "texts", "list")}
        for number, kind, value in self.fields(data):
            if number not in schema:
                continue
            name, wanted = schema[number]
            if wanted == "ints" and kind == BYTES:  # packed
                at = 0
                while at < len(value):
                    one, at = self.varint(value, at)
                    found[name].append(signed(one))
                continue
            if kind != {"int": VARINT, "ints": VARINT, "float": FIXED32}.get(wanted, BYTES):
                raise damaged(f"field {name} has wire type {kind}")
            if wanted in ("int", "ints"):
                value = signed(value)
            elif wanted == "float":
                value = struct.unpack("<f", value.to_bytes(4, "little"))[0]
            elif wanted in ("text", "texts"):
                value = text(value)
            if name in found and wanted in ("ints", "texts", "list"):
                found[name].append(value)
            elif name in found:
                raise damaged(f"field {name} is there twice")
            else:
                found[name] = value
        return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def text(data):
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise damaged("a name that is not UTF-8") from None
