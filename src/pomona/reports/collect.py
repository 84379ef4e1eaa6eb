"""Collect what a report shows: the tests, their baselines, and the evaluation of every run on them.

    collected = collect(gather(["runs/tree", "runs/lstm"]), data=["data/test.parquet"])
    collected.tests[0].corpus, collected.tests[0].baselines, collected.tests[0].entries[0].evaluation

A run keeps its answers and the fingerprint of the examples, not the examples themselves. They are searched for in the
sources that the user named, those that were evaluated, the files in the run's recipe, and the splits of its task.
Examples with the same
fingerprint are used to evaluate the answers again, as `pomona evaluate` does. If there are none, the report shows the
evaluation in the run's scores.json and says how to name the examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pomona.base.errors import PomonaError, SpecError
from pomona.base.files import kind_of
from pomona.data.answers import read_answers
from pomona.data.corpus import Corpus
from pomona.data.sources import Named, corpus_from, data_file, source_kind, splits_of
from pomona.data.task import TASKS, generate
from pomona.evaluation.accuracy import answers_from
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.records import BESIDE, answers_beside, kept_evaluations
from pomona.reports.inputs import Inputs
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Entry:
    """One model on one test: its scores as a dictionary and, if the examples were found, its evaluation."""

    run: int  # its index among the names of the report
    scores: Mapping[str, Any]  # as `Evaluation.as_dict` returns them; empty if only predictions were kept
    predictions: Predictions | None = None
    evaluation: Evaluation | None = None

    @property
    def depth(self) -> dict[str, Any] | None:
        """The effective depth of the answers to the last question."""
        depths: list[dict[str, Any]] = self.scores.get("effective_depth") or []
        return depths[-1] if depths else None


@dataclass(frozen=True, eq=False)
class Test:
    """One corpus that runs were evaluated on."""

    name: str
    fingerprint: str
    entries: tuple[Entry, ...]
    corpus: Corpus | None = None
    baselines: Baselines | None = None
    notes: tuple[str, ...] = ()  # what is missing, and what to do about it

    @property
    def ladder(self) -> Any:
        return None if self.baselines is None else self.baselines.ladder


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that the page shows."""

    names: tuple[str, ...]  # of the runs, then of the evaluations without a run, all different
    runs: tuple[Run, ...]
    tests: tuple[Test, ...]
    inputs: Inputs
    notes: tuple[str, ...] = field(default=())


def collect(inputs: Inputs, data: Sequence[str] = (), say: Say = lambda text: None) -> Report:
    """Collect what a report shows; `data` names files or `task:split:seed` that runs were evaluated on."""
    files = [_without_suffix(path) for path, _ in inputs.evaluations]
    names = distinct([*(run.folder for run in inputs.runs), *files])
    finder = _Finder(data)
    answered: dict[str, list[_Kept]] = {}
    notes = list(inputs.notes)
    for number, run in enumerate(inputs.runs):
        kept = kept_evaluations(run)
        stored = sorted(path.stem for path in (run.folder / "predictions").glob("*.safetensors"))
        if not kept and not stored:
            notes.append(
                f"{names[number]} was never evaluated; run `pomona evaluate {run.folder} --data ...`, which keeps it"
            )
        for name in dict.fromkeys([*kept, *stored]):
            predictions = run.predictions(name)
            fingerprint = predictions.corpus if predictions else str(kept[name].get("fingerprint") or name)
            answered.setdefault(fingerprint, []).append(_Kept(name, number, kept.get(name, {}), predictions))
    for number, (path, evaluation) in enumerate(inputs.evaluations, len(inputs.runs)):
        answers, missing = answers_beside(path, evaluation)
        notes += [f"{names[number]} is shown as it was evaluated: {missing}."] if missing else []
        kept_file = _Kept(_without_suffix(path).name, number, evaluation, None, answers)
        answered.setdefault(evaluation["fingerprint"], []).append(kept_file)
    tests = []
    for fingerprint, entries in answered.items():
        say(f"{entries[0].name}: {len(entries)} runs")
        tests.append(_test(fingerprint, entries, inputs.runs, finder))
    tests.sort(key=lambda test: test.corpus is None)  # tests that can be shown in full come first
    return Report(tuple(names), tuple(inputs.runs), _told_apart(tests), inputs, tuple(notes))


