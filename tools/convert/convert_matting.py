#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts the weights of a matting network that people have to the safetensors that espalier reads:

    convert_matting.py INPUT [-o OUT.safetensors] [--f16] [--list]

INPUT is an ONNX file of U2-Net, U2-NetP or IS-Net, or a state dict of one of them or of BiRefNet that torch.save wrote (a zip archive).
Python's standard library is all it needs: it runs once for each file, and both formats are easy to read there without their own libraries.
Exit status as espalier's: 2 wrong arguments, 4 the input is missing, damaged or no such network, 5 no memory, 7 the output cannot be
written, 130 and 143 interrupted."""
import argparse
import array
import json
import mmap
import os
import signal
import stat
import struct
import sys
import tempfile

import networks
import onnx_weights
import torch_weights
from common import ELEMENT_SIZE, FLOATS, Refused, Tensor

CHUNK = 1 << 16     # values that are rounded at a time


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message.replace("\n", " ") + "; see --help", Refused.ARGUMENT)


# ------------------------------------------------------------------ reading

def open_input(path):
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Refused("not a file")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise Refused(getattr(error, "strerror", None) or "no such file name") from None


def read_tensors(file):
    """network, whether batch norms are apart, {name: Tensor}"""
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise Refused("empty")
    try:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise Refused(f"cannot be mapped ({error.strerror})", Refused.RESOURCE) from None
    start = bytes(data[:512])
    if start.startswith(b"PK\x03\x04"):
        tensors = torch_weights.read(file, size)
        return networks.recognise(tensors) + (tensors,)
    if start[:1] == b"\x80" or start[257:262] == b"ustar":
        raise Refused("written by PyTorch before 1.6 or by pickle itself: its pickle is one program from end to end. Load it with "
                      "torch.load(FILE, map_location='cpu', weights_only=True) and write it again with torch.save")
    if start.startswith(b"GGUF") or start[8:9] == b"{":
        raise Refused("GGUF or safetensors, which espalier reads itself; there is nothing to convert")
    return onnx_weights.read(data)


# ------------------------------------------------------------------ converting

def floats_of(dtype, data):
    """The values of a tensor as an array of float32; F64 is rounded."""
    if dtype == "BF16":
        bits = array.array("I", struct.unpack(f"<{len(data) // 2}H", data))
        return array.array("f", struct.pack(f"<{len(bits)}I", *(b << 16 for b in bits)))
    return array.array("f", struct.unpack(f"<{len(data) // ELEMENT_SIZE[dtype]}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[dtype]}", data))


def rounded(name, tensor, target):
    """The tensor with another floating-point type, each value rounded to nearest even."""
    def read():
        data, out = memoryview(tensor.read()), []
        step = CHUNK * ELEMENT_SIZE[tensor.dtype]
        for at in range(0, len(data), step):
            values = floats_of(tensor.dtype, data[at:at + step])
            try:
                out.append(struct.pack(f"<{len(values)}{'e' if target == 'F16' else 'f'}", *values))
            except OverflowError:
                raise Refused(f"tensor {name} has values too large for F16; convert without --f16") from None
        return b"".join(out)
    return Tensor(target, tensor.shape, read, tensor.source)


def choose_types(tensors, f16):
    """Types are kept, but F64 becomes F32; with f16, matrices and convolutions become F16, while vectors keep their precision."""
    out = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        if f16 and tensor.dtype in ("F64", "F32", "BF16") and len(tensor.shape) > 1:
            tensor = rounded(name, tensor, "F16")
        elif tensor.dtype == "F64":
            tensor = rounded(name, tensor, "F32")
        out[name] = tensor
    return out


# ------------------------------------------------------------------ writing

def write_safetensors(path, tensors, metadata):
    """Complete or not at all: a file beside it is renamed to path at the end."""
    header, offset = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.size]}
        offset += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = None
    try:
        handle, part = tempfile.mkstemp(prefix=".convert-", suffix=".part", dir=os.path.dirname(path) or ".")
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in tensors.values():
                file.write(tensor.read())
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
        part = None
    except (OSError, ValueError) as error:
        raise Refused(getattr(error, "strerror", None) or "no such file name", Refused.OUTPUT) from None
    finally:
        if part is not None:
            os.unlink(part)


def list_tensors(tensors):
    for name, tensor in tensors.items():
        print(f"{name:40} {tensor.dtype:5} {str(list(tensor.shape)):20} {tensor.source}")


def run(options):
    with open_input(options.input) as file:
        if options.output and os.path.exists(options.output) and os.path.samestat(os.stat(options.output), os.fstat(file.fileno())):
            raise Refused("input and output are the same file", Refused.ARGUMENT)
        network, with_norms, found = read_tensors(file)
        tensors = choose_types(found, options.f16)
        count = sum(tensor.size // ELEMENT_SIZE[tensor.dtype] for tensor in tensors.values() if tensor.dtype in FLOATS)
        size = sum(tensor.size for tensor in tensors.values())
        if options.output:
            write_safetensors(options.output, tensors, {"network": network})
        print(f"{network}: {len(tensors)} tensors, {count} values, {size} bytes, batch norms {'apart' if with_norms else 'folded'}")
        if options.list:
            list_tensors(tensors)


def terminate(number, frame):
    raise Refused("interrupted", 128 + number)


def main(arguments):
    signal.signal(signal.SIGTERM, terminate)
    sys.stdout.reconfigure(errors="backslashreplace")
    subject = ""
    try:
        parser = Arguments(prog="convert_matting.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("input")
        parser.add_argument("-o", "--output", metavar="FILE", help="the safetensors file to write")
        parser.add_argument("--f16", action="store_true", help="round matrices and convolutions to 16 bits")
        parser.add_argument("--list", action="store_true", help="list the tensors: name, type, shape, what INPUT calls it")
        options = parser.parse_args(arguments)
        if not options.output and not options.list:
            parser.error("nothing to do: name an output with -o, or use --list")
        subject = options.input + ": "
        run(options)
        sys.stdout.flush()
        return 0
    except Refused as error:
        if error.status == Refused.OUTPUT:
            subject = options.output + ": "
        message, status = subject + str(error), error.status
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        message, status = "standard output cannot be written", Refused.OUTPUT
    except MemoryError:
        message, status = subject + "out of memory", Refused.RESOURCE
    except KeyboardInterrupt:
        message, status = "interrupted", Refused.CANCELLED
    print("convert_matting: " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
