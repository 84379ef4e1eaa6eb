"""Measures: named computations on an evaluation, or on items that are paired row by row.

    @MEASURES.add("answer-length")
    @dataclass(frozen=True)
    class AnswerLength(Measure):
        \"\"\"How many letters the answers have.\"\"\"
        def of_evaluation(self, evaluation): return {"value": ...}

    measure("topsim", attributes, messages, method="kendall")      {"value": 0.71, "items": 40, ...}
    measure("parse-f1", evaluation)                                {"f1_gold": 0.42, ...}
    with_measures(evaluation, ["topsim", "tre"])                   the evaluation, with `measures` filled in

One file in `pomona.measures` holds a measure or a small family, and the folder is discovered: a new file is in `pomona
ls measures`, in `pomona measure`, in `pomona evaluate --measure` and in the report. A measure is a frozen dataclass;
its fields are its settings. It returns a mapping, a dataclass, a Score or a number.

A plain `Measure` is computed from an Evaluation: the corpus, the answers, the trees that the model built. An
`ItemMeasure` is computed from what `reads` names, for example meanings and messages, which may come from files. Applied
to an evaluation it takes the items from there: the corpus's trees are the meanings or derivations, the right answers
are the labels, and the sentence vectors of a run are the vectors or messages. What an evaluation does not have is an
error that names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pomona.base.errors import MeasureError
from pomona.base.registry import Registry, parse_settings

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation

ROWS = 500  # examples of an evaluation that a measure of items reads unless it is told otherwise


@dataclass(frozen=True)
class Measure:
    """A measure of evaluations; its fields are its settings."""

    name: ClassVar[str]

    def of_evaluation(self, evaluation: Evaluation) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define of_evaluation(evaluation)")


@dataclass(frozen=True)
class ItemMeasure(Measure):
    """A measure of one or two lists of items, row by row; an evaluation gives its first `rows` examples."""

    reads: ClassVar[tuple[str, ...]]  # what `of_items` is given, in this order
    rows: int = dataclasses.field(default=ROWS, kw_only=True)  # examples of an evaluation, the first ones

    def of_items(self, *items: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define of_items({', '.join(self.reads)})")

    def of_evaluation(self, evaluation: Evaluation) -> Any:
        return self.of_items(*self.items_from(evaluation))

    def items_from(self, evaluation: Evaluation) -> list[Any]:
        """What `reads` names, from an evaluation."""
        missing = [kind for kind in self.reads if kind not in FROM_EVALUATION]
        if missing:
            raise MeasureError(
                f"{self.name} reads {' and '.join(self.reads)}, and an evaluation has no {' and no '.join(missing)}; "
                f"give files: pomona measure {self.name} {' '.join(kind.upper() for kind in self.reads)}"
            )
        return [FROM_EVALUATION[kind](evaluation, self.rows) for kind in self.reads]


MEASURES: Registry[Measure] = Registry("measure", "pomona.measures")


def measure(name: str, first: Any, second: Any = None, **settings: Any) -> dict[str, Any]:
    """A measure by name, of an Evaluation or of one or two lists of items; `settings` are the measure's own."""
    return apply(MEASURES.build(name, settings), first, second)


def apply(chosen: Measure, first: Any, second: Any = None) -> dict[str, Any]:
    """What a measure gives, as plain values by name."""
    from pomona.evaluation.evaluation import Evaluation

    if isinstance(first, Evaluation):
        return plain_values(chosen.of_evaluation(first))
    if not isinstance(chosen, ItemMeasure):
        raise MeasureError(
            f"{chosen.name} is measured on an evaluation, not on lists of items; give pm.evaluate(model, corpus), or "
            "on the command line answers with --data"
        )
    items = [first] if second is None else [first, second]
    check_count(chosen, len(items))
    return plain_values(chosen.of_items(*items))


def check_count(chosen: ItemMeasure, count: int) -> None:
    """An error unless there are as many lists of items as the measure reads."""
    if count != len(chosen.reads):
        needed = f"{'one list' if len(chosen.reads) == 1 else 'two lists'}: {' and '.join(chosen.reads)}"
        raise MeasureError(f"{chosen.name} reads {needed}; got {count}")


def with_measures(evaluation: Evaluation, names: Iterable[str]) -> Evaluation:
    """The evaluation with these measures of it; a name may carry settings, for example topsim:method=kendall.

    A measure that does not apply to the evaluation is left out, and a note says why.
    """
    measures, notes = {}, []
    for chosen, name in [(from_text(name), name) for name in names]:
        try:
            measures[name] = apply(chosen, evaluation)
        except MeasureError as error:
            notes.append(f"No {chosen.name}: {str(error).removeprefix(f'{chosen.name}: ')}.")
    return dataclasses.replace(
        evaluation, measures={**evaluation.measures, **measures}, notes=(*evaluation.notes, *notes)
    )


def from_text(text: str) -> Measure:
    """A measure written as NAME or NAME:setting=value:setting=value."""
    name, *settings = text.split(":")
    return MEASURES.build(name, parse_settings(settings))


# -- where items come from -------------------------------------------------------------------------------------------


def _trees(evaluation: Evaluation, rows: int) -> list[Any]:
    """The trees of the corpus as nested tuples, the operator first; several trees of an example are one tuple."""
    examples = [evaluation.corpus[row] for row in range(min(rows, len(evaluation)))]
    nested = [example.trees.nested() for example in examples]
    return [trees[0] if len(trees) == 1 else tuple(trees) for trees in nested]


def _labels(evaluation: Evaluation, rows: int) -> list[str]:
    outcomes = evaluation.corpus.outcomes
    return [", ".join(str(outcomes[position]) for position in row) for row in evaluation.wanted[:rows].tolist()]


def _vectors(evaluation: Evaluation, rows: int) -> Any:
    return evaluation.vectors[:rows]


FROM_EVALUATION: dict[str, Callable[[Evaluation, int], Any]] = {
    "meanings": _trees,
    "derivations": _trees,
    "labels": _labels,
    "messages": _vectors,
    "vectors": _vectors,
}


def read_item_files(chosen: ItemMeasure, paths: Sequence[Path]) -> list[Any]:
    """The items in files, as many as the measure reads; vectors are matched with derivations by name."""
    from pomona.representations.tre import readers

    check_count(chosen, len(paths))
    if chosen.reads == ("vectors", "derivations"):
        derivations, names = readers.read_derivations(paths[1])
        return [readers.match_rows(readers.read_representations(paths[0]), names), derivations]
    return [readers.read_items(path) for path in paths]


# -- results as plain values -----------------------------------------------------------------------------------------


def plain_values(result: Any) -> dict[str, Any]:
    """A result as JSON values by name; NaN and what is not finite become None."""
    if hasattr(result, "per_example") and hasattr(result, "interval"):
        result = {"value": result.value, "low": result.interval[0], "high": result.interval[1]}
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    elif not isinstance(result, Mapping):
        result = {"value": result}
    return {str(name): _plain(value) for name, value in result.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise MeasureError(f"a measure gives numbers, texts and lists of them; got {type(value).__name__}")