def _without_suffix(path: Path) -> Path:
    """The path of an evaluation without what is added for the file: answers.jsonl.evaluation.json is answers."""
    return path.with_name(path.name.removesuffix(BESIDE)).with_suffix("")


def _told_apart(tests: Sequence[Test]) -> tuple[Test, ...]:
    """Tests with distinct names: different corpora of one name get the beginning of their fingerprint."""
    counts = Counter(test.name for test in tests)
    return tuple(
        replace(test, name=f"{test.name} ({test.fingerprint[:6]})") if counts[test.name] > 1 else test for test in tests
    )


def distinct(paths: Sequence[Path]) -> list[str]:
    """A short name for each path: its last parts, as many as are needed to make the names different.

    >>> distinct([Path("runs/a/seed-0"), Path("runs/b/seed-0"), Path("runs/lstm")])
    ['a/seed-0', 'b/seed-0', 'lstm']
    """
    folders = [path.resolve().parts for path in paths]
    length = [1] * len(folders)
    while True:
        names = ["/".join(parts[-size:]) for parts, size in zip(folders, length, strict=True)]
        counts = Counter(names)
        longer = [
            min(size + 1, len(parts)) if counts[name] > 1 else size
            for name, size, parts in zip(names, length, folders, strict=True)
        ]
        if longer == length:
            return names
        length = longer


# -- one test ----------------------------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """What a run, or the file of an evaluation, holds about one test."""

    name: str
    run: int
    scores: Mapping[str, Any]
    predictions: Predictions | None
    answers: Path | None = None  # the file of answers, where a model is no run


def _test(fingerprint: str, kept: Sequence[_Kept], runs: Sequence[Run], finder: _Finder) -> Test:
    names = list(dict.fromkeys(entry.name for entry in kept))
    recipes = [runs[entry.run].recipe for entry in kept if entry.run < len(runs)]
    said = [named for entry in kept if (named := Named.from_plain(entry.scores.get("data"))) is not None]
    title = " / ".join(dict.fromkeys(entry.name if entry.run < len(runs) else _label(entry) for entry in kept))
    rows = max(len(entry.predictions.logits) if entry.predictions else entry.scores.get("rows") or 0 for entry in kept)
    corpus = finder.find(fingerprint, rows, names, recipes, said)
    if corpus is None:
        entries = tuple(Entry(entry.run, entry.scores, entry.predictions) for entry in kept)
        note = (
            f"The examples of this test (fingerprint {fingerprint[:12]}) were not found, so there is no explorer for "
            "it, and no baselines beyond what the runs kept. Name them with --data, as a file or as task:split."
        )
        return Test(title, fingerprint, entries, notes=(note,))
    notes: list[str] = []
    train = learning_examples(corpus, recipes)
    if train is None:
        notes.append("The ladder learnt from one half of the test to answer the other: no task makes its training set.")
    baselines = Baselines(corpus, train)
    entries = tuple(_entry(entry, baselines, notes) for entry in kept)
    if any(len(entry.scores.get("effective_depth") or ()) > 1 for entry in entries):
        notes.append("An example asks several questions; effective depth is that of the answers to the last one.")
    return Test(title, fingerprint, entries, corpus, baselines, tuple(dict.fromkeys(notes)))


def _label(entry: _Kept) -> str:
    """The name of the test of an evaluation without a run: that of its data, else of its file."""
    named = Named.from_plain(entry.scores.get("data"))
    with suppress(PomonaError):  # the data are gone
        return entry.name if named is None else named.label
    return entry.name


