"""What a report says, as values: the tests with their ladders, and every run's answers to them.

    found = collect(gather(["runs/tree", "runs/lstm"]), data=["data/test.parquet"])
    found.tests[0].corpus, found.tests[0].ladder, found.tests[0].entries[0].depth

A run keeps its answers, not the questions; what it keeps of those is their fingerprint. So the examples are looked for
among the sources that were named, the splits of the run's own task, and the files its recipe mentions, and are taken
only where the fingerprint is the same. Where none is, the report shows the scores that were kept and says what to give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import PomonaError, SpecError
from pomona.base.files import kind_of
from pomona.data.corpus import Corpus
from pomona.data.sources import corpus_from, data_file
from pomona.data.task import TASKS, generate
from pomona.evaluation.accuracy import accuracy, grouped, wilson
from pomona.reports.inputs import Inputs, checked_scores
from pomona.shortcuts.effective_depth import effective_depth
from pomona.shortcuts.ladder import Ladder, ladder
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run, Score

LEARN_FROM = 50_000  # training examples that the ladder learns from
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Entry:
    """One run on one test: what was kept, and what could be worked out of it."""

    run: int
    scores: dict[str, Any]
    predictions: Predictions | None = None
    score: Score | None = None  # of each example, where the examples are there
    depth: dict[str, Any] | None = None  # effective depth, as `as_dict` gives it


@dataclass(frozen=True, eq=False)
class Test:
    """One corpus that runs were evaluated on."""

    name: str
    fingerprint: str
    entries: tuple[Entry, ...]
    corpus: Corpus | None = None
    ladder: Ladder | None = None
    notes: tuple[str, ...] = ()  # what is missing, and what to do about it


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that the page shows."""

    names: tuple[str, ...]  # of the runs, all different
    runs: tuple[Run, ...]
    tests: tuple[Test, ...]
    inputs: Inputs
    notes: tuple[str, ...] = field(default=())


def collect(inputs: Inputs, data: Sequence[str] = (), say: Say = lambda text: None) -> Report:
    """The report of what was given; `data` names files or `task:split:seed` that runs were evaluated on."""
    names = distinct([run.folder for run in inputs.runs])
    finder = _Finder(data)
    answered: dict[str, list[_Answers]] = {}
    notes = list(inputs.notes)
    for number, run in enumerate(inputs.runs):
        kept = {  # what is kept there besides, such as the accuracy at every node, is no test
            name: checked_scores(scores, run.folder / "scores.json")
            for name, scores in run.scores.items()
            if isinstance(scores, dict) and "accuracy" in scores
        }
        stored = sorted(path.stem for path in (run.folder / "predictions").glob("*.safetensors"))
        if not kept and not stored:
            notes.append(
                f"{names[number]} was never evaluated; give it `pomona evaluate {run.folder} --data ... --name test`"
            )
        for name in dict.fromkeys([*kept, *stored]):
            predictions = run.predictions(name)
            mark = predictions.corpus if predictions else str(kept[name].get("fingerprint", name))
            answered.setdefault(mark, []).append(_Answers(name, number, kept.get(name, {}), predictions))
    tests = []
    for mark, entries in answered.items():
        say(f"{entries[0].name}: {len(entries)} runs")
        tests.append(_test(mark, entries, inputs.runs, finder))
    tests.sort(key=lambda test: test.corpus is None)  # what can be shown in full comes first
    return Report(tuple(names), tuple(inputs.runs), _told_apart(tests), inputs, tuple(notes))


def _told_apart(tests: Sequence[Test]) -> tuple[Test, ...]:
    """Tests of the same name, which were different corpora, with a piece of their fingerprints."""
    counts = Counter(test.name for test in tests)
    return tuple(
        replace(test, name=f"{test.name} ({test.fingerprint[:6]})") if counts[test.name] > 1 else test for test in tests
    )


def distinct(paths: Sequence[Path]) -> list[str]:
    """A short name for each path: its last parts, as many as tell it from the others.

    >>> distinct([Path("runs/a/seed-0"), Path("runs/b/seed-0"), Path("runs/lstm")])
    ['a/seed-0', 'b/seed-0', 'lstm']
    """
    parts = [path.resolve().parts for path in paths]
    length = [1] * len(parts)
    while True:
        names = ["/".join(one[-size:]) for one, size in zip(parts, length, strict=True)]
        counts = Counter(names)
        longer = [
            min(size + 1, len(one)) if counts[name] > 1 else size
            for name, size, one in zip(names, length, parts, strict=True)
        ]
        if longer == length:
            return names
        length = longer


# -- one test ----------------------------------------------------------------------------------------------------------


class _Answers(NamedTuple):
    """What one run has kept of one test."""

    name: str
    run: int
    scores: dict[str, Any]
    predictions: Predictions | None


def _test(mark: str, answered: Sequence[_Answers], runs: Sequence[Run], finder: _Finder) -> Test:
    names = list(dict.fromkeys(one.name for one in answered))
    recipes = [runs[one.run].recipe for one in answered]
    title = " / ".join(names)
    rows = max(len(one.predictions.logits) if one.predictions else 0 for one in answered)
    corpus = finder.find(mark, rows, names, recipes)
    if corpus is None:
        entries = tuple(Entry(one.run, one.scores, one.predictions) for one in answered)
        note = (
            f"The examples of this test (fingerprint {mark[:12]}) were not found, so there is no ladder, no effective "
            "depth and no explorer for it. Name them with --data, as a file or as task:split."
        )
        return Test(title, mark, entries, notes=(note,))
    notes: list[str] = []
    train = _training(recipes)
    if train is None:
        notes.append("The ladder learnt from one half of the test to answer the other: no task makes its training set.")
    rungs = _attempt(lambda: ladder(corpus, train), "There is no ladder", notes)
    entries = tuple(_entry(corpus, train, one, notes) for one in answered)
    return Test(title, mark, entries, corpus, rungs, tuple(dict.fromkeys(notes)))


