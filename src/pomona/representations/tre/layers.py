"""TRE of the layers of a network, of one or of several seeds, in one call; with a table, a plot and a comparison.

    fits = tre_layers(output.hidden_states, derivations, pool="mean", mask=mask)
    print(fits)                                          # a table; every layer compared with the best, pair by pair
    fits["layer 3"], fits.plot("layers.svg"), fits.compare("layer 3", "layer 2")
    tre_layers({"seed 0": layers_0, "seed 1": layers_1}, derivations)

Layers have different sizes, and so have their distances. They are compared by the share that their parts explain,
1 - TRE / the distance to the mean vector. Intervals come from a bootstrap over the items, the same resamples for all
layers (and seeds), so they are paired; items with equal derivations are resampled together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from pomona.base.errors import MeasureError
from pomona.base.files import write_json
from pomona.base.plots import COLOURS, Drawing, percent
from pomona.representations.tre.comparison import Comparison, compare_fits
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.fit import Options, TreFit, check_options, fit_layers, warn
from pomona.representations.tre.problem import Problem
from pomona.representations.tre.verdict import NOTHING
from pomona.representations.tre.verdict import percent as in_words

SAMPLES = 1000
ONLY = ""  # the name of the seed where there is only one


@dataclass(frozen=True)
class Row:
    """One layer: means over seeds, and how much less it explains than the best layer, with a 95 % interval."""

    layer: str
    tre: float
    lower_bound: float
    explained: float
    high: float  # no lexicon explains more
    spread: float  # of the share explained over seeds, highest minus lowest
    behind: float  # the best layer's share minus this one's
    behind_low: float
    behind_high: float


class LayerFits(dict[str, TreFit]):
    """The fit of each layer, by name; with several seeds, `fits.seeds` has one such mapping for each."""

    def __init__(self, seeds: Mapping[str, Mapping[str, TreFit]]) -> None:
        super().__init__(next(iter(seeds.values())))
        self.seeds = {name: dict(layers) for name, layers in seeds.items()}

    def __missing__(self, name: Any) -> TreFit:
        raise MeasureError(f"no layer is called {name!r}; there are {', '.join(map(visible, self))}.")

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The table: one row for each layer."""
        error = np.array([[_unexplained(fits[name]) for fits in self.seeds.values()] for name in self])
        best, low, high = self._behind(error.mean(axis=1))
        rows = []
        for number, name in enumerate(self):
            fits = [layers[name] for layers in self.seeds.values()]
            shares = [1.0 - fit.score / fit.bound.centroid if fit.bound.centroid > 0 else np.nan for fit in fits]
            highs = [
                1.0 - fit.bound.lower_bound / fit.bound.centroid if fit.bound.centroid > 0 else np.nan for fit in fits
            ]
            rows.append(
                Row(
                    name,
                    tre=float(np.mean([fit.score for fit in fits])),
                    lower_bound=float(np.mean([fit.bound.lower_bound for fit in fits])),
                    explained=float(np.mean(shares)),
                    high=float(np.mean(highs)),
                    spread=float(max(shares) - min(shares)),
                    behind=float(best[number]),
                    behind_low=float(low[number]),
                    behind_high=float(high[number]),
                )
            )
        return tuple(rows)

    @property
    def best(self) -> str:
        """The layer whose parts explain most."""
        return max(self.rows, key=lambda row: (row.explained if np.isfinite(row.explained) else -np.inf)).layer

    def _behind(self, error: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By how much each layer explains less than the best, [layers, items] -> difference, low, high."""
        first = next(iter(self.values()))
        group = np.unique(first.derivations.root, return_inverse=True)[1].ravel()
        sums = np.stack([np.bincount(group, each) for each in error], axis=1)  # [groups, layers]
        sizes = np.bincount(group).astype(np.float64)
        means = sums.sum(axis=0) / sizes.sum()
        best = int(np.nanargmin(means)) if np.isfinite(means).any() else 0
        rng = np.random.default_rng(0)
        resampled = np.empty((SAMPLES, len(means)))
        for sample in range(SAMPLES):
            times = np.bincount(rng.integers(len(sizes), size=len(sizes)), minlength=len(sizes)).astype(np.float64)
            resampled[sample] = (times @ sums) / (times @ sizes)
        low, high = np.quantile(resampled - resampled[:, best : best + 1], [0.025, 0.975], axis=0)
        return means - means[best], low, high

    def compare(self, first: str, second: str, seed: str | None = None) -> Comparison:
        """The paired difference in TRE between two layers, item by item (`compare_fits`)."""
        fits = self.seeds[next(iter(self.seeds)) if seed is None else seed]
        for name in (first, second):
            if name not in fits:
                raise MeasureError(f"no layer is called {name!r}; there are {', '.join(map(str, fits))}.")
        return compare_fits(fits[first], fits[second])

    def __str__(self) -> str:
        header = ("layer", "TRE", "at least", "explained", "less than the best (95 %)")
        seeds = len(self.seeds) > 1
        lines = [header + (("over seeds",) if seeds else ())]
        for row in self.rows:
            behind = "best" if row.layer == self.best else _points(row)
            tre = "0" if 1.0 - row.explained <= NOTHING else f"{row.tre:.4g}"
            line = (visible(row.layer), tre, f"{row.lower_bound:.4g}", in_words(row.explained), behind)
            lines.append(line + ((f"+-{50 * row.spread:.1f} points",) if seeds else ()))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def __repr__(self) -> str:
        return f"LayerFits({len(self)} layers, {len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}; best {self.best!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def plot(self, path: str | Path | None = None) -> Drawing:
        """The share explained, layer by layer, with what no lexicon can exceed; one line for each seed."""
        rows = []
        for seed, fits in self.seeds.items():
            for number, (name, fit) in enumerate(fits.items()):
                level = fit.bound.centroid
                if level > 0:
                    rows.append({
                        "seed": visible(seed), "layer": visible(name), "order": number,
                        "explained": 1.0 - fit.score / level, "most": 1.0 - fit.bound.lower_bound / level,
                    })  # fmt: skip
        x = {"field": "layer", "type": "nominal", "sort": {"field": "order"}, "title": None}
        title = "explained by the parts"
        colour: dict[str, Any] = {"value": COLOURS[0]}
        if len(self.seeds) > 1:
            colour = {"field": "seed", "type": "nominal", "title": None, "sort": None}
        spec = {
            "data": {"values": rows},
            "height": 240,
            "layer": [
                {"mark": {"type": "area", "opacity": 0.15},
                 "encoding": {"x": x, "y": percent("explained", title), "y2": {"field": "most"}, "color": colour}},
                {"mark": {"type": "line", "point": True},
                 "encoding": {"x": x, "y": percent("explained", title), "color": colour}},
            ],
        }  # fmt: skip
        drawing = Drawing(spec)
        if path is not None:
            drawing.save(path)
        return drawing

    def to_dict(self) -> dict[str, Any]:
        """The table and every fit, as plain values for JSON."""
        table = [
            {key: value if isinstance(value, str) or np.isfinite(value) else None for key, value in vars(row).items()}
            for row in self.rows
        ]
        fits = {seed: {name: fit.to_dict() for name, fit in layers.items()} for seed, layers in self.seeds.items()}
        return {"table": table, "best": self.best, "fits": fits}

    def save(self, path: str | Path) -> Path:
        """Write `to_dict` to a JSON file, completely or not at all."""
        write_json(path, self.to_dict())
        return Path(path)


def tre_layers(
    representations: Any,
    derivations: Any,
    compose: Any = "add",
    distance: Any = "cosine",
    seed: int = 0,
    **options: Unpack[Options],
) -> LayerFits:
    """The TRE of each layer, as `tre` would give it, with the same options and a bound for each.

    `representations` is a mapping from each layer's name to its representations; or a sequence of layers, which are
    called "layer 0", ...; or a mapping from each seed's name to such layers. The derivations are read, counted and
    factorised once; squared l2 and cosine fit all layers together.
    """
    check_options(options, Options)
    problem = Problem.of(derivations, compose, **options)
    seeds = _seeds_of(representations, len(problem.derivations))
    layers, names = [], []
    for own, tables in seeds.items():
        for name, table in tables.items():
            label = f"layer {name!r}" if own == ONLY else f"seed {own!r}, layer {name!r}"
            try:
                layers.append(problem.layer(table, distance))
            except MeasureError as error:
                raise MeasureError(f"{label}: {error}") from None
            names.append((own, name, label))
    found: dict[str, dict[str, TreFit]] = {own: {} for own in seeds}
    for (own, name, label), fit in zip(names, fit_layers(layers, problem, seed=seed), strict=True):
        found[own][name] = fit
        warn([f"{label}: {note}" for note in fit.notes])
    return LayerFits(found)


def _seeds_of(source: Any, items: int) -> dict[str, dict[str, Any]]:
    """The layers of each seed, by name; all seeds must have the same layers."""
    if isinstance(source, Mapping):
        if not source:
            raise MeasureError("no layers: give a mapping from each layer's name to its representations.")
        nested = [isinstance(value, Mapping) or _is_sequence(value, items) for value in source.values()]
        if not any(nested):
            return {ONLY: dict(source)}
        if not all(nested):
            raise MeasureError("some entries are layers and some are seeds with layers; give one or the other.")
        seeds = {str(name): _layers_of(layers, items) for name, layers in source.items()}
        first, *others = seeds
        for other in others:
            if list(seeds[other]) != list(seeds[first]):
                raise MeasureError(
                    f"seed {other!r} has the layers {list(seeds[other])}, but seed {first!r} has {list(seeds[first])}."
                )
        return seeds
    return {ONLY: _layers_of(source, items)}


def _layers_of(source: Any, items: int) -> dict[str, Any]:
    if hasattr(source, "hidden_states"):  # what a Hugging Face model returns
        if source.hidden_states is None:
            raise MeasureError(
                "this output has no hidden states. Ask the model for them:\n"
                "    output = model(**batch, output_hidden_states=True)"
            )
        source = tuple(source.hidden_states)
    shape = tuple(getattr(source, "shape", ()))
    if len(shape) > 2 and shape[1] == items != shape[0]:  # [layers, items, ...]
        source = list(source)
    if isinstance(source, Mapping):
        if not source:
            raise MeasureError("no layers: give a mapping from each layer's name to its representations.")
        return dict(source)
    if not _is_sequence(source, items):
        raise MeasureError(
            f"layers are a mapping from each layer's name to its representations, or a sequence of them, each with one "
            f"row for each of the {items} derivations; got {_described(source)}. For one layer: pm.tre(layer, ...)."
        )
    return {f"layer {number}": table for number, table in enumerate(source)}


def _described(source: Any) -> str:
    """The type, and the shapes of the tables if there are any."""
    tables = source if isinstance(source, list | tuple) else []
    shapes = [str(list(table.shape)) for table in tables if hasattr(table, "shape")]
    more = ", ..." if len(shapes) > 6 else ""
    return type(source).__name__ + (f" of shapes {', '.join(shapes[:6])}{more}" if shapes else "")


def _is_sequence(source: Any, items: int) -> bool:
    """Whether this is a list or tuple of tables, each with one row for each item."""
    if not isinstance(source, list | tuple) or not source:
        return False
    shapes = [tuple(getattr(table, "shape", ())) for table in source]
    return all(len(shape) >= 2 and shape[0] == items for shape in shapes)


def _unexplained(fit: TreFit) -> FloatArray:
    """The distance of each item as a share of the mean vector's."""
    level = fit.bound.centroid
    return fit.per_item / level if level > 0 else np.full(len(fit.per_item), np.nan)


def _points(row: Row) -> str:
    if not np.isfinite(row.behind):
        return "cannot be said"
    return f"{100 * row.behind:.1f} points ({100 * row.behind_low:.1f} to {100 * row.behind_high:.1f})"


def visible(name: Sequence[Any] | str) -> str:
    """A name for a line of text: control characters are codes."""
    text = str(name)
    return text if text.isprintable() else repr(text)[1:-1]