def _entry(kept: _Kept, baselines: Baselines, notes: list[str]) -> Entry:
    """Evaluate the answers again; scores of trees and further measures are not recomputed."""
    notes += [str(note) for note in kept.scores.get("notes") or [] if "training data" in str(note)]
    if kept.predictions is None and kept.answers is None:
        return Entry(kept.run, kept.scores)
    as_kept = {key: kept.scores[key] for key in ("trees", "measures") if kept.scores.get(key)}
    try:
        if kept.predictions is not None:
            answers = answers_from(kept.predictions, baselines.corpus, kept.name)
        else:
            assert kept.answers is not None
            answers = read_answers(kept.answers, baselines.corpus, kept.name)
        if "trees" in as_kept:
            answers = replace(answers, trees=None)
        evaluation = Evaluation.of(baselines.corpus, answers, baselines)
    except PomonaError as error:
        notes.append(f"There is no accuracy: {error}.")
        return Entry(kept.run, kept.scores, kept.predictions)
    notes += evaluation.notes
    return Entry(kept.run, {**evaluation.as_dict(), **as_kept}, kept.predictions, evaluation)


# -- finding the examples ----------------------------------------------------------------------------------------------


class _Finder:
    """Corpora by fingerprint; every source is read or generated once."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.corpora = [corpus for source in sources for corpus in _named(source)]  # what a user names must exist
        self.known = {corpus.fingerprint: corpus for corpus in self.corpora}
        self.tried: set[Any] = set()

    def find(
        self, fingerprint: str, rows: int, names: Sequence[str], recipes: Sequence[Recipe], said: Sequence[Named] = ()
    ) -> Corpus | None:
        """The corpus with this fingerprint, if a source that was evaluated or that the recipes mention has it, whole or
        as its first rows."""
        candidates = [(repr(named), named.corpus) for named in said]
        of_recipes = (found for recipe in recipes for found in self._candidates(rows, names, recipe))
        for key, make in chain(candidates, of_recipes):
            if fingerprint in self.known:
                return self.known[fingerprint]
            if key not in self.tried:
                self.tried.add(key)
                with suppress(PomonaError, OSError):  # a source that cannot be read is skipped
                    self.corpora.append(make())
                    self.known[self.corpora[-1].fingerprint] = self.corpora[-1]
        if fingerprint not in self.known:
            for part in (corpus[:rows] for corpus in self.corpora if len(corpus) > rows):
                self.known[part.fingerprint] = part
        return self.known.get(fingerprint)

    @staticmethod
    def _candidates(rows: int, names: Sequence[str], recipe: Recipe) -> Iterator[tuple[Any, Callable[[], Corpus]]]:
        """Files that the recipe mentions, then the splits of its task that are large enough, likely ones first."""
        for path in dict.fromkeys([*recipe.exclude, recipe.dev, recipe.data]):
            if path and (path != recipe.data or kind_of(path) == "file"):
                yield path, lambda path=path: corpus_from(str(data_file(path)))  # type: ignore[misc]
        try:
            if source_kind(recipe.data) == "folder":
                for split in splits_of(recipe.data):
                    yield (recipe.data, split), Named(recipe.data, split).corpus
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


def _named(source: str) -> list[Corpus]:
    """A file, the splits of a folder but train, or `task:split:seed` of which split and seed may be left out."""
    task, _, rest = source.partition(":")
    kind = source_kind(source if kind_of(source) else task)
    if kind == "file":
        return [corpus_from(source)]
    if kind == "folder":
        return [corpus_from(source, split=split) for split in splits_of(source) if split != "train"]
    split, _, seed = rest.partition(":")
    if not (seed or "0").isdecimal():
        raise SpecError(
            f"{source!r}: the seed {seed!r} is not a number; write task:split:seed, for example listops/d20s:test:7"
        )
    return [corpus_from(task, split=split or "test", seed=int(seed or 0))]
