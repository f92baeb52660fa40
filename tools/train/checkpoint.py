# SPDX-License-Identifier: MIT
"""Safetensors files <-> PyTorch state dicts, with the rounding of released checkpoints (BF16, F16)."""
import json
import os
import struct

import numpy as np
import torch

NUMPY_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
               "U16": np.uint16, "U8": np.uint8, "I8": np.int8, "BOOL": np.bool_}


def read_arrays(path):
    """All tensors of a safetensors file as numpy arrays; BF16 becomes float32 without a change of value."""
    with open(path, "rb") as file:
        data = file.read()
    header_size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + header_size])
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + header_size + begin:8 + header_size + end]
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            array = np.frombuffer(raw, NUMPY_TYPES[entry["dtype"]])
        arrays[name] = array.reshape(entry["shape"]).copy()
    return arrays


def read_state(path, prefix=""):
    """A float32 state dict of the tensors whose names begin with prefix, which is cut off."""
    return {name[len(prefix):]: torch.from_numpy(array.astype(np.float32))
            for name, array in read_arrays(path).items() if name.startswith(prefix)}


def to_bfloat16_bits(array):
    """float32 -> the 16 bits of bfloat16, round to nearest even (finite values)."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_arrays(path, arrays, dtype=None):
    """Writes arrays in the order of their names. dtype: None keeps each array's type; "BF16" or "F16" rounds float32."""
    header, blobs, offset = {}, [], 0
    names = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if dtype == "BF16":
            stored, kind = to_bfloat16_bits(array), "BF16"
        elif dtype == "F16":
            stored, kind = array.astype(np.float16), "F16"
        else:
            stored, kind = array, names[array.dtype]
        blob = np.ascontiguousarray(stored).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    os.replace(path + ".part", path)


def write_state(path, state, dtype):
    """A state dict as a checkpoint file, rounded to dtype ("BF16" for flow models and the image encoder, "F16" for decoders)."""
    write_arrays(path, {name: tensor.detach().float().numpy() for name, tensor in state.items()}, dtype)
