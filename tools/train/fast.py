# SPDX-License-Identifier: MIT
"""The flow transformer's forward and backward pass with the C kernels of kernels.h, on tokens of several items one after the other: the
same network as flow.FlowModel, of which it takes the weights, several times faster on one core and without padding."""
import ctypes

import torch
from torch.nn import functional as F

import kernels
from flow import EPS
from kernels import AttentionArgs, address, check


class Attention(torch.autograd.Function):
    """queries [T, heads * width] or [T, 3 * heads * width] with keys and values beside them, keys [M, 2 * heads * width] or None."""

    @staticmethod
    def arguments(queries, keys, query_gain, key_gain, turn, query_begin, key_begin):
        heads, width = query_gain.shape
        source, offset = (queries, heads * width) if keys is None else (keys, 0)
        size = source.element_size()
        return AttentionArgs(len(query_begin) - 1, heads, width, address(query_begin), address(key_begin), queries.shape[1],
                             source.shape[1], address(queries), address(source) + offset * size, address(source) + (offset + heads * width) * size,
                             address(query_gain), address(key_gain), address(turn), address(turn) if keys is None else None)

    @staticmethod
    def forward(ctx, queries, keys, query_gain, key_gain, turn, query_begin, key_begin):
        heads, width = query_gain.shape
        queries, keys = queries.contiguous(), None if keys is None else keys.contiguous()
        out, log_sums = queries.new_empty(len(queries), heads * width), queries.new_empty(heads, len(queries))
        arguments = Attention.arguments(queries, keys, query_gain, key_gain, turn, query_begin, key_begin)
        check(kernels.library.train_attention_forward(ctypes.byref(arguments), address(out), address(log_sums)))
        ctx.save_for_backward(queries, keys, query_gain, key_gain, turn, query_begin, key_begin, out, log_sums)
        return out

    @staticmethod
    def backward(ctx, grad):
        queries, keys, query_gain, key_gain, turn, query_begin, key_begin, out, log_sums = ctx.saved_tensors
        grad, channels = grad.contiguous(), query_gain.numel()
        grad_queries, grad_keys = torch.empty_like(queries), None if keys is None else torch.empty_like(keys)
        grad_gains = torch.zeros_like(query_gain), torch.zeros_like(key_gain)
        source, offset = (grad_queries, channels) if keys is None else (grad_keys, 0)
        arguments = Attention.arguments(queries, keys, query_gain, key_gain, turn, query_begin, key_begin)
        check(kernels.library.train_attention_backward(
            ctypes.byref(arguments), address(out), address(log_sums), address(grad), address(grad_queries),
            address(source) + offset * source.element_size(), address(source) + (offset + channels) * source.element_size(),
            address(grad_gains[0]), address(grad_gains[1])))
        return grad_queries, grad_keys, *grad_gains, None, None, None


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x, weight = x.contiguous(), weight.contiguous()
        out = x.new_empty(len(x), len(weight))
        check(kernels.library.train_linear_forward(address(x), address(weight), address(bias), address(out), len(x), x.shape[1],
                                                   len(weight)))
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight, grad_bias = torch.empty_like(weight), weight.new_empty(len(weight))
        check(kernels.library.train_linear_backward(address(x), address(weight), address(grad), address(grad_x), address(grad_weight),
                                            address(grad_bias), len(x), x.shape[1], len(weight)))
        return grad_x, grad_weight, grad_bias


class Norm(torch.autograd.Function):
    """Layer norm over the channels, then gain and shift [items, channels]."""

    @staticmethod
    def forward(ctx, x, gain, shift, begin):
        gain, shift = gain.contiguous(), shift.contiguous()
        out, moments = torch.empty_like(x), x.new_empty(len(x), 2)
        kernels.library.train_norm_forward(address(x), address(gain), address(shift), address(begin), len(gain), x.shape[1], EPS,
                                           address(out), address(moments))
        ctx.save_for_backward(x, gain, moments, begin)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, gain, moments, begin = ctx.saved_tensors
        grad, grads = grad.contiguous(), (torch.empty_like(x), torch.empty_like(gain), torch.empty_like(gain))
        kernels.library.train_norm_backward(address(x), address(gain), address(moments), address(grad), address(begin), len(gain),
                                            x.shape[1], *map(address, grads))
        return *grads, None


