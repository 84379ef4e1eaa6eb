"""Cells that make one vector of two, computed over whole forests at once, and the classifier that all models share.

The binary TreeLSTM (Tai, Socher and Manning 2015, equations 9-14, without an input of its own at inner nodes):

    z = W_l h_l + W_r h_r + b,     i, f_l, f_r, o = sigmoid(z_1 .. z_4),     u = tanh(z_5)
    c = f_l c_l + f_r c_r + i u,   h = o tanh(c)

`TreeLSTM.forward` takes a TreeSchedule and gives h of every node. Each child is projected once for each side it stands on, a
height at a time, so the products are W_l and W_r with consecutive rows; the rest of the cell is one compiled loop, and
so is its derivative. The gradient of W is a single product at the end. On a GPU, and as its own twin in the tests, the
same computation is written in plain torch (`plain=True`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused, inlined
from pomona.models.inputs.schedule import TreeSchedule

# -- sigmoid and tanh over rows --------------------------------------------------------------------------------------

_LOW, _HIGH = np.float32(-87), np.float32(88)  # where exp of a 32-bit number under- and overflows
_LOG2_E, _LN2_HIGH, _LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_P0, _P1, _P2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_BIAS, _SHIFT = np.int32(127), np.int32(23)


@inlined
def _exp(x: Any) -> Any:
    """exp in 32 bits as 2^n p(f), n whole and |f| <= ln 2 / 2 (Cephes' polynomial): one that runs eight at a time."""
    x = x if x > _LOW else _LOW
    x = x if x < _HIGH else _HIGH
    n = np.floor(x * _LOG2_E + _HALF)
    f = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_P0 * f + _P1) * f + _P2) * f + _P3) * f + _P4) * f + _P5
    return (p * f * f + f + _ONE) * np.int32((np.int32(n) + _BIAS) << _SHIFT).view(np.float32)


@fused
def sigmoid_row(row: Floats) -> None:
    """The logistic function of a row, in place; in 64 bits it is exact to the last digits."""
    if row.itemsize == 8:
        for k in range(len(row)):
            row[k] = 1 / (1 + math.exp(-row[k]))
    else:
        for k in range(len(row)):
            row[k] = _ONE / (_ONE + _exp(-row[k]))


@fused
def tanh_row(row: Floats, out: Floats) -> None:
    """The hyperbolic tangent of a row."""
    if row.itemsize == 8:
        for k in range(len(row)):
            out[k] = math.tanh(row[k])
    else:
        for k in range(len(row)):
            out[k] = _ONE - _TWO / (_ONE + _exp(_TWO * row[k]))


# -- the TreeLSTM, one node ------------------------------------------------------------------------------------------


@fused
def compose(one: Floats, two: Floats, c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats) -> None:
    """One node from the projections of its children (`one` with the bias) and their c; t is tanh(c)."""
    H = len(h)
    for k in range(5 * H):
        gates[k] = one[k] + two[k]
    sigmoid_row(gates[: 4 * H])
    tanh_row(gates[4 * H :], gates[4 * H :])
    _mix(c_l, c_r, gates, h, c, t)


@fused
def _mix(c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats) -> None:
    H = len(h)
    i, f_l, f_r = gates[:H], gates[H : 2 * H], gates[2 * H : 3 * H]
    o, u = gates[3 * H : 4 * H], gates[4 * H :]
    for k in range(H):
        c[k] = f_l[k] * c_l[k] + f_r[k] * c_r[k] + i[k] * u[k]
    tanh_row(c, t)
    for k in range(H):
        h[k] = o[k] * t[k]


def raise_rows(rows: Tensor) -> bool:
    """Projections z of children to factors e^-z (gates) and e^2z (the update), in place; False if they are too large.

    The gates of a node are then quotients of a product, 1 / (1 + e^-x e^-y), and no exponentials: worth it where a
    child has many partners. Beyond the limit a product could leave the range of numbers, and nothing is changed.
    """
    H, limit = rows.shape[1] // 5, 20.0 if rows.dtype == torch.float32 else 170.0
    if float(rows.abs().max()) > limit:
        return False
    rows[:, : 4 * H].neg_()
    rows[:, 4 * H :].mul_(2)
    rows.exp_()
    return True


@fused
def compose_raised(
    one: Floats, two: Floats, c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats
) -> None:
    """The same node as `compose` makes, from raised projections."""
    H = len(h)
    for k in range(5 * H):
        gates[k] = one[k] * two[k]
    if gates.itemsize == 8:
        for k in range(4 * H):
            gates[k] = 1 / (1 + gates[k])
        for k in range(4 * H, 5 * H):
            gates[k] = 1 - 2 / (1 + gates[k])
    else:
        for k in range(4 * H):
            gates[k] = _ONE / (_ONE + gates[k])
        for k in range(4 * H, 5 * H):
            gates[k] = _ONE - _TWO / (_ONE + gates[k])
    _mix(c_l, c_r, gates, h, c, t)