def _entry(
    corpus: Corpus,
    train: Corpus | None,
    answered: _Answers,
    notes: list[str],
) -> Entry:
    predictions = answered.predictions
    if predictions is None:
        return Entry(answered.run, answered.scores)
    score = _attempt(lambda: accuracy(corpus, predictions), "There is no accuracy", notes)
    if score is None:
        return Entry(answered.run, answered.scores, predictions)
    places = predictions.answers.reshape(len(corpus), -1)
    answers = [[predictions.outcomes[place] for place in row] for row in places.tolist()]
    last = places.shape[1] - 1
    if last:
        notes.append(f"An example asks {last + 1} questions; effective depth is that of the answers to the last one.")
    depth = _attempt(
        lambda: effective_depth(corpus, answers, train=train, question=last).as_dict(),
        "There is no effective depth",
        notes,
    )
    return Entry(answered.run, answered.scores, predictions, score, depth)


def _attempt(work: Callable[[], Any], without: str, notes: list[str]) -> Any:
    """What the work gives, or None and a note on why there is nothing."""
    try:
        return work()
    except PomonaError as error:
        notes.append(f"{without}: {error}.")
        return None


def _training(recipes: Sequence[Recipe]) -> Corpus | None:
    """What the ladder learns from: the first examples of the largest train split among the tasks of the runs."""
    found: list[tuple[int, Recipe]] = []
    for recipe in recipes:
        if not Path(recipe.data).is_file():
            with suppress(PomonaError):
                found.append((TASKS.build(recipe.data, recipe.data_settings).sizes.get("train", 0), recipe))
    rows, recipe = max(found, key=lambda one: one[0], default=(0, recipes[0]))
    if not rows:
        return None
    return generate(recipe.data, "train", recipe.data_seed, min(rows, LEARN_FROM), **recipe.data_settings)


# -- finding the examples ----------------------------------------------------------------------------------------------


class _Finder:
    """Corpora by fingerprint; every source is read or drawn once."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.corpora = [_named(source) for source in sources]  # what was named must be there
        self.known = {corpus.fingerprint: corpus for corpus in self.corpora}
        self.tried: set[Any] = set()

    def find(self, fingerprint: str, rows: int, names: Sequence[str], recipes: Sequence[Recipe]) -> Corpus | None:
        """The corpus of this fingerprint, if any source that the recipes speak of has it, be it as its first rows."""
        for recipe in recipes:
            for key, make in self._candidates(rows, names, recipe):
                if fingerprint in self.known:
                    return self.known[fingerprint]
                if key not in self.tried:
                    self.tried.add(key)
                    with suppress(PomonaError):  # a file that is gone, a split that is no more: not what we look for
                        self.corpora.append(make())
                        self.known[self.corpora[-1].fingerprint] = self.corpora[-1]
        if fingerprint not in self.known:
            for part in (corpus[:rows] for corpus in self.corpora if len(corpus) > rows):
                self.known[part.fingerprint] = part
        return self.known.get(fingerprint)

    @staticmethod
    def _candidates(rows: int, names: Sequence[str], recipe: Recipe) -> Iterator[tuple[Any, Callable[[], Corpus]]]:
        """Files that the recipe mentions, then the splits of its task that are large enough, likely ones first."""
        for path in dict.fromkeys([*recipe.exclude, recipe.data]):
            if path != recipe.data or Path(path).is_file():
                yield path, lambda path=path: corpus_from(str(data_file(path)))  # type: ignore[misc]
        try:
            sizes = TASKS.build(recipe.data, recipe.data_settings).sizes
        except PomonaError:
            return
        large = [split for split, size in sizes.items() if split != "train" and size >= rows]
        splits = sorted(large, key=lambda split: split not in names)
        for split in splits:
            yield (
                (recipe.data, split, recipe.data_seed, repr(recipe.data_settings)),
                lambda split=split: generate(recipe.data, split, recipe.data_seed, **recipe.data_settings),  # type: ignore[misc]
            )


def _named(source: str) -> Corpus:
    """A file, or `task:split:seed` of which split and seed may be left out."""
    if kind_of(source) == "file":
        return corpus_from(source)
    task, _, rest = source.partition(":")
    split, _, seed = rest.partition(":")
    if not (seed or "0").isdecimal():
        raise SpecError(f"{source!r}: the seed {seed!r} is no number; write task:split:seed, as listops/d20s:test:7")
    return corpus_from(task, split=split or "test", seed=int(seed or 0))


def shares(right: npt.NDArray[np.float64], amount: Ints, bounds: Sequence[int]) -> list[dict[str, Any]]:
    """Accuracy in groups of examples, with Wilson's interval: below the first bound, between bounds, from the last."""
    found = grouped(Score(0.0, right, (0.0, 0.0)), amount, bounds)
    return [_share(group, share, count) for group, (share, count) in found.items()]


def kept_shares(kept: Any) -> list[dict[str, Any]]:
    """The same from scores.json, where groups stand as {"10-14": [share, examples]}; nothing if they do not."""
    if not isinstance(kept, dict):
        return []
    pairs = [(group, pair) for group, pair in kept.items() if isinstance(pair, list) and len(pair) == 2 and pair[1]]
    return [_share(str(group), float(share), int(count)) for group, (share, count) in pairs]


def _share(group: str, share: float, count: int) -> dict[str, Any]:
    low, high = wilson(round(share * count), count)
    group = "0" if group == "<1" else group
    return {"group": group, "share": share, "low": low, "high": high, "examples": count}
