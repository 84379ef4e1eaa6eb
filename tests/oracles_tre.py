"""Slow reference implementations of TRE and related measures, as simple as possible, for tests and benchmarks."""

from __future__ import annotations

import csv
import itertools
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def data_folder(name: str) -> Path:
    """The folder of shared data; skips the test, saying how to provide it, if it is missing."""
    root = Path(os.environ.get("POMONA_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (root / name).is_dir():
        pytest.skip(
            f"no folder {root / name}: set POMONA_DATA to the folder that holds {name}/", allow_module_level=False
        )
    return root / name


def read_language(number: int) -> tuple[list[Any], np.ndarray]:
    """A language of the reference game: derivations, and messages as one-hot [48, 4, 18]."""
    with (data_folder("reference_game") / "languages.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["language"] == str(number)]
    trees = [((row["part1"], row["colour1"]), (row["part2"], row["colour2"])) for row in rows]
    messages = np.zeros((len(rows), 4, 18))
    for item, row in enumerate(rows):
        for position, letter in enumerate(row["message"]):
            messages[item, position, ord(letter) - ord("a")] = 1.0
    return trees, messages


def perfect_language() -> tuple[list[Any], np.ndarray]:
    """96 referents (four parts, four colours), one symbol for each slot: compositional by construction."""
    trees, messages = [], []
    for (a, b), c, d in itertools.product(itertools.combinations(range(4), 2), range(4), range(4)):
        trees.append(((f"part{a}", f"colour{c}"), (f"part{b}", f"colour{d}")))
        message = np.zeros((4, 18))
        message[0, a] = message[1, 4 + c] = message[2, 8 + b] = message[3, 12 + d] = 1.0
        messages.append(message)
    return trees, np.array(messages)


def noisy_sums(items: int, primitives: int, width: int, seed: int, noise: float = 1.0) -> tuple[list[Any], np.ndarray]:
    """Synthetic data: items of one or two primitives, represented by tanh of a noisy sum."""
    rng = np.random.default_rng(seed)
    lexicon = rng.normal(size=(primitives, width))
    trees: list[Any] = []
    rows = []
    for _ in range(items):
        chosen = rng.choice(primitives, size=rng.integers(1, 3), replace=False).tolist()
        trees.append(tuple(chosen) if len(chosen) > 1 else chosen[0])
        rows.append(np.tanh(lexicon[chosen].sum(axis=0) + noise * rng.normal(size=width)))
    return trees, np.array(rows)


def recursive_prediction(tree: Any, lexicon: dict[Any, np.ndarray], combine: Any) -> np.ndarray:
    if not isinstance(tree, tuple):
        return lexicon[tree]
    return combine(*(recursive_prediction(part, lexicon, combine) for part in tree))


def plain_distance(name: str, prediction: np.ndarray, target: np.ndarray) -> float:
    p, y = np.ravel(prediction), np.ravel(target)
    if name == "cosine":
        return 1.0 - float(p @ y) / (np.linalg.norm(p) * np.linalg.norm(y))
    if name == "l1":
        return float(np.abs(p - y).sum())
    return float(np.linalg.norm(p - y)) if name == "l2" else float(((p - y) ** 2).sum())


def brute_force_additive(rows: np.ndarray, trees: list[Any], distance: str) -> float:
    """The global minimum on a tiny problem, by exhaustive search instead of descent.

    l1: a minimum lies where as many items as there are primitives are met exactly, so try all such sets, for each
    coordinate. Otherwise two primitives in the plane: a grid over all lexicons, its best points polished.
    """
    from scipy.optimize import minimize

    names = sorted({leaf for tree in trees for leaf in leaves(tree)}, key=repr)
    matrix = np.array([[leaves(tree).count(name) for name in names] for tree in trees], float)
    if distance == "l1":
        best = np.full(rows.shape[1], np.inf)
        for chosen in itertools.combinations(range(len(rows)), len(names)):
            if abs(np.linalg.det(matrix[list(chosen)])) > 1e-9:
                met = np.linalg.solve(matrix[list(chosen)], rows[list(chosen)])
                best = np.minimum(best, np.abs(matrix @ met - rows).sum(axis=0))
        return float(best.sum()) / len(rows)
    assert len(names) == 2
    assert rows.shape[1] == 2

    def objective(flat: np.ndarray) -> float:
        lexicon = dict(zip(names, flat.reshape(2, 2), strict=True))
        guesses = [recursive_prediction(tree, lexicon, lambda *parts: sum(parts)) for tree in trees]
        return float(np.mean([plain_distance(distance, p, y) for p, y in zip(guesses, rows, strict=True)]))

    reach = 3.0 if distance == "cosine" else float(np.abs(rows).max()) * 1.5
    axis = np.linspace(-reach, reach, 24)
    grid = np.stack(np.meshgrid(axis, axis, axis, axis), axis=-1).reshape(-1, 2, 2)
    guess = np.einsum("nk,gkd->gnd", matrix, grid)
    if distance == "cosine":
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        values = (1 - (guess * unit).sum(-1) / np.maximum(np.linalg.norm(guess, axis=-1), 1e-9)).mean(axis=1)
    else:
        size = np.linalg.norm(guess - rows, axis=-1)
        values = (size if distance == "l2" else size**2).mean(axis=1)
    settings = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000, "maxfev": 4000}
    starts = grid[np.argsort(values)[:8]].reshape(8, 4)
    return min(float(minimize(objective, at, method="Nelder-Mead", options=settings).fun) for at in starts)


def leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def linear_programme(matrix: np.ndarray, target: np.ndarray) -> float:
    """min |y - X b|_1 by HiGHS, in the inequality form."""
    from scipy.optimize import linprog

    n, p = matrix.shape
    cost = np.concatenate([np.zeros(p), np.ones(n)])
    above = np.block([[matrix, -np.eye(n)], [-matrix, -np.eye(n)]])
    found = linprog(
        cost, A_ub=above, b_ub=np.concatenate([target, -target]), bounds=[(None, None)] * p + [(0, None)] * n
    )
    return float(found.fun)


def definition_2(first: Any, second: Any) -> int:
    """The tree edit distance as appendix B defines it (binary trees), with I[i != j]."""

    def size(tree: Any) -> int:
        return sum(size(part) for part in tree) if isinstance(tree, tuple) else 1

    @cache
    def delta(a: Any, b: Any) -> int:
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return int(a != b)
        if not isinstance(a, tuple):
            return min(delta(a, b[0]) + size(b[1]), delta(a, b[1]) + size(b[0]))
        if not isinstance(b, tuple):
            return delta(b, a)
        (i, j), (k, m) = a, b
        return min(
            delta(i, k) + delta(j, m),
            delta(a, k) + size(m),
            delta(a, m) + size(k),
            delta(b, i) + size(j),
            delta(b, j) + size(i),
        )

    return delta(first, second)


def information_gap(attributes: np.ndarray, units: np.ndarray) -> float:
    """EGG's disentanglement, from explicit joint tables."""

    def entropy(values: list[Any]) -> float:
        share = np.array([values.count(value) for value in set(values)]) / len(values)
        return float(-(share * np.log2(share)).sum())

    gaps = []
    for unit in units.T.tolist():
        if entropy(unit) > 0:
            shared = sorted(
                entropy(unit) + entropy(column) - entropy(list(zip(unit, column, strict=True)))
                for column in attributes.T.tolist()
            )
            gaps.append((shared[-1] - shared[-2]) / entropy(unit))
    return float(np.mean(gaps))


def andreas_item_by_item(
    rows: np.ndarray,
    trees: list[Any],
    lexicon: np.ndarray,
    names: list[Any],
    distance: str = "cosine",
    steps: int = 400,
    maps: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The released procedure, rewritten: recursion over each tree, a batch of one, torch's RMSprop.

    Returns each item's error before the last step, and the lexicon after it.
    """
    import torch

    index = {name: torch.tensor(position) for position, name in enumerate(names)}
    embedding = torch.nn.Embedding(len(names), lexicon.shape[1], dtype=torch.float64)
    embedding.weight.data[:] = torch.from_numpy(lexicon)
    weights = list(embedding.parameters())
    layers = []
    if maps is not None and bias is not None:
        for matrix, shift in zip(maps, bias, strict=True):
            layer = torch.nn.Linear(matrix.shape[1], matrix.shape[0], dtype=torch.float64)
            layer.weight.data[:], layer.bias.data[:] = torch.from_numpy(matrix), torch.from_numpy(shift)
            layers.append(layer)
            weights += list(layer.parameters())

    def combine(parts: list[Any]) -> Any:
        if not layers:
            return sum(parts[1:], parts[0])
        grids = [part.view(len(layers[0].bias), -1).T for part in parts]  # symbols x positions
        return sum(layer(grid) for layer, grid in zip(layers, grids, strict=True)).T.reshape(1, -1)

    def predict(tree: Any) -> Any:
        return (
            combine([predict(part) for part in tree]) if isinstance(tree, tuple) else embedding(index[tree]).view(1, -1)
        )

    def error(prediction: Any, target: Any) -> Any:
        if distance == "l1":
            return torch.abs(prediction - target).sum()
        if distance == "sql2":
            return ((prediction - target) ** 2).sum()
        normal = torch.nn.functional.normalize
        return 1.0 - (normal(prediction, dim=1) * normal(target, dim=1)).sum()

    targets = torch.from_numpy(np.asarray(rows, np.float64).reshape(len(rows), 1, -1))
    optimiser = torch.optim.RMSprop(weights, lr=0.01)
    errors: list[Any] = []
    for _ in range(steps):
        optimiser.zero_grad()
        errors = [error(predict(tree), target) for tree, target in zip(trees, targets, strict=True)]
        torch.stack(errors).sum().backward()
        optimiser.step()
    return np.array([float(value.detach()) for value in errors]), embedding.weight.detach().numpy().copy()