@fused
def decompose(
    d_h: Floats, d_c: Floats, c_l: Floats, c_r: Floats, gates: Floats, t: Floats, d_z: Floats, d_l: Floats, d_r: Floats
) -> None:
    """The derivative of `compose`: from those of h and c to those of z (written) and of c_l and c_r (added)."""
    H = len(d_h)
    i, f_l, f_r = gates[:H], gates[H : 2 * H], gates[2 * H : 3 * H]
    o, u = gates[3 * H : 4 * H], gates[4 * H :]
    inner = d_z[4 * H :]
    for k in range(H):
        inner[k] = d_c[k] + d_h[k] * o[k] * (_ONE - t[k] * t[k])  # all that reaches c; becomes that of u below
    for k in range(H):
        d_z[3 * H + k] = d_h[k] * t[k] * o[k] * (_ONE - o[k])
    for k in range(H):
        d_z[k] = inner[k] * u[k] * i[k] * (_ONE - i[k])
    for k in range(H):
        d_z[H + k] = inner[k] * c_l[k] * f_l[k] * (_ONE - f_l[k])
        d_l[k] += inner[k] * f_l[k]
    for k in range(H):
        d_z[2 * H + k] = inner[k] * c_r[k] * f_r[k] * (_ONE - f_r[k])
        d_r[k] += inner[k] * f_r[k]
    for k in range(H):
        inner[k] = inner[k] * i[k] * (_ONE - u[k] * u[k])


# -- the TreeLSTM, one height of a schedule ------------------------------------------------------------------------------


@fused
def _up(
    first: int, last: int, leaves: int, left: Ints, right: Ints, left_row: Ints, right_row: Ints, own_left: Ints,
    own_right: Ints, left_projected: Floats, right_projected: Floats, h: Floats, c: Floats, gates: Floats, t: Floats,
    h_left: Floats, h_right: Floats,
) -> None:  # fmt: skip
    H = h.shape[1]
    for k in range(first, last):
        node = leaves + k
        compose(
            left_projected[left_row[k]], right_projected[right_row[k]], c[left[k]], c[right[k]],
            gates[k], h[node], c[node], t[k],
        )  # fmt: skip
        if own_left[k] >= 0:
            for x in range(H):
                h_left[own_left[k], x] = h[node, x]
        if own_right[k] >= 0:
            for x in range(H):
                h_right[own_right[k], x] = h[node, x]


@fused
def _down(
    first: int, last: int, leaves: int, left: Ints, right: Ints, left_row: Ints, right_row: Ints, own_left: Ints,
    own_right: Ints, d_left: Floats, d_right: Floats, from_left: Floats, from_right: Floats, d_h: Floats, c: Floats,
    d_c: Floats, gates: Floats, t: Floats, d_z: Floats,
) -> None:  # fmt: skip
    H = c.shape[1]
    for k in range(first, last):
        node = leaves + k
        row = d_h[node]
        if own_left[k] >= 0:
            more = from_left[own_left[k]]
            for x in range(H):
                row[x] += more[x]
        if own_right[k] >= 0:
            more = from_right[own_right[k]]
            for x in range(H):
                row[x] += more[x]
        decompose(row, d_c[node], c[left[k]], c[right[k]], gates[k], t[k], d_z, d_c[left[k]], d_c[right[k]])
        one, two = d_left[left_row[k]], d_right[right_row[k]]
        for x in range(5 * H):
            one[x] += d_z[x]
        for x in range(5 * H):
            two[x] += d_z[x]


