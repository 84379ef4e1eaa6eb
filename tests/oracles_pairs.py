"""Slow twins of the models of pairs: one pair, one part, one node at a time, with the fast module's own parameters.

Each gives the logits of the twelve questions of one pair, in the order of TARGETS. They are also what the benchmarks
race against. Nothing here knows of shared word pairs, shared readings or batches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pomona.tasks.fair_nli.logic.fragment import NODES, TARGETS

COLUMN = {"QS": 0, "AdjS": 1, "NS": 2, "Neg": 3, "Adv": 4, "V": 5, "QO": 6, "AdjO": 7, "NO": 8}
SPAN = {
    "PROJ_AdjS": (1, 2), "REL_NS": (2, 3), "PROJ_Adv": (4, 5), "REL_V": (5, 6), "PROJ_AdjO": (7, 8), "REL_NO": (8, 9),
    "NP_S": (1, 3), "VP": (4, 6), "NP_O": (7, 9), "OBJ": (4, 9), "NEGVP": (3, 9), "ROOT": (0, 9),
}  # fmt: skip
KIND = {
    "PROJ_QS": ("quantifier", 0), "PROJ_QO": ("quantifier", 1), "PROJ_Neg": ("negation", 0),
    "PROJ_AdjS": ("modifier", 0), "PROJ_Adv": ("modifier", 1), "PROJ_AdjO": ("modifier", 2),
    "REL_NS": ("head", 0), "REL_V": ("head", 1), "REL_NO": ("head", 2),
    "NP_S": ("phrase", 0), "VP": ("phrase", 1), "NP_O": ("phrase", 2),
    "OBJ": ("object", 0), "NEGVP": ("negated", 0), "ROOT": ("label", 0),
}  # fmt: skip
CLASSES = {"modifier": 4, "head": 2, "phrase": 4, "object": 7, "negated": 7, "label": 3}
WEIGHT = {"modifier": 1 / 6, "head": 1 / 6, "phrase": 1 / 3, "object": 0.8, "negated": 0.8, "label": 1.0}


def nonlinear(module: nn.Module, x: Tensor) -> Tensor:
    return torch.relu(x) if module.settings.activation == "relu" else torch.tanh(x)


def head(module: nn.Module, node: str, vector: Tensor) -> Tensor:
    """Two hidden layers and the softmax for this number of classes; or the softmax alone, but for the label."""
    heads = module.heads
    if module.settings.inner == "softmax" and node != "ROOT":
        return heads.softmax[str(CLASSES[KIND[node][0]])](vector)
    hidden = nonlinear(module, heads.first.weight @ vector + heads.first.bias)
    hidden = nonlinear(module, heads.second.weight @ hidden + heads.second.bias)
    return heads.softmax[str(CLASSES[KIND[node][0]])](hidden)


def side_by_side(module: nn.Module, tokens: list[list[int]], encode: object) -> list[Tensor]:
    """Both parts encoded for themselves."""
    found = []
    for node in TARGETS:
        first, last = SPAN[node]
        pair = torch.cat([encode(side[first:last]) for side in tokens])
        found.append(head(module, node, pair))
    return found


def cbow(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    return side_by_side(module, tokens, lambda words: sum(module.word.vectors[word] for word in words) / len(words))


def treenn(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    vectors = module.word.vectors

    def cell(layer: nn.Module, *children: Tensor) -> Tensor:
        return nonlinear(module, layer.weight @ torch.cat(children) + layer.bias)

    def encode(words: list[int]) -> Tensor:
        one = [vectors[word] for word in words]
        if len(words) == 1:
            return one[0]
        if len(words) == 2:
            return cell(module.two, *one)
        if len(words) == 5:
            return cell(module.three, one[2], encode(words[:2]), encode(words[3:]))
        if len(words) == 6:
            return cell(module.two, one[0], encode(words[1:]))
        return cell(module.three, one[0], encode(words[1:3]), encode(words[3:]))

    return side_by_side(module, tokens, encode)


def lstm_step(z: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, o, u = z.chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
    return torch.sigmoid(o) * torch.tanh(c), c


def lstm_pair(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    lstm = module.lstm

    def encode(words: list[int]) -> Tensor:
        h = c = lstm.word.new_zeros(lstm.width)
        for word in words:
            h, c = lstm_step(lstm.input @ lstm.word[word] + lstm.state @ h + lstm.bias, c)
        return h

    return side_by_side(module, tokens, encode)


def attention_lstm(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    zero = module.word.vectors.new_zeros(module.settings.width)

    def read(reader: nn.Module, words: list[int], c: Tensor) -> tuple[list[Tensor], Tensor]:
        h, states = zero, []
        for word in words:
            h, c = lstm_step(reader.input @ module.word.vectors[word] + reader.state @ h + reader.bias, c)
            states.append(h)
        return states, c

    found = []
    for node in TARGETS:
        first, last = SPAN[node]
        Y, c = read(module.premise, tokens[0][first:last], zero)
        H, _ = read(module.hypothesis, tokens[1][first:last], c)
        r = zero
        for h in H:
            M = [torch.tanh(module.w_y @ y + module.w_h @ h + module.w_r @ r) for y in Y]
            share = torch.stack([module.w @ m for m in M]).softmax(0)
            r = sum(a * y for a, y in zip(share, Y, strict=True)) + torch.tanh(module.w_t @ r)
        found.append(head(module, node, torch.tanh(module.w_p @ r + module.w_x @ H[-1])))
    return found


# -- along the aligned tree -------------------------------------------------------------------------------------------


def linear_cell(module: nn.Module, cell: nn.Module, c: Tensor) -> Tensor:
    return nonlinear(module, cell.layer.weight @ c + cell.layer.bias)


def tensor_cell(module: nn.Module, cell: nn.Module, c: Tensor) -> Tensor:
    """c^T V_k c with V_k written out as a matrix, upper triangle."""
    size = len(c)
    V = c.new_zeros(cell.tensor.shape[1], size, size)
    at = 0
    rows = []
    for i in range(size):
        rows.append((i, at))
        at += size - i
    V = torch.stack([
        torch.cat([c.new_zeros(i, cell.tensor.shape[1]), cell.tensor[at : at + size - i]]) for i, at in rows
    ])  # [i, j, k]  # fmt: skip
    return nonlinear(module, torch.einsum("i,ijk,j->k", c, V, c) + cell.weight @ c + cell.bias)


def deep_cell(module: nn.Module, cell: nn.Module, c: Tensor) -> Tensor:
    first, second = cell.layers if hasattr(cell, "layers") else (cell.first, cell.second)
    h = second.weight @ nonlinear(module, first.weight @ c + first.bias) + second.bias
    if getattr(cell, "norm", False):
        h = (h - h.mean()) / torch.sqrt(((h - h.mean()) ** 2).mean() + 1e-5)
    return h


def aligned_tree(module: nn.Module, tokens: list[list[int]], cell: object, rise: object) -> dict[str, Tensor]:
    """Node by node; `rise(node, h)` gives what is classified, which is returned, and what is handed up."""
    up, classified = {}, {}
    for place, name in COLUMN.items():
        for side, words in zip("PH", tokens, strict=True):
            up[f"{place}_{side}"] = module.word.vectors[words[name]]
    for node in NODES:
        kind, slot = KIND[node.name]
        key = {"arity": f"children_{len(node.children)}", "type": kind, "node": f"{kind}_{slot}"}[module.tying]
        h = cell(module, module.cells[key], torch.cat([up[child] for child in node.children]))
        classified[node.name], up[node.name] = rise(node.name, h)
    return classified


def classified_tree(module: nn.Module, tokens: list[list[int]], cell: object = linear_cell) -> list[Tensor]:
    found = aligned_tree(module, tokens, cell, lambda node, h: (h, h))
    return [head(module, node, found[node]) for node in TARGETS]


def comptreentn(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    return classified_tree(module, tokens, tensor_cell)


def noisy_channel(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    return classified_tree(module, tokens, deep_cell)


def relation_bottleneck(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    """The bottleneck with a full gradient (`soft`), at every node that is asked."""

    def rise(node: str, h: Tensor) -> tuple[Tensor, Tensor]:
        kind = KIND[node][0]
        if kind not in CLASSES:
            return h, h
        z = module.classifier[kind].weight @ h + module.classifier[kind].bias
        return z, z if kind == "label" else torch.softmax(z, 0) @ module.table[kind]

    found = aligned_tree(module, tokens, deep_cell, rise)
    return [found[node] for node in TARGETS]


def learned_tree(module: nn.Module, tokens: list[list[int]]) -> list[Tensor]:
    """Span by span, cut by cut, with a whole cell for each cut."""
    chart = learned_chart(module, tokens)
    return [head(module, node, chart[SPAN[node]]) for node in TARGETS]


def learned_chart(module: nn.Module, tokens: list[list[int]]) -> dict[tuple[int, int], Tensor]:
    vectors, sharpness = module.word.vectors, module.settings.sharpness
    first, second = module.meet
    chart: dict[tuple[int, int], Tensor] = {}
    for i in range(9):
        share = torch.softmax(sharpness * torch.stack([module.attention[j - i + 8] for j in range(9)]), 0)
        seen = sum(share[j] * vectors[tokens[1][j]] for j in range(9))
        x = torch.cat([vectors[tokens[0][i]], seen])
        chart[i, i + 1] = second.weight @ nonlinear(module, first.weight @ x + first.bias) + second.bias
    for size in range(2, 10):
        for i in range(10 - size):
            bias, out, out_bias = (some[str(size)][i] for some in (module.bias, module.out, module.out_bias))
            each = []
            for k in range(i + 1, i + size):
                z = chart[i, k] @ module.left[str(k - i)][i] + chart[k, i + size] @ module.right[str(i + size - k)][k]
                each.append(nonlinear(module, z + bias[0]) @ out + out_bias[0])
            share = torch.softmax(sharpness * module.cuts[str(size)][i], 0) if size > 2 else each[0].new_ones(1)
            chart[i, i + size] = sum(a * h for a, h in zip(share, each, strict=True))
    return chart


TWINS = {
    "learned_tree": learned_tree,
    "cbow": cbow,
    "treenn": treenn,
    "lstm_pair": lstm_pair,
    "attention_lstm": attention_lstm,
    "comptreenn": classified_tree,
    "comptreentn": comptreentn,
    "noisy_channel": noisy_channel,
    "relation_bottleneck": relation_bottleneck,
}


def loss(logits: list[list[Tensor]], classes: list[list[int]]) -> Tensor:
    """The weighted cross entropies of all pairs, averaged over pairs and questions."""
    total = logits[0][0].new_zeros(())
    for row, own in zip(logits, classes, strict=True):
        for node, z, true in zip(TARGETS, row, own, strict=True):
            total = total - WEIGHT[KIND[node][0]] * z.log_softmax(0)[true]
    return total / (12 * len(logits))