class Gate(torch.autograd.Function):
    """x + gate * z, gate [items, channels]."""

    @staticmethod
    def forward(ctx, x, z, gate, begin):
        gate, out = gate.contiguous(), torch.empty_like(x)
        kernels.library.train_gate_forward(address(x), address(z), address(gate), address(begin), len(gate), x.shape[1], address(out))
        ctx.save_for_backward(z, gate, begin)
        return out

    @staticmethod
    def backward(ctx, grad):
        z, gate, begin = ctx.saved_tensors
        grad, grads = grad.contiguous(), (torch.empty_like(z), torch.empty_like(gate))
        kernels.library.train_gate_backward(address(z), address(gate), address(grad), address(begin), len(gate), z.shape[1],
                                            *map(address, grads))
        return grad, *grads, None


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        kernels.library.train_gelu_forward(address(x), address(out), x.numel())
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        grad, grad_x = grad.contiguous(), torch.empty_like(x)
        kernels.library.train_gelu_backward(address(x), address(grad), address(grad_x), x.numel())
        return grad_x


def linear(layer, x):
    """Layers whose sizes the kernel does not take (the first and the last) go through PyTorch."""
    if x.shape[1] % 16 or len(layer.weight) % 16:
        return F.linear(x, layer.weight, layer.bias)
    return Linear.apply(x, layer.weight, layer.bias)


def run_block(block, x, modulation, context, turn, begin, context_begin):
    """Items that follow each other may share a context: then there are fewer of those."""
    shift1, scale1, gate1, shift2, scale2, gate2 = (block.modulation + modulation).chunk(6, dim=-1)
    own, cross, items = block.self_attn, block.cross_attn, len(modulation)
    hidden = linear(own.to_qkv, Norm.apply(x, 1 + scale1, shift1, begin))
    hidden = Attention.apply(hidden, None, own.q_rms_norm.gamma, own.k_rms_norm.gamma, turn, begin, begin)
    x = Gate.apply(x, linear(own.to_out, hidden), gate1, begin)
    whole = begin[[0, -1]] if items > 1 else begin
    hidden = linear(cross.to_q, Norm.apply(x, block.norm2.weight[None], block.norm2.bias[None], whole))
    hidden = Attention.apply(hidden, linear(cross.to_kv, context), cross.q_rms_norm.gamma, cross.k_rms_norm.gamma, None,
                             begin[::items // (len(context_begin) - 1)].contiguous(), context_begin)
    x = x + linear(cross.to_out, hidden)
    hidden = linear(block.mlp.mlp[0], Norm.apply(x, 1 + scale2, shift2, begin))
    return Gate.apply(x, linear(block.mlp.mlp[2], Gelu.apply(hidden)), gate2, begin)


def velocity(model, x, t, context, coords, begin):
    """FlowModel's velocity [T, out] for packed tokens: x [T, in], coords [T, 3]; items begin at rows begin [B + 1] (int64);
    t [B], context [B, M, cond] (or fewer: items that follow each other share one)."""
    if kernels.library is None:
        context = context.repeat_interleave(len(t) // len(context), 0)
        return torch.cat([model(x[None, a:b], t[i:i + 1], context[i:i + 1], coords[None, a:b])[0]
                          for i, (a, b) in enumerate(zip(begin.tolist(), begin.tolist()[1:]))])
    modulation = model.adaLN_modulation(model.t_embedder(t * 1000))
    turn = torch.stack(model.rope(coords[None]), dim=-1).reshape(len(x), -1)
    context_begin = torch.arange(len(context) + 1) * context.shape[1]
    hidden, context = linear(model.input_layer, x), context.reshape(-1, context.shape[2])
    for block in model.blocks:
        hidden = run_block(block, hidden, modulation, context, turn, begin, context_begin)
    return linear(model.out_layer, F.layer_norm(hidden, hidden.shape[-1:]))
