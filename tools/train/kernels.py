# SPDX-License-Identifier: MIT
"""The C kernels of kernels.h, once a program has called load() with the path of libespalier-train-kernels.so. Without them the same is
computed by PyTorch, several times slower and without rounding to bfloat16."""
import ctypes
import os

LONG, FLOAT, POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
library = None


class AttentionArgs(ctypes.Structure):
    """struct attention."""
    _fields_ = [(name, LONG) for name in ("items", "heads", "width")] + [(name, POINTER) for name in ("query_begin", "key_begin")] + \
               [(name, LONG) for name in ("query_stride", "key_stride")] + \
               [(name, POINTER) for name in ("query", "key", "value", "query_gain", "key_gain", "query_turn", "key_turn")]


class ConvLinks(ctypes.Structure):
    """struct conv_links."""
    _fields_ = [("rows", LONG)] + [(name, POINTER) for name in ("counts", "input", "output")]


SIGNATURES = {
    "train_attention_forward": [ctypes.POINTER(AttentionArgs)] + [POINTER] * 2,
    "train_attention_backward": [ctypes.POINTER(AttentionArgs)] + [POINTER] * 8,
    "train_linear_forward": [POINTER] * 4 + [LONG] * 3, "train_linear_backward": [POINTER] * 6 + [LONG] * 3,
    "train_norm_forward": [POINTER] * 4 + [LONG] * 2 + [FLOAT] + [POINTER] * 2,
    "train_norm_backward": [POINTER] * 5 + [LONG] * 2 + [POINTER] * 3,
    "train_gate_forward": [POINTER] * 4 + [LONG] * 2 + [POINTER], "train_gate_backward": [POINTER] * 4 + [LONG] * 2 + [POINTER] * 2,
    "train_gelu_forward": [POINTER] * 2 + [LONG], "train_gelu_backward": [POINTER] * 3 + [LONG],
    "train_convolve": [ctypes.POINTER(ConvLinks)] + [POINTER] * 3 + [LONG] * 2 + [ctypes.c_int],
    "train_convolve_weights": [ctypes.POINTER(ConvLinks)] + [POINTER] * 3 + [LONG] * 2}


def load(path):
    """Takes the kernels from a shared library from now on; None: PyTorch again."""
    global library
    library = ctypes.CDLL(os.path.abspath(path)) if path else None
    for name, arguments in SIGNATURES.items() if path else ():
        getattr(library, name).argtypes = arguments


def address(tensor):
    return None if tensor is None else tensor.data_ptr()


def check(status):
    if status != 0:
        raise MemoryError("training kernels")
