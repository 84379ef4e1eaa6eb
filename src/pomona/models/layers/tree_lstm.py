"""The binary TreeLSTM cell, computed over whole forests at once.

The cell is that of Tai, Socher and Manning (2015), equations 9-14, without an input at inner nodes:

    z = W_l h_l + W_r h_r + b,     i, f_l, f_r, o = sigmoid(z_1 .. z_4),     u = tanh(z_5)
    c = f_l c_l + f_r c_r + i u,   h = o tanh(c)

`TreeLSTM.forward` takes a TreeSchedule and returns h of every node. Each child is projected once for each side that it
stands on, one height at a time, so the products are those of W_l and W_r with consecutive rows. The rest of the cell is
one compiled loop, and so is its derivative. The gradient of W is a single product at the end. The same computation in
plain torch (`plain=True`) is used on a GPU, and as the twin in the tests.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused
from pomona.models.inputs.schedule import TreeSchedule
from pomona.models.layers.rows import ONE, TWO, sigmoid_row, tanh_row

# -- one node ---------------------------------------------------------------------------------------------------------


@fused
def node_forward(
    left: Floats, right: Floats, c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats
) -> None:
    """One node from the projections of its children (that of the left has the bias) and their c; t is tanh(c)."""
    H = len(h)
    for k in range(5 * H):
        gates[k] = left[k] + right[k]
    sigmoid_row(gates[: 4 * H])
    tanh_row(gates[4 * H :], gates[4 * H :])
    _mix(c_l, c_r, gates, h, c, t)


@fused
def _mix(c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats) -> None:
    """h and c from the gates."""
    H = len(h)
    i, f_l, f_r = gates[:H], gates[H : 2 * H], gates[2 * H : 3 * H]
    o, u = gates[3 * H : 4 * H], gates[4 * H :]
    for k in range(H):
        c[k] = f_l[k] * c_l[k] + f_r[k] * c_r[k] + i[k] * u[k]
    tanh_row(c, t)
    for k in range(H):
        h[k] = o[k] * t[k]


def to_exponentials(rows: Tensor) -> bool:
    """Replace projections z of children by e^-z (gates) and e^2z (the update); False if they are too large.

    The gates of a node are then 1 / (1 + e^-x e^-y), computed without exponentials. That pays where a child has many
    partners. If a product could overflow, nothing is changed.
    """
    H, limit = rows.shape[1] // 5, 20.0 if rows.dtype == torch.float32 else 170.0
    if float(rows.abs().max()) > limit:
        return False
    rows[:, : 4 * H].neg_()
    rows[:, 4 * H :].mul_(2)
    rows.exp_()
    return True


@fused
def node_forward_exponential(
    left: Floats, right: Floats, c_l: Floats, c_r: Floats, gates: Floats, h: Floats, c: Floats, t: Floats
) -> None:
    """The same node as `node_forward` computes, from projections after `to_exponentials`."""
    H = len(h)
    for k in range(5 * H):
        gates[k] = left[k] * right[k]
    if gates.itemsize == 8:
        for k in range(4 * H):
            gates[k] = 1 / (1 + gates[k])
        for k in range(4 * H, 5 * H):
            gates[k] = 1 - 2 / (1 + gates[k])
    else:
        for k in range(4 * H):
            gates[k] = ONE / (ONE + gates[k])
        for k in range(4 * H, 5 * H):
            gates[k] = ONE - TWO / (ONE + gates[k])
    _mix(c_l, c_r, gates, h, c, t)


@fused
def node_backward(
    d_h: Floats, d_c: Floats, c_l: Floats, c_r: Floats, gates: Floats, t: Floats, d_z: Floats, d_l: Floats, d_r: Floats
) -> None:
    """The derivative of `node_forward`: from those of h and c to those of z (written) and of c_l and c_r (added)."""
    H = len(d_h)
    i, f_l, f_r = gates[:H], gates[H : 2 * H], gates[2 * H : 3 * H]
    o, u = gates[3 * H : 4 * H], gates[4 * H :]
    inner = d_z[4 * H :]
    for k in range(H):
        inner[k] = d_c[k] + d_h[k] * o[k] * (
            ONE - t[k] * t[k]
        )  # the whole derivative of c; replaced by that of u below
    for k in range(H):
        d_z[3 * H + k] = d_h[k] * t[k] * o[k] * (ONE - o[k])
    for k in range(H):
        d_z[k] = inner[k] * u[k] * i[k] * (ONE - i[k])
    for k in range(H):
        d_z[H + k] = inner[k] * c_l[k] * f_l[k] * (ONE - f_l[k])
        d_l[k] += inner[k] * f_l[k]
    for k in range(H):
        d_z[2 * H + k] = inner[k] * c_r[k] * f_r[k] * (ONE - f_r[k])
        d_r[k] += inner[k] * f_r[k]
    for k in range(H):
        inner[k] = inner[k] * i[k] * (ONE - u[k] * u[k])


# -- one height of a schedule -----------------------------------------------------------------------------------------


@fused
def _height_forward(
    first: int, last: int, leaves: int, left: Ints, right: Ints, left_row: Ints, right_row: Ints, own_left: Ints,
    own_right: Ints, left_projected: Floats, right_projected: Floats, h: Floats, c: Floats, gates: Floats, t: Floats,
    h_left: Floats, h_right: Floats,
) -> None:  # fmt: skip
    H = h.shape[1]
    for k in range(first, last):
        node = leaves + k
        node_forward(
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
def _height_backward(
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
        node_backward(row, d_c[node], c[left[k]], c[right[k]], gates[k], t[k], d_z, d_c[left[k]], d_c[right[k]])
        to_left, to_right = d_left[left_row[k]], d_right[right_row[k]]
        for x in range(5 * H):
            to_left[x] += d_z[x]
        for x in range(5 * H):
            to_right[x] += d_z[x]


class _Composed(torch.autograd.Function):
    """h of every node of a schedule, with a derivative written by hand."""

    @staticmethod
    def forward(
        ctx: Any, h0: Tensor, c0: Tensor, w_l: Tensor, w_r: Tensor, bias: Tensor, schedule: TreeSchedule
    ) -> Tensor:
        V, H, N = schedule.leaves, h0.shape[1], len(schedule)
        rows = int(schedule.left_at[-1]) if N else V, int(schedule.right_at[-1]) if N else V
        h, c = h0.new_empty(V + N, H), h0.new_empty(V + N, H)
        gates, t = h0.new_empty(N, 5 * H), h0.new_empty(N, H)
        h_left, h_right = h0.new_empty(rows[0], H), h0.new_empty(rows[1], H)
        left, right = h0.new_empty(rows[0], 5 * H), h0.new_empty(rows[1], 5 * H)  # projections
        h[:V], c[:V], h_left[:V], h_right[:V] = h0, c0, h0, h0
        to_left, to_right = w_l.t(), w_r.t()
        torch.addmm(bias, h_left[:V], to_left, out=left[:V])
        torch.mm(h_right[:V], to_right, out=right[:V])
        where = schedule.children
        arrays = [x.numpy() for x in (left, right, h, c, gates, t, h_left, h_right)]
        at, left_at, right_at = schedule.at.tolist(), schedule.left_at.tolist(), schedule.right_at.tolist()
        for level in range(len(at) - 1):
            _height_forward(at[level], at[level + 1], V, *where, *arrays)
            low, high = left_at[level], left_at[level + 1]
            if low < high:
                torch.addmm(bias, h_left[low:high], to_left, out=left[low:high])
            low, high = right_at[level], right_at[level + 1]
            if low < high:
                torch.mm(h_right[low:high], to_right, out=right[low:high])
        ctx.schedule, ctx.kept = schedule, (c, gates, t, h_left, h_right, left, right)
        ctx.save_for_backward(w_l, w_r)
        return h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        if ctx.kept is None:
            raise RuntimeError(
                "backward was called twice for the nodes of a schedule; compute them again before the second call"
            )
        schedule: TreeSchedule = ctx.schedule
        w_l, w_r = ctx.saved_tensors
        c, gates, t, h_left, h_right, d_left, d_right = ctx.kept
        ctx.kept = None  # the projections are no longer needed, and their memory is used for their derivatives
        V = schedule.leaves
        d_h, d_c = d_out.clone(memory_format=torch.contiguous_format), torch.zeros_like(c)
        d_left.zero_()
        d_right.zero_()
        from_left, from_right = torch.empty_like(h_left), torch.empty_like(h_right)
        d_z = c.new_empty(5 * c.shape[1])
        where = schedule.children
        arrays = [x.numpy() for x in (d_left, d_right, from_left, from_right, d_h, c, d_c, gates, t, d_z)]
        at, left_at, right_at = schedule.at.tolist(), schedule.left_at.tolist(), schedule.right_at.tolist()
        for level in range(len(at) - 2, -1, -1):
            low, high = left_at[level], left_at[level + 1]
            if low < high:
                torch.mm(d_left[low:high], w_l, out=from_left[low:high])
            low, high = right_at[level], right_at[level + 1]
            if low < high:
                torch.mm(d_right[low:high], w_r, out=from_right[low:high])
            _height_backward(at[level], at[level + 1], V, *where, *arrays)
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
        """The cell as the paper writes it, for any number of pairs at once."""
        i, f_l, f_r, o, u = (h_l @ self.left.t() + h_r @ self.right.t() + self.bias).chunk(5, -1)
        c = f_l.sigmoid() * c_l + f_r.sigmoid() * c_r + i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c
