"""Four ways to label a pair of sentences: our exact table, and three theorem provers.

    labeller("table").label(premise, hypothesis).text          'entailment', by one look-up
    labeller("z3", timeout=5).label(premise, hypothesis)       the same from first-order logic alone
    labeller("eprover").label_all(pairs, progress=print)       the same from E; progress gets 1, 2, 3, ...

The paper labelled its data with Prover9 (section 4.2). We label with a table, and provers check it independently. A
first-order labeller can decide whether formulas have a common model. Two such questions give the label: if premise and
negated hypothesis have no common model, it is entailment; if premise and hypothesis have none, contradiction. If a
prover gives up or runs out of time, the verdict is "unknown". Provers read their input from standard input, without a
shell.
"""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from pomona.base.errors import SpecError, did_you_mean
from pomona.tasks.fair_nli.logic import first_order
from pomona.tasks.fair_nli.logic.first_order import Algebra, Formula, Not, assumptions, fold, meaning
from pomona.tasks.fair_nli.logic.fragment import labels, roots
from pomona.tasks.fair_nli.logic.relations import Label, Relation, cell, relation_of
from pomona.tasks.fair_nli.logic.sentences import Pair, Sentence, encode_pairs


@dataclass(frozen=True)
class Verdict:
    """A label, or None and the reason why."""

    label: Label | None
    reason: str = ""

    @property
    def text(self) -> str:
        """'entailment', 'neutral', 'contradiction' or 'unknown'."""
        return self.label.text if self.label is not None else "unknown"


class Labeller(ABC):
    """Something that labels a pair of premise and hypothesis."""

    name: ClassVar[str]

    @abstractmethod
    def label(self, premise: Sentence, hypothesis: Sentence) -> Verdict:
        """The verdict on one pair."""

    def label_all(self, pairs: Iterable[Pair], progress: Callable[[int], None] | None = None) -> list[Verdict]:
        """The verdicts on many pairs, in order; after each, `progress` is called with the number done."""
        verdicts = []
        for done, (premise, hypothesis) in enumerate(pairs, 1):
            verdicts.append(self.label(premise, hypothesis))
            if progress is not None:
                progress(done)
        return verdicts


@dataclass(frozen=True)
class Table(Labeller):
    """The exact table: encode the pair, look up its root relation."""

    name: ClassVar[str] = "table"

    def label(self, premise: Sentence, hypothesis: Sentence) -> Verdict:
        return Verdict(self.relation(premise, hypothesis).label)

    def relation(self, premise: Sentence, hypothesis: Sentence) -> Relation:
        """Which of the seven relations holds between the sentences."""
        return Relation(roots(encode_pairs([(premise, hypothesis)]))[0])

    def label_all(self, pairs: Iterable[Pair], progress: Callable[[int], None] | None = None) -> list[Verdict]:
        verdicts = [Verdict(label) for label in Label]
        per_pair = [verdicts[label] for label in labels(encode_pairs(pairs))]
        if progress is not None:
            for done in range(1, len(per_pair) + 1):
                progress(done)
        return per_pair


@dataclass(frozen=True)
class FirstOrder(Labeller):
    """A labeller that asks whether formulas have a common model; `timeout` is in seconds for each question."""

    timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise SpecError(f"timeout={self.timeout} must be a positive number of seconds.")

    @abstractmethod
    def satisfiable(self, formulas: Sequence[Formula]) -> bool | None:
        """Whether the formulas have a common model; None if the prover does not know."""

    def consistent(self, premise: Sentence, hypothesis: Sentence) -> bool | None:
        """Whether both sentences can be true together if no phrase is empty or universal."""
        return self.satisfiable((*assumptions(premise, hypothesis), meaning(premise), meaning(hypothesis)))

    def label(self, premise: Sentence, hypothesis: Sentence) -> Verdict:
        encode_pairs([(premise, hypothesis)])  # an error if a word is in two places: a prover would read it differently
        known = (*assumptions(premise, hypothesis), meaning(premise))
        apart = self.satisfiable((*known, Not(meaning(hypothesis))))
        if apart is False:
            return Verdict(Label.ENTAILMENT)
        together = self.satisfiable((*known, meaning(hypothesis)))
        if together is False:
            return Verdict(Label.CONTRADICTION)
        if apart is None or together is None:
            question = "premise and negated hypothesis" if apart is None else "premise and hypothesis"
            return Verdict(None, f"{self.name} could not decide {question} within {self.timeout:g} s")
        return Verdict(Label.NEUTRAL)

    def relation(self, premise: Sentence, hypothesis: Sentence) -> Relation | None:
        """Which of the seven relations holds, from four questions; None if the prover cannot answer one."""
        cells = 0
        for p, first in enumerate((premise.contradictory, premise)):
            for h, second in enumerate((hypothesis.contradictory, hypothesis)):
                answer = self.consistent(first, second)
                if answer is None:
                    return None
                cells |= cell(p, h) if answer else 0
        return relation_of(cells)


