"""A layer of a Transformer over sequences that lie end to end, in training: pre-norm, ReLU, nothing left out.

    y = Norm(x),   x <- x + Out(Attention(y)),   y = Norm(x),   x <- x + Down(relu(Up(y)))

`attention.TransformerLayer` is the same over padded sequences, and the twin in the tests. Without padding the linear
layers read tokens only, and attention takes neighbours of one length together, without a mask: buckets put them side by
side. Products are those of the faster library (`products`). The derivative of the layer is written by hand, so that
none of its steps is a node of torch's graph but attention, whose derivative is torch's.

The rows behind the last token are room (`room_for`): the products of all batches have few shapes. Nothing attends to
them, and their gradients are zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pomona.models.inputs.sequences import PAD, SequenceBatch
from pomona.models.layers.attention import TransformerLayer
from pomona.models.layers.products import multiplied, over_rows, room_for


class Alike(NamedTuple):
    """Neighbours of one length: the rows of their tokens, and of those that ask."""

    sequences: int
    tokens: slice
    asking: slice


class Flat(NamedTuple):
    """Where the sequences are among the rows of vectors, and which rows ask."""

    groups: list[Alike]
    asking: Tensor | None  # None if all do

    def asked(self, x: Tensor) -> Tensor:
        """The vectors of the rows that ask."""
        return x if self.asking is None else x[self.asking]


class FlatBatch(NamedTuple):
    """The tokens of a batch one after the other, and their positions in their sequences, with room behind them."""

    tokens: Tensor
    places: Tensor
    every: Flat  # all tokens ask
    roots: Flat  # only the first token of each tree does

    @classmethod
    def of(cls, batch: SequenceBatch) -> FlatBatch:
        start, heads, count = batch.start, batch.heads.numpy(), len(batch.flat)
        lengths = np.diff(start)
        tokens, places = np.full(room_for(count), PAD), np.zeros(room_for(count), np.int64)
        tokens[:count] = batch.flat
        places[:count] = np.arange(count) - np.repeat(start[:-1], lengths)
        cuts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
        every, roots = [], []
        for first, last in pairwise(cuts):
            rows = slice(int(start[first]), int(start[last]))
            every.append(Alike(last - first, rows, rows))
            roots.append(Alike(last - first, rows, slice(first * heads.shape[1], last * heads.shape[1])))
        asking = torch.from_numpy((start[:-1, None] + heads).ravel())
        return cls(torch.from_numpy(tokens), torch.from_numpy(places), Flat(every, None), Flat(roots, asking))


def flat_layer(layer: TransformerLayer, x: Tensor, flat: Flat) -> Tensor:
    """The new vectors of the rows that ask, of `x`, [rows, width]."""
    attention, (before, between) = layer.attention, layer.norms
    parts = (attention.query, attention.key, attention.value, attention.out, layer.up, layer.down, before, between)
    weights = [weight for part in parts for weight in (part.weight, part.bias)]
    assert isinstance(before, nn.LayerNorm)
    about = About(flat, attention.heads, before.eps, torch.is_grad_enabled())
    out: Tensor = _Layer.apply(x, about, *weights)  # type: ignore[no-untyped-call]
    return out


class About(NamedTuple):
    """What a layer must know beside its weights."""

    flat: Flat
    heads: int
    eps: float
    learning: bool  # whether gradients are wanted


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, about: About, *weights: Tensor) -> Tensor:
        wq, bq, wk, bk, wv, bv, wo, bo, wu, bu, wd, bd, w1, b1, w2, b2 = weights
        flat, size = about.flat, x.shape[1]
        y, *scales = torch.native_layer_norm(x, (size,), w1, b1, about.eps)
        if flat.asking is None:
            query, key, value = multiplied(y, torch.cat([wq, wk, wv]), torch.cat([bq, bk, bv])).chunk(3, 1)
        else:
            query = multiplied(y[flat.asking], wq, bq)
            key, value = multiplied(y, torch.cat([wk, wv]), torch.cat([bk, bv])).chunk(2, 1)
        mixed = torch.empty_like(query, memory_format=torch.contiguous_format)
        reads = [_Read((query, key, value), group, about, mixed) for group in flat.groups]
        mixed[flat.groups[-1].asking.stop :].zero_()
        middle = multiplied(mixed, wo, bo).add_(flat.asked(x))
        z, *others = torch.native_layer_norm(middle, (size,), w2, b2, about.eps)
        inner = multiplied(z, wu, bu, relu=True)
        ctx.kept = flat, (x, *scales), y, reads, mixed, (middle, *others), z, inner
        ctx.save_for_backward(*weights)
        return multiplied(inner, wd, bd).add_(middle)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d: Tensor) -> Any:
        if ctx.kept is None:
            raise RuntimeError("backward was called twice for a layer; compute it again before the second call")
        flat, whole, y, reads, mixed, middle, z, inner = ctx.kept
        ctx.kept = None
        wq, _, wk, _, wv, _, wo, _, wu, _, wd, _, w1, b1, w2, b2 = ctx.saved_tensors
        d, size = d.contiguous(), y.shape[1]
        d_inner = torch.ops.aten.threshold_backward(multiplied(d, wd.t()), inner, 0)
        d_middle, d_w2, d_b2 = _norm_back(multiplied(d_inner, wu.t()), middle, w2, b2)
        d_middle += d
        d_mixed = multiplied(d_middle, wo.t())
        beside = 3 if flat.asking is None else 2  # projections of all rows
        d_parts = y.new_empty(len(y), beside * size)
        d_parts[flat.groups[-1].tokens.stop :].zero_()
        if flat.asking is None:
            gradients = d_parts.chunk(beside, 1)
        else:
            gradients = (y.new_empty(len(d), size), *d_parts.chunk(beside, 1))
        for read in reads:
            read.back(d_mixed, gradients)
        weight, bias = _linear_back(d_parts, y)  # of all that stand side by side
        projections = [part for pair in zip(weight.chunk(beside), bias.chunk(beside), strict=True) for part in pair]
        if flat.asking is None:
            d_y = multiplied(d_parts, torch.cat([wq, wk, wv]).t())
        else:
            projections = [*_linear_back(gradients[0], y[flat.asking]), *projections]
            d_y = multiplied(d_parts, torch.cat([wk, wv]).t())
            d_y.index_add_(0, flat.asking, multiplied(gradients[0], wq.t()))
        d_x, d_w1, d_b1 = _norm_back(d_y, whole, w1, b1)
        d_x = d_x.add_(d_middle) if flat.asking is None else d_x.index_add_(0, flat.asking, d_middle)
        others = *_linear_back(d_middle, mixed), *_linear_back(d_inner, z), *_linear_back(d, inner)
        return d_x, None, *projections, *others, d_w1, d_b1, d_w2, d_b2


class _Read:
    """Attention of the sequences of one group, written into `out`."""

    def __init__(self, parts: tuple[Tensor, Tensor, Tensor], group: Alike, about: About, out: Tensor) -> None:
        self.group, self.heads = group, about.heads
        rows = (group.asking, group.tokens, group.tokens)
        self.parts = [self._split(part[where]) for part, where in zip(parts, rows, strict=True)]
        with torch.set_grad_enabled(about.learning):
            query, key, value = (part.requires_grad_(about.learning) for part in self.parts)
            self.mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        self._split(out[group.asking]).copy_(self.mixed.detach())

    def back(self, d_out: Tensor, gradients: tuple[Tensor, ...]) -> None:
        """Write the gradients of queries, keys and values."""
        found = torch.autograd.grad(self.mixed, self.parts, self._split(d_out[self.group.asking]))
        rows = (self.group.asking, self.group.tokens, self.group.tokens)
        for whole, where, part in zip(gradients, rows, found, strict=True):
            self._split(whole[where]).copy_(part)

    def _split(self, x: Tensor) -> Tensor:
        """[sequences, heads, length, width / heads]"""
        return x.view(self.group.sequences, -1, self.heads, x.shape[1] // self.heads).transpose(1, 2)


def _linear_back(d: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the weight and the bias of a linear layer."""
    return over_rows(d, x), d.sum(0)


def _norm_back(d: Tensor, kept: tuple[Tensor, ...], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """The gradients of a norm's input, weight and bias."""
    x, mean, scale = kept
    size, all_three = (x.shape[1],), (True, True, True)
    found: list[Tensor] = torch.ops.aten.native_layer_norm_backward(d, x, size, mean, scale, weight, bias, all_three)
    return found