class _Composed(torch.autograd.Function):
    """h of every node of a schedule, with the derivative written by hand."""

    @staticmethod
    def forward(
        ctx: Any, h0: Tensor, c0: Tensor, w_l: Tensor, w_r: Tensor, bias: Tensor, schedule: TreeSchedule
    ) -> Tensor:
        V, H, N = schedule.leaves, h0.shape[1], len(schedule)
        rows = int(schedule.left_at[-1]) if N else V, int(schedule.right_at[-1]) if N else V
        h, c = h0.new_empty(V + N, H), h0.new_empty(V + N, H)
        gates, t = h0.new_empty(N, 5 * H), h0.new_empty(N, H)
        h_left, h_right = h0.new_empty(rows[0], H), h0.new_empty(rows[1], H)
        one, two = h0.new_empty(rows[0], 5 * H), h0.new_empty(rows[1], 5 * H)
        h[:V], c[:V], h_left[:V], h_right[:V] = h0, c0, h0, h0
        to_left, to_right = w_l.t(), w_r.t()
        torch.addmm(bias, h_left[:V], to_left, out=one[:V])
        torch.mm(h_right[:V], to_right, out=two[:V])
        where = (
            schedule.left,
            schedule.right,
            schedule.left_row,
            schedule.right_row,
            schedule.own_left,
            schedule.own_right,
        )
        arrays = [x.numpy() for x in (one, two, h, c, gates, t, h_left, h_right)]
        at, left_at, right_at = schedule.at.tolist(), schedule.left_at.tolist(), schedule.right_at.tolist()
        for level in range(len(at) - 1):
            _up(at[level], at[level + 1], V, *where, *arrays)
            low, high = left_at[level], left_at[level + 1]
            if low < high:
                torch.addmm(bias, h_left[low:high], to_left, out=one[low:high])
            low, high = right_at[level], right_at[level + 1]
            if low < high:
                torch.mm(h_right[low:high], to_right, out=two[low:high])
        ctx.schedule, ctx.kept = schedule, (c, gates, t, h_left, h_right, one, two)
        ctx.save_for_backward(w_l, w_r)
        return h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        if ctx.kept is None:
            raise RuntimeError(
                "the nodes of a schedule were differentiated twice; compute them again for a second time"
            )
        schedule: TreeSchedule = ctx.schedule
        w_l, w_r = ctx.saved_tensors
        c, gates, t, h_left, h_right, d_left, d_right = ctx.kept
        ctx.kept = None  # the projections are no longer needed; their memory takes their derivatives
        V = schedule.leaves
        d_h, d_c = d_out.clone(memory_format=torch.contiguous_format), torch.zeros_like(c)
        d_left.zero_()
        d_right.zero_()
        from_left, from_right = torch.empty_like(h_left), torch.empty_like(h_right)
        d_z = c.new_empty(5 * c.shape[1])
        where = (
            schedule.left,
            schedule.right,
            schedule.left_row,
            schedule.right_row,
            schedule.own_left,
            schedule.own_right,
        )
        arrays = [x.numpy() for x in (d_left, d_right, from_left, from_right, d_h, c, d_c, gates, t, d_z)]
        at, left_at, right_at = schedule.at.tolist(), schedule.left_at.tolist(), schedule.right_at.tolist()
        for level in range(len(at) - 2, -1, -1):
            low, high = left_at[level], left_at[level + 1]
            if low < high:
                torch.mm(d_left[low:high], w_l, out=from_left[low:high])
            low, high = right_at[level], right_at[level + 1]
            if low < high:
                torch.mm(d_right[low:high], w_r, out=from_right[low:high])
            _down(at[level], at[level + 1], V, *where, *arrays)
        d_h0 = d_h[:V] + d_left[:V] @ w_l + d_right[:V] @ w_r
        return d_h0, d_c[:V].clone(), d_left.t() @ h_left, d_right.t() @ h_right, d_left.sum(0), None


class TreeLSTM(nn.Module):
    """The binary TreeLSTM cell of width H; forget gates start open (bias 1), as in the paper's code."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.left = nn.Parameter(torch.randn(5 * width, width) / math.sqrt(2 * width))
        self.right = nn.Parameter(torch.randn(5 * width, width) / math.sqrt(2 * width))
        self.bias = nn.Parameter(torch.zeros(5 * width))
        with torch.no_grad():
            self.bias[width : 3 * width] = 1

    def forward(self, schedule: TreeSchedule, h: Tensor, c: Tensor, *, plain: bool = False) -> Tensor:
        """h of every node, [leaves + nodes, H], from h and c of the leaves."""
        if plain or h.device.type != "cpu":
            return self._plain(schedule, h, c)
        out: Tensor = _Composed.apply(h, c, self.left, self.right, self.bias, schedule)  # type: ignore[no-untyped-call]
        return out

    def _plain(self, schedule: TreeSchedule, h: Tensor, c: Tensor) -> Tensor:
        for low, high in zip(schedule.at[:-1], schedule.at[1:], strict=True):
            left, right = (
                torch.from_numpy(side[low:high]).long().to(h.device) for side in (schedule.left, schedule.right)
            )
            new_h, new_c = self.pair(h[left], c[left], h[right], c[right])
            h, c = torch.cat([h, new_h]), torch.cat([c, new_c])
        return h

    def pair(self, h_l: Tensor, c_l: Tensor, h_r: Tensor, c_r: Tensor) -> tuple[Tensor, Tensor]:
        """The cell itself, in the words of the paper: any number of pairs at once."""
        i, f_l, f_r, o, u = (h_l @ self.left.t() + h_r @ self.right.t() + self.bias).chunk(5, -1)
        c = f_l.sigmoid() * c_l + f_r.sigmoid() * c_r + i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c


# -- from a vector to an answer --------------------------------------------------------------------------------------


class BatchLayerNorm(nn.Module):
    """The LayerNorm of the paper's code: one mean and deviation over the whole batch, a gain and bias a feature.

    An answer then depends on what else is in its batch; kept for fidelity, never the default.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        deviation = x.std() if x.numel() > 1 else x.new_ones(())
        return self.weight * (x - x.mean()) / (deviation + 1e-5) + self.bias


class Classifier(nn.Sequential):
    """The paper's 2-layer MLP: LayerNorm, twice (linear, ReLU, LayerNorm), linear to the classes."""

    def __init__(self, width: int, hidden: int, classes: int, *, batch_layernorm: bool = False) -> None:
        norm = BatchLayerNorm if batch_layernorm else nn.LayerNorm
        super().__init__(
            norm(width),
            nn.Linear(width, hidden), nn.ReLU(), norm(hidden),
            nn.Linear(hidden, hidden), nn.ReLU(), norm(hidden),
            nn.Linear(hidden, classes),
        )  # fmt: skip
        for layer in self:
            if isinstance(layer, nn.Linear):  # Kaiming, no bias, as in the paper's code
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