@dataclass(frozen=True)
class Z3(FirstOrder):
    """The SMT solver Z3, in this process."""

    name: ClassVar[str] = "z3"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            import z3  # noqa: F401
        except ImportError:
            raise SpecError("the prover z3 is not installed. Install it with: pip install 'pomona[prove]'") from None

    def satisfiable(self, formulas: Sequence[Formula]) -> bool | None:
        import z3

        # All questions share one solver, each in a new frame; a new solver for each would take twice as long.
        self._solver.push()
        try:
            self._solver.add(*(self._term(formula) for formula in formulas))
            answer = self._solver.check()
        finally:
            self._solver.pop()
        return True if answer == z3.sat else False if answer == z3.unsat else None

    @cached_property
    def _solver(self) -> Any:
        import z3

        solver = z3.SimpleSolver()
        solver.set("timeout", max(1, round(self.timeout * 1000)))
        return solver

    @cached_property
    def _term(self) -> Callable[[Formula], Any]:
        """Formula to Z3 term, cached because the same sentences occur again and again."""
        algebra = _z3_algebra()
        return lru_cache(maxsize=20_000)(lambda formula: fold(formula, algebra))


def _z3_algebra() -> Algebra[Any]:
    import z3

    thing = z3.DeclareSort("Thing")

    def atom(predicate: str, variables: tuple[str, ...]) -> Any:
        function = z3.Function(first_order.symbol(predicate), *([thing] * len(variables)), z3.BoolSort())
        return function(*(z3.Const(v, thing) for v in variables))

    return Algebra(
        atom=atom,
        negation=z3.Not,
        conjunction=z3.And,
        implication=z3.Implies,
        exists=lambda variable, body: z3.Exists([z3.Const(variable, thing)], body),
        for_all=lambda variable, body: z3.ForAll([z3.Const(variable, thing)], body),
    )


@dataclass(frozen=True)
class EProver(FirstOrder):
    """The saturation prover E: a refutation means no model, a saturated set of clauses means there is one."""

    name: ClassVar[str] = "eprover"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require("eprover", "Install it with: apt-get install eprover")

    def satisfiable(self, formulas: Sequence[Formula]) -> bool | None:
        command = ["eprover", "--auto", "--tptp3-format", "--silent", f"--cpu-limit={max(1, round(self.timeout))}"]
        status = _status(_run(command, first_order.tptp(formulas), self.timeout), "SZS status ")
        return {"Unsatisfiable": False, "ContradictoryAxioms": False, "Satisfiable": True}.get(status)


@dataclass(frozen=True)
class Prover9(FirstOrder):
    """The prover of the paper, with Mace4: a proof by Prover9 means no model, and Mace4 finds the models.

    Prover9 alone cannot show that a model exists: it drops heavy clauses, so an exhausted search proves nothing.
    """

    name: ClassVar[str] = "prover9"

    def __post_init__(self) -> None:
        super().__post_init__()
        where = "It comes with Mace4 from https://www.cs.unm.edu/~mccune/prover9/; put both on PATH"
        _require("prover9", where)
        _require("mace4", where)

    def satisfiable(self, formulas: Sequence[Formula]) -> bool | None:
        problem, seconds = first_order.prover9(formulas), max(1, round(self.timeout))
        # Models of this fragment are small, and finding one is faster than failing to find a proof.
        if "Exiting with 1 model" in _run(["mace4", "-t", str(seconds), "-n", "2", "-N", "6"], problem, self.timeout):
            return True
        if "THEOREM PROVED" in _run(["prover9", "-t", str(seconds)], problem, self.timeout):
            return False
        return None


LABELLERS: dict[str, type[Labeller]] = {kind.name: kind for kind in (Table, Z3, EProver, Prover9)}


def labeller(name: str, **settings: Any) -> Labeller:
    """The labeller of that name: table, z3, eprover or prover9; the last three take `timeout`."""
    kind = LABELLERS.get(name)
    if kind is None:
        raise SpecError(f"no prover is called {name!r}. {did_you_mean(name, LABELLERS)}")
    try:
        return kind(**settings)
    except TypeError:
        raise SpecError(f"the prover {name!r} does not take {', '.join(settings)}.") from None


GRACE = 5.0
"""Seconds. Provers stop at their CPU limit; this much is added to the wall-clock limit for a busy machine."""


def _require(program: str, advice: str) -> None:
    if shutil.which(program) is None:
        raise SpecError(f"the program {program!r} is not on PATH. {advice}.")


def _run(command: list[str], text: str, timeout: float) -> str:
    """The output of a prover; empty if it had to be stopped."""
    wall = 4 * timeout + GRACE
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=wall, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def _status(output: str, mark: str) -> str:
    """The word after a mark in a prover's output."""
    for line in output.splitlines():
        if mark in line:
            return line.split(mark, 1)[1].split()[0]
    return ""
