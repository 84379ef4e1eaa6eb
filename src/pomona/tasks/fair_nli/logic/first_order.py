"""Sentences of the fragment as first-order formulas, printed for several provers.

    meaning(Sentence.parse("every emptystring kid emptystring emptystring kick some emptystring rock"))
        ∀x (kid(x) → ∃y (rock(y) ∧ kick(x, y)))
    assumptions(premise, hypothesis)      no phrase is empty or universal (section 4.2 of the paper), as formulas
    tptp(formulas), smtlib(formulas), prover9(formulas)

A sentence means Q x [S(x)] (± Q y [O(y)] [R(x, y)]) with surface scope, where phrases are conjunctions of modifier and
head. A formula is an immutable value. `fold` evaluates it in an algebra, which says what each connective becomes; the
printers here and the Z3 terms of `provers` are such algebras. A pair is an entailment if assumptions, premise and
negated hypothesis have no common model. It is a contradiction if assumptions, premise and hypothesis have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

from pomona.tasks.fair_nli.logic.sentences import Sentence

T = TypeVar("T")


@dataclass(frozen=True)
class Atom:
    """A predicate of variables."""

    predicate: str
    variables: tuple[str, ...]

    def __str__(self) -> str:
        return readable(self)


@dataclass(frozen=True)
class Not:
    """¬ body"""

    body: Formula

    def __str__(self) -> str:
        return readable(self)


@dataclass(frozen=True)
class And:
    """left ∧ right"""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return readable(self)


@dataclass(frozen=True)
class Implies:
    """left → right"""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return readable(self)


@dataclass(frozen=True)
class Exists:
    """∃ variable body"""

    variable: str
    body: Formula

    def __str__(self) -> str:
        return readable(self)


@dataclass(frozen=True)
class ForAll:
    """∀ variable body"""

    variable: str
    body: Formula

    def __str__(self) -> str:
        return readable(self)


Formula: TypeAlias = Atom | Not | And | Implies | Exists | ForAll


@lru_cache(maxsize=4096)
def meaning(sentence: Sentence) -> Formula:
    """The truth conditions of a sentence; words become predicates, of two variables for verb and adverb."""
    relation = _phrase(sentence.predicate, ("x", "y"))
    inner = _quantified(sentence.object_quantifier, "y", _phrase(sentence.object, ("y",)), relation)
    if sentence.negated:
        inner = Not(inner)
    return _quantified(sentence.subject_quantifier, "x", _phrase(sentence.subject, ("x",)), inner)


@lru_cache(maxsize=4096)
def _assumed(phrases: frozenset[tuple[str, tuple[str, str]]]) -> tuple[Formula, ...]:
    formulas: list[Formula] = []
    for role, phrase in sorted(phrases):
        variables = ("x", "y") if role == "V" else ("x",)
        for body in (_phrase(phrase, variables), Not(_phrase(phrase, variables))):
            closed: Formula = body
            for variable in reversed(variables):
                closed = Exists(variable, closed)
            formulas.append(closed)
    return tuple(formulas)


def assumptions(*sentences: Sentence) -> tuple[Formula, ...]:
    """For every noun and verb phrase of the sentences: it holds of something, and not of everything."""
    return _assumed(
        frozenset(
            (role, phrase)
            for s in sentences
            for role, phrase in (("S", s.subject), ("V", s.predicate), ("O", s.object))
        )
    )


def _phrase(words: tuple[str, str], variables: tuple[str, ...]) -> Formula:
    modifier, head = words
    return And(Atom(modifier, variables), Atom(head, variables)) if modifier else Atom(head, variables)


def _quantified(quantifier: str, variable: str, restrictor: Formula, scope: Formula) -> Formula:
    if quantifier in ("some", "no"):
        some = Exists(variable, And(restrictor, scope))
        return some if quantifier == "some" else Not(some)
    every = ForAll(variable, Implies(restrictor, scope))
    return every if quantifier == "every" else Not(every)


@dataclass(frozen=True)
class Algebra(Generic[T]):
    """How to compute the result of each kind of formula from the results of its parts."""

    atom: Callable[[str, tuple[str, ...]], T]
    negation: Callable[[T], T]
    conjunction: Callable[[T, T], T]
    implication: Callable[[T, T], T]
    exists: Callable[[str, T], T]
    for_all: Callable[[str, T], T]


def fold(formula: Formula, algebra: Algebra[T]) -> T:
    """Evaluate a formula in an algebra, from the atoms upward."""
    match formula:
        case Atom(predicate, variables):
            return algebra.atom(predicate, variables)
        case Not(body):
            return algebra.negation(fold(body, algebra))
        case And(left, right):
            return algebra.conjunction(fold(left, algebra), fold(right, algebra))
        case Implies(left, right):
            return algebra.implication(fold(left, algebra), fold(right, algebra))
        case Exists(variable, body):
            return algebra.exists(variable, fold(body, algebra))
        case ForAll(variable, body):
            return algebra.for_all(variable, fold(body, algebra))


def predicates(formulas: Iterable[Formula]) -> dict[str, int]:
    """Every predicate with its number of arguments, in order of first appearance."""
    arities: dict[str, int] = {}

    def note(predicate: str, variables: tuple[str, ...]) -> None:
        arities.setdefault(predicate, len(variables))

    def skip(*_: object) -> None:
        return None

    for formula in formulas:
        fold(formula, Algebra[None](note, skip, skip, skip, skip, skip))
    return arities


def symbol(word: str) -> str:
    """A word as an identifier for every prover: letters and digits stay, other characters become their codes.

    >>> symbol("kid"), symbol("it's")
    ('p_kid', 'p_it_27_s')
    """
    return "p_" + re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", word)


_READABLE = Algebra[str](
    atom=lambda predicate, variables: f"{predicate}({', '.join(variables)})",
    negation=lambda body: f"¬{body}",
    conjunction=lambda left, right: f"({left} ∧ {right})",
    implication=lambda left, right: f"({left} → {right})",
    exists=lambda variable, body: f"∃{variable} {body}",
    for_all=lambda variable, body: f"∀{variable} {body}",
)

_TPTP = Algebra[str](  # TPTP writes variables in capital letters
    atom=lambda predicate, variables: f"{symbol(predicate)}({','.join(v.upper() for v in variables)})",
    negation=lambda body: f"~({body})",
    conjunction=lambda left, right: f"({left} & {right})",
    implication=lambda left, right: f"({left} => {right})",
    exists=lambda variable, body: f"(?[{variable.upper()}]: {body})",
    for_all=lambda variable, body: f"(![{variable.upper()}]: {body})",
)

_SMTLIB = Algebra[str](
    atom=lambda predicate, variables: f"({symbol(predicate)} {' '.join(variables)})",
    negation=lambda body: f"(not {body})",
    conjunction=lambda left, right: f"(and {left} {right})",
    implication=lambda left, right: f"(=> {left} {right})",
    exists=lambda variable, body: f"(exists (({variable} Thing)) {body})",
    for_all=lambda variable, body: f"(forall (({variable} Thing)) {body})",
)

_PROVER9 = Algebra[str](
    atom=lambda predicate, variables: f"{symbol(predicate)}({','.join(variables)})",
    negation=lambda body: f"-({body})",
    conjunction=lambda left, right: f"({left} & {right})",
    implication=lambda left, right: f"({left} -> {right})",
    exists=lambda variable, body: f"(exists {variable} {body})",
    for_all=lambda variable, body: f"(all {variable} {body})",
)


def readable(formula: Formula) -> str:
    """A formula for people."""
    return fold(formula, _READABLE)


def tptp(formulas: Iterable[Formula]) -> str:
    """A problem in TPTP (E, Vampire and most others): are these formulas satisfiable together?"""
    return "".join(f"fof(f{n}, axiom, {fold(formula, _TPTP)}).\n" for n, formula in enumerate(formulas, 1))


def smtlib(formulas: Iterable[Formula]) -> str:
    """The same problem in SMT-LIB 2 (Z3, cvc5)."""
    formulas = tuple(formulas)
    lines = ["(set-logic UF)", "(declare-sort Thing 0)"]
    lines += [f"(declare-fun {symbol(p)} ({' '.join(['Thing'] * n)}) Bool)" for p, n in predicates(formulas).items()]
    lines += [f"(assert {fold(formula, _SMTLIB)})" for formula in formulas]
    return "\n".join([*lines, "(check-sat)", ""])


def prover9(formulas: Iterable[Formula]) -> str:
    """The same problem for Prover9 and Mace4."""
    lines = [f"  {fold(formula, _PROVER9)}." for formula in formulas]
    return "\n".join(["formulas(assumptions).", *lines, "end_of_list.", ""])
