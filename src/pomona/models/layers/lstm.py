"""The LSTM over many sequences at once (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    z_t = X[token_t] + U h_{t-1},     i, f, o = sigmoid(z_1 .. z_3),     u = tanh(z_4)
    c_t = f c_{t-1} + i u,            h_t = o tanh(c_t)

There are few words, so what a word adds to the gates is a row of a table X = E W + b, computed once for each word and
not for each token; that halves the work. Sequences are ordered from long to short, and step t is one matrix product
over those that have not ended. The states are stored step after step without gaps, so the gradient of U is one product
at the end. As for trees, the rest of a step is a compiled loop with a derivative written by hand. The same computation
in plain torch (`plain=True`) is used on a GPU, and as the twin in the tests.

With `precision="bfloat16"` the products U h and those of the derivative are rounded (`precision.py`): a wide LSTM is
about three times as fast on a processor that has units for such products.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, fused
from pomona.models.layers.dropout import dropped
from pomona.models.layers.precision import Precision, factor, multiply, multiply_rows, product
from pomona.models.layers.products import rounded_up
from pomona.models.layers.rows import ONE, sigmoid_row, tanh_row


class Reading(NamedTuple):
    """What an LSTM reads: sequences one after the other. `wanted` are the tokens whose states are returned."""

    tokens: npt.NDArray[np.int64]  # rows of the table of words
    start: npt.NDArray[np.int64]  # [sequences + 1]: where each sequence begins
    reverse: bool = False  # read from the end to the beginning
    wanted: npt.NDArray[np.int64] | None = None  # each token at most once; None for all


class Dropout(NamedTuple):
    """Each state is passed to the next step without this share of its numbers."""

    share: float = 0.0
    random: torch.Generator | None = None


NO_DROPOUT = Dropout()
ROOM = 128  # gradients of weights are products over a multiple of so many rows
MANY = 64  # products of more rows than this are over a multiple of ROOM / 16


@compiled
def _packed(tokens: Ints, start: Ints, reverse: bool) -> tuple[Any, ...]:
    """The tokens step after step, the longest sequences first.

    Returns them, where each step begins, and where each token of the input stands among them.
    """
    lengths = start[1:] - start[:-1]
    order = np.argsort(-lengths, kind="mergesort")
    steps = lengths[order[0]]
    at = np.zeros(steps + 1, np.int64)
    for length in lengths:
        at[length] -= 1
    running = len(lengths)
    for step in range(steps):  # the number of sequences that have not ended, then where their rows begin
        ended = at[step] if step else 0
        running += ended
        at[step] = running
    total = 0
    for step in range(steps):
        running = at[step]
        at[step] = total
        total += running
    at[steps] = total
    packed = np.empty(total, np.int64)
    position = np.empty(total, np.int64)
    for row in range(len(order)):
        first, last = start[order[row]], start[order[row] + 1]
        for step in range(last - first):
            source = last - 1 - step if reverse else first + step
            packed[at[step] + row] = tokens[source]
            position[source] = at[step] + row
    return packed, at, position


@fused
def _forward(
    first: int, last: int, before: int, after: int, alive: int, passed: Floats, tokens: Ints, table: Floats,
    gates: Floats, h: Floats, c: Floats, t: Floats, previous: Floats,
) -> None:  # fmt: skip
    """One step: rows first..last. The previous step begins at `before` and passes on `passed`, the products U h;
    `alive` rows have a next step, at `after`."""
    H = h.shape[1]
    for row in range(first, last):
        z, word, now = gates[row], table[tokens[row]], c[row]
        if before >= 0:
            part = passed[row - first]
            for k in range(4 * H):
                z[k] = part[k] + word[k]
        else:
            for k in range(4 * H):
                z[k] = word[k]
        sigmoid_row(z[: 3 * H])
        tanh_row(z[3 * H :], z[3 * H :])
        i, f, o, u = z[:H], z[H : 2 * H], z[2 * H : 3 * H], z[3 * H :]
        if before >= 0:
            old = c[before + row - first]
            for k in range(H):
                now[k] = f[k] * old[k] + i[k] * u[k]
        else:
            for k in range(H):
                now[k] = i[k] * u[k]
        tanh_row(now, t[row])
        for k in range(H):
            h[row, k] = o[k] * t[row, k]
        if row - first < alive:
            kept = previous[after + row - first]
            for k in range(H):
                kept[k] = h[row, k]


@fused
def _backward(
    first: int, last: int, before: int, tokens: Ints, d_table: Floats, gates: Floats, c: Floats, t: Floats,
    d_h: Floats, d_c: Floats,
) -> None:  # fmt: skip
    """The derivative of a step; that of z is written over the gates."""
    H = c.shape[1]
    for row in range(first, last):
        z, dh, dc, tanh_c = gates[row], d_h[row], d_c[row], t[row]
        i, f, o, u = z[:H], z[H : 2 * H], z[2 * H : 3 * H], z[3 * H :]
        for k in range(H):
            dc[k] += dh[k] * o[k] * (ONE - tanh_c[k] * tanh_c[k])
        for k in range(H):
            o[k] = dh[k] * tanh_c[k] * o[k] * (ONE - o[k])
        if before >= 0:
            old, d_old = c[before + row - first], d_c[before + row - first]
            for k in range(H):
                d_old[k] += dc[k] * f[k]
            for k in range(H):
                f[k] = dc[k] * old[k] * f[k] * (ONE - f[k])
        else:
            for k in range(H):
                f[k] = 0
        for k in range(H):
            d_i = dc[k] * u[k] * i[k] * (ONE - i[k])
            u[k] = dc[k] * i[k] * (ONE - u[k] * u[k])
            i[k] = d_i
        word = d_table[tokens[row]]
        for k in range(4 * H):
            word[k] += z[k]


def _few_shapes(first: int, last: int) -> int:
    """The last row of a product over rows first..last: some rows more, so that there are fewer shapes."""
    count = last - first
    return last if count <= MANY else first + rounded_up(count, ROOM // 16)


class _States(torch.autograd.Function):
    """The states of packed sequences, with a derivative written by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        weight: Tensor,
        packed: tuple[Ints, Ints],
        wanted: tuple[Tensor, Tensor],
        precision: Precision,
    ) -> tuple[Tensor, Tensor]:
        """h at `rows` and c at `ends`, which are positions among the packed tokens, each at most once."""
        (tokens, at), (rows, ends) = packed, wanted
        table = table.contiguous()
        total, H = int(at[-1]), weight.shape[1]
        begin, weight = at.tolist(), factor(weight, precision)
        room = begin[1] + rounded_up(total - begin[1], ROOM)  # rows of zeros at the end, for products of fewer shapes
        h, c, t = (table.new_empty(total, H) for _ in range(3))
        gates, previous = table.new_empty(room, 4 * H), table.new_zeros(room, H)
        gates[total:].zero_()
        arrays = [x.numpy() for x in (table, gates, h, c, t, previous)]
        passed = arrays[1]
        for step in range(len(begin) - 1):
            first, last = begin[step], begin[step + 1]
            alive = begin[step + 2] - last if step + 2 < len(begin) else 0
            if step:
                passed = multiply(previous[first : _few_shapes(first, last)], weight, precision).numpy()
            _forward(first, last, begin[step - 1] if step else -1, last, alive, passed, tokens, *arrays)
        ctx.kept, ctx.where = (gates, c, t, previous, len(table), precision), (tokens, begin, rows, ends)
        ctx.save_for_backward(weight)
        ctx.set_materialize_grads(False)
        return h.index_select(0, rows), c.index_select(0, ends)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_cells: Tensor | None) -> Any:
        if ctx.kept is None:
            raise RuntimeError("backward was called twice for the states; compute them again before the second call")
        (gates, c, t, previous, words, precision), (tokens, begin, rows, ends) = ctx.kept, ctx.where
        ctx.kept = None
        (weight,) = ctx.saved_tensors
        d_c = torch.zeros_like(c)
        d_h = torch.empty_like(c) if d_out is not None and len(rows) == len(c) else torch.zeros_like(c)
        for whole, positions, part in ((d_h, rows, d_out), (d_c, ends, d_cells)):
            if part is not None:
                whole.index_copy_(0, positions, part)
        d_table = gates.new_zeros(words, gates.shape[1])
        arrays = [x.numpy() for x in (d_table, gates, c, t, d_h, d_c)]
        turned = weight.t().contiguous()
        for step in range(len(begin) - 2, -1, -1):
            first, last = begin[step], begin[step + 1]
            before = begin[step - 1] if step else -1
            _backward(first, last, before, tokens, *arrays)
            if step:
                part = multiply(gates[first : _few_shapes(first, last)], turned, precision)
                d_h[before : before + last - first].add_(part[: last - first])
        second = begin[1]
        d_weight = multiply_rows(gates[second:], previous[second:], precision)
        return d_table, d_weight, None, None, None


class LSTM(nn.Module):
    """A one-layer LSTM over words; forget gates start open (bias 1). With `reverse` it reads from the end."""

    def __init__(
        self, words: int, inputs: int, width: int, *, reverse: bool = False, precision: Precision = "float32"
    ) -> None:
        super().__init__()
        self.width, self.reverse, self.precision = width, reverse, precision
        self.word = nn.Parameter(torch.randn(words, inputs))
        self.input = nn.Parameter(torch.empty(4 * width, inputs).uniform_(-1, 1) / math.sqrt(width))
        self.state = nn.Parameter(torch.empty(4 * width, width).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(4 * width))
        with torch.no_grad():
            self.bias[width : 2 * width] = 1

    def forward(
        self,
        tokens: npt.NDArray[np.int64],
        start: npt.NDArray[np.int64],
        *,
        plain: bool = False,
        dropout: float = 0.0,
        random: torch.Generator | None = None,
        wanted: npt.NDArray[np.int64] | None = None,
    ) -> Tensor:
        """The state at every token, [tokens, width], of sequences that begin at `start`; or at `wanted` tokens only.

        With `dropout` and `random` each state is passed to the next step without that share of its numbers.
        """
        table = self.word @ self.input.t() + self.bias  # [words, 4 width]
        reading = Reading(tokens, start, self.reverse, wanted)
        return states_of(
            table, self.state, reading, Dropout(dropout, random), plain=plain, precision=self.precision
        )[0]


def states_of(
    table: Tensor,
    weight: Tensor,
    reading: Reading,
    dropout: Dropout = NO_DROPOUT,
    *,
    plain: bool = False,
    precision: Precision = "float32",
) -> tuple[Tensor, Tensor]:
    """h of the tokens, [tokens, width], and c of the token read last in each sequence, [sequences, width].

    U is `weight`, and token t adds row t of `table`.
    """
    packed, at, position = _packed(reading.tokens, reading.start, reading.reverse)
    last = position[reading.start[:-1] if reading.reverse else reading.start[1:] - 1]
    wanted = position if reading.wanted is None else position[reading.wanted]
    rows, ends = (torch.from_numpy(tokens).to(table.device) for tokens in (wanted, last))
    dropping = dropout.share > 0 and dropout.random is not None
    if plain or dropping or table.device.type != "cpu":
        h, c = _plain(table, weight, packed, at, dropout, precision)
        return h[rows], c[ends]
    states: tuple[Tensor, Tensor] = _States.apply(table, weight, (packed, at), (rows, ends), precision)  # type: ignore[no-untyped-call]
    return states


def _plain(
    table: Tensor,
    weight: Tensor,
    tokens: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    dropout: Dropout,
    precision: Precision,
) -> tuple[Tensor, Tensor]:
    h = c = table.new_zeros(int(at[1]), weight.shape[1])
    states, cells = [], []
    for first, last in pairwise(at.tolist()):
        running = last - first
        word = table[torch.from_numpy(tokens[first:last]).to(table.device)]
        before = dropped(h[:running], *dropout)
        i, f, o, u = (word + product(before, weight, precision)).chunk(4, 1)
        c = f.sigmoid() * c[:running] + i.sigmoid() * u.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
        cells.append(c)
    return torch.cat(states), torch.cat(cells)
