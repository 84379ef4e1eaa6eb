"""What cheap information can score: the ladder from nothing to everything, on which a model's score is to be read.

    >>> test = pm.generate("listops/d20s", split="test")
    >>> print(ladder(test, train=pm.generate("listops/d20s")))

A rung is a predictor that sees only part of an example. Two kinds make up the ladder, for every task alike:

    look-up      some *information*, a function of a corpus that gives a key for each example; the answer to a key is
                 the most frequent one among the training examples of that key (of the nearest coarser key, if none)
    truncation   the top k levels of the trees, worked out exactly (`pomona.truncation`)

and where a law is known, the best that any predictor could do with the information is a sum, not an experiment:
`best_accuracy` for a finite law (NLI: enumerate the pairs), `copy_ceiling` for COPY arguments that training never
showed. A task adds rungs of its own by a class attribute `shortcuts`, a mapping from names to informations.

Without `train`, predictors learn from one half of the corpus to answer the other, so that none answers what it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona import truncation
from pomona.algebra import OPERATORS
from pomona.compiled import Floats, Ints
from pomona.corpus import Corpus
from pomona.errors import MeasureError, PomonaError
from pomona.orchard_text import copy_arguments, positions
from pomona.sampling import TASKS

Answers: TypeAlias = "npt.NDArray[np.int64]"  # [examples, questions]: positions in the corpus's outcomes
Information: TypeAlias = Callable[
    [Corpus], Sequence[Any] | npt.NDArray[Any]
]  # one key an example: a number, a row, text
LEVELS = 8
FEATURES_FROM = 10_000  # training examples from which the counts are weighed; more change nothing in the first decimal


@dataclass(frozen=True, eq=False)
class Rung:
    """One predictor: what it sees, its answers (None where only its accuracy is known), how often each is right.

    `right` has one column a question, between 0 and 1, NaN where the predictor does not apply.
    """

    name: str
    sees: str
    right: npt.NDArray[np.float64]
    answers: Answers | None = None

    @property
    def per_question(self) -> tuple[float, ...]:
        """Accuracy on each question (ORCHARD: first tree, second tree)."""
        return tuple(self.right.mean(axis=0).tolist())

    @property
    def accuracy(self) -> float:
        """How often all questions are answered right; NaN where one of them is not this predictor's."""
        return float(self.right.prod(axis=1).mean())

    @property
    def error(self) -> float:
        """The standard error of `accuracy`."""
        return float(self.right.prod(axis=1).std() / np.sqrt(max(1, len(self.right))))


@dataclass(frozen=True, eq=False)
class Ladder:
    """The rungs in order; `ladder["top 2 levels"]` is one of them."""

    corpus: str
    learnt_from: str
    rungs: tuple[Rung, ...]

    def __getitem__(self, name: str) -> Rung:
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(f"no rung is called {name!r}; there are {', '.join(rung.name for rung in self.rungs)}")

    def __str__(self) -> str:
        width = max(len(rung.name) for rung in self.rungs)
        lines = [f"{rung.name:{width}}  {_percent(rung)}  {rung.sees}" for rung in self.rungs]
        return f"{self.corpus}, learnt from {self.learnt_from}\n" + "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [
            {
                "name": rung.name,
                "sees": rung.sees,
                "accuracy": _number(rung.accuracy),
                "error": _number(rung.error),
                "per_question": [_number(one) for one in rung.per_question],
            }
            for rung in self.rungs
        ]
        return {"corpus": self.corpus, "learnt_from": self.learnt_from, "rungs": rows}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)


def _percent(rung: Rung) -> str:
    shown = [*rung.per_question, rung.accuracy] if rung.right.shape[1] > 1 else [rung.accuracy]
    return "  ".join("    -" if np.isnan(one) else f"{100 * one:5.1f}" for one in shown)


# -- the ladder ------------------------------------------------------------------------------------------------------


def ladder(
    corpus: Corpus,
    train: Corpus | None = None,
    *,
    levels: int = LEVELS,
    more: Mapping[str, Information] | None = None,
) -> Ladder:
    """Every rung that applies to a corpus; `more` adds look-ups by informations of your own."""
    if not len(corpus):
        raise MeasureError("a ladder needs at least one example")
    questions = asked(corpus)
    informations: dict[str, Information] = {**_own(corpus), **dict(more or {})}
    learn = _Learner(corpus, train)
    chance = np.full(questions.shape, 1.0 / max(1, len(np.unique(questions))))
    rungs = [
        Rung("nothing", "a guess among the answers there are", chance),
        learn.table("most frequent answer", "the answers of training", _nothing),
        learn.table("root operator", "the name at the top of each tree", root_operators),
        learn.weighed("surface counts", "how often each token occurs"),
    ]
    rungs += [learn.table(name, _first_line(one), one, root_operators) for name, one in informations.items()]
    try:
        truncation.value_prior(corpus)
        rungs += _evaluators(corpus, learn, levels)
    except MeasureError:
        pass  # no digits and operators: there is nothing to evaluate
    worded = any(word.isdigit() and len(word) > 1 for word in corpus.vocabulary)
    if corpus.forest.link is not None and train is not None and worded:  # with digits every argument can be spelled
        rungs.append(copy_ceiling(corpus, set(copy_arguments(train)[1].tolist())))
    return Ladder(repr(corpus), learn.source, tuple(rungs))


def asked(corpus: Corpus) -> Answers:
    """The answers wanted, one column a question; a pair such as "6,2" is two questions."""
    if corpus.targets.shape[1] == 1 and corpus.width > 1 and _paired(corpus):
        roots: Answers = corpus.values[corpus.forest.root].reshape(len(corpus), corpus.width).astype(np.int64)
        return roots
    return corpus.targets.astype(np.int64)


def _paired(corpus: Corpus) -> bool:
    used = [corpus.outcomes[value] for value in np.unique(corpus.targets).tolist() if value >= 0]
    return bool(used) and all(isinstance(one, str) and one.count(",") == corpus.width - 1 for one in used)


def evaluations(corpus: Corpus, train: Corpus | None, levels: int, *, by_hand: bool = False) -> npt.NDArray[np.int64]:
    """Answers from the top 0 .. `levels` levels: [examples, trees, levels + 1], as positions in outcomes."""
    return _Learner(corpus, train).evaluated(truncation.heuristic if by_hand else truncation.truncated, levels)


def lookups(corpus: Corpus, train: Corpus | None = None) -> list[Rung]:
    """The rungs that only look answers up: the most frequent one, by root operator, and by the root's own list."""
    return list(_lookups(_Learner(corpus, train)))


def _lookups(learn: _Learner) -> Iterable[Rung]:
    yield learn.table("most frequent answer", "the answers of training", _nothing)
    yield learn.table("root operator", "the name at the top of each tree", root_operators)
    yield learn.table(
        "look-up table", "root operator, what it makes of its own digits, their number, operators of its lists",
        root_list, root_operators,
    )  # fmt: skip


def _evaluators(corpus: Corpus, learn: _Learner, levels: int) -> Iterable[Rung]:
    """The look-up table over the root's list, the truncated evaluators and, for ORCHARD, its heuristics."""
    yield list(_lookups(learn))[-1]
    if corpus.width > 1:
        right = np.full((len(corpus), corpus.width), np.nan)
        wanted = asked(corpus)
        right[:, 1:] = wanted[:, 1:] == wanted[:, :1]
        yield Rung("repeat the first answer", "the right answer to the first tree", right)
    positional = {"FIRST", "LAST"} & {corpus.forest.names[symbol] for symbol in np.unique(corpus.forest.symbol)}
    tables = {"top": truncation.truncated}
    if corpus.width > 1 or positional:
        tables["by hand, top"] = truncation.heuristic
    for name, evaluate in tables.items():
        answers = learn.evaluated(evaluate, levels)
        for level in range(levels + 1):
            filled = "cut lists by p(value | operator)" if name == "top" else "cut lists by their edge, or left out"
            if level or name == "top":
                label = f"{name} {level} level{'s' if level != 1 else ''}"
                sees = f"lists nested {level} deep; {filled}" if level else "root operators; p(value | operator)"
                yield _rung(corpus, label, sees, answers[:, :, level])


def _rung(corpus: Corpus, name: str, sees: str, answers: Answers) -> Rung:
    return Rung(name, sees, (answers == asked(corpus)).astype(np.float64), answers)


def _own(corpus: Corpus) -> Mapping[str, Information]:
    """The informations that the corpus's task adds."""
    try:
        entry, _ = TASKS.entry(str(corpus.origin.get("task", "")))
    except PomonaError:
        return {}
    return dict(getattr(entry.kind, "shortcuts", {}))


def _first_line(information: Information) -> str:
    return str(getattr(information, "__doc__", None) or "information of a task's own").strip().split("\n")[0]


class _Learner:
    """Learns from `train`, or from either half of the corpus for the other."""

    def __init__(self, corpus: Corpus, train: Corpus | None) -> None:
        self.corpus = corpus
        everything = np.arange(len(corpus))
        self.folds: list[tuple[Corpus, npt.NDArray[np.int64]]]  # what to learn from, which rows to answer
        if train is not None:
            if not len(train):
                raise MeasureError("the training corpus is empty")
            self.folds, self.source = [(train, everything)], repr(train)
        else:
            half = (corpus.keys & np.uint64(1)).astype(bool)
            if half.all() or not half.any():
                half = everything % 2 == 1
            halves = (np.flatnonzero(half), np.flatnonzero(~half))
            if min(map(len, halves)) == 0:
                raise MeasureError(
                    "one example is too few to learn from one half for the other; give a training corpus"
                )
            self.folds = [(corpus.take(halves[1]), halves[0]), (corpus.take(halves[0]), halves[1])]
            self.source = "the other half of it"

    def table(self, name: str, sees: str, *informations: Information) -> Rung:
        """The most frequent answer to a key, to a coarser one where that was never seen, else of all."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for train, rows in self.folds:
            part = self.corpus.take(rows)
            wanted = _translated(train, asked(train), self.corpus)
            known = [(_keys(information, train), _keys(information, part)) for information in reversed(informations)]
            for question in range(questions.shape[1]):
                found = np.full(len(rows), _mode(wanted[:, question]))
                for mine, theirs in known:
                    keys, other = _numbered(_about(mine, question), _about(theirs, question))
                    best, seen = most_frequent(keys, wanted[:, question], other)
                    found = np.where(seen, best, found)
                answers[rows, question] = found
        return _rung(self.corpus, name, sees, answers)

    def weighed(self, name: str, sees: str) -> Rung:
        """A linear softmax on counts and presence of tokens."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for train, rows in self.folds:
            train = train[:FEATURES_FROM]
            words = tuple(dict.fromkeys([*train.vocabulary, *self.corpus.vocabulary]))[:40]
            wanted = _translated(train, asked(train), self.corpus)
            mine, theirs = _counts(train, words), _counts(self.corpus.take(rows), words)
            for question in range(questions.shape[1]):
                answers[rows, question] = _softmax(mine, wanted[:, question], theirs)
        return _rung(self.corpus, name, sees, answers)

    def evaluated(
        self, evaluate: Callable[[Corpus, int, Mapping[str, Floats]], Ints], levels: int
    ) -> npt.NDArray[np.int64]:
        """Answers [rows, questions, levels] of truncated evaluators whose prior comes from training."""
        place = np.array([_place(self.corpus, digit) for digit in range(truncation.VALUES)], np.int64)
        answers: npt.NDArray[np.int64] | None = None
        for train, rows in self.folds:
            found = place[evaluate(self.corpus.take(rows), levels, truncation.value_prior(train))]
            found = found.reshape(len(rows), self.corpus.width, -1)
            if answers is None:
                answers = np.zeros((len(self.corpus), *found.shape[1:]), np.int64)
            answers[rows] = found
        assert answers is not None
        return answers


def _place(corpus: Corpus, digit: int) -> int:
    return corpus.outcomes.index(digit) if digit in corpus.outcomes else -1


def _translated(corpus: Corpus, answers: Answers, into: Corpus) -> Answers:
    """Positions in one corpus's outcomes as positions in another's, -1 where it has no such outcome."""
    place = {outcome: position for position, outcome in enumerate(into.outcomes)}
    table = np.array([*(place.get(outcome, -1) for outcome in corpus.outcomes), -1], np.int64)
    return np.asarray(table[answers])


# -- look-ups ----------------------------------------------------------------------------------------------------------


def _keys(information: Information, corpus: Corpus) -> Any:
    """The keys of a corpus: one an example or, as an array of three dimensions, one for each of its questions."""
    keys = information(corpus)
    if len(keys) != len(corpus):
        raise MeasureError(f"an information gives one key an example; got {len(keys)} for {len(corpus)}")
    return keys


def _about(keys: Any, question: int) -> Any:
    return keys[:, question] if isinstance(keys, np.ndarray) and keys.ndim == 3 else keys


def _numbered(*parts: Any) -> tuple[Ints, ...]:
    """Equal keys get equal numbers, in all the parts alike."""
    if all(isinstance(part, np.ndarray) and np.issubdtype(part.dtype, np.integer) for part in parts):
        rows = np.concatenate([part.reshape(len(part), -1) for part in parts])
        folded = np.zeros(len(rows), np.uint64)  # a 64-bit hash of each row: sorting numbers is quicker than rows
        for column in rows.T:
            folded = (folded ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9FB21C651E98DF25)
            folded ^= folded >> np.uint64(29)
        _, numbers = np.unique(folded, return_inverse=True)
    else:
        index: dict[Any, int] = {}
        numbers = np.array([index.setdefault(key, len(index)) for part in parts for key in part], np.int64)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return tuple(np.split(numbers, ends))


def most_frequent(keys: Ints, answers: Ints, other: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For each key of `other` the most frequent answer among equal `keys`, and whether there was any."""
    size = int(max(keys.max(initial=0), other.max(initial=0))) + 1
    labels = int(answers.max(initial=0)) + 1
    known = answers >= 0
    pairs, counts = np.unique(keys[known].astype(np.int64) * labels + answers[known], return_counts=True)
    best = np.zeros(size, np.int64)
    seen = np.zeros(size, np.bool_)
    order = np.argsort(counts, kind="stable")  # the last written is the most frequent
    best[pairs[order] // labels] = pairs[order] % labels
    seen[pairs // labels] = True
    return best[other], seen[other]


def best_accuracy(
    information: Sequence[Any] | npt.NDArray[Any],
    answers: Sequence[Any] | npt.NDArray[Any],
    weights: Floats | None = None,
) -> float:
    """The accuracy of the best predictor that sees only the information, on a finite law; weights default to equal.

    >>> best_accuracy(["even", "even", "odd"], ["yes", "no", "no"])
    0.6666666666666666
    """
    keys, labels = (_numbered(part)[0] for part in (np.asarray(information), np.asarray(answers)))
    mass = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
    if not len(keys) == len(labels) == len(mass) or not len(keys) or mass.min() < 0 or mass.sum() <= 0:
        raise MeasureError("a finite law needs a key, an answer and a weight (0 or more) for each of its cases")
    table = np.zeros((int(keys.max()) + 1, int(labels.max()) + 1))
    np.add.at(table, (keys, labels), mass)
    return float(table.max(axis=1).sum() / mass.sum())


def _nothing(corpus: Corpus) -> Ints:
    return np.zeros(len(corpus), np.int64)


def _mode(answers: Ints) -> int:
    return int(np.argmax(np.bincount(answers[answers >= 0], minlength=1)))


def _codes(corpus: Corpus) -> Ints:
    """A number for each name of the forest that is the same in every corpus."""
    from pomona.corpus import codes

    return codes(corpus.forest.names).astype(np.int64)


def root_operators(corpus: Corpus) -> Ints:
    """The names at the roots: [examples, trees, 1], or [examples, trees] where there is one question about several."""
    names = _codes(corpus)[corpus.forest.symbol[corpus.forest.root]].reshape(len(corpus), corpus.width)
    return names[:, :, None] if asked(corpus).shape[1] == corpus.width else names


def root_list(corpus: Corpus) -> Ints:
    """Root operator, what it makes of the digits in its own list, how many these are, and the operators beside them."""
    forest = corpus.forest
    inside = np.flatnonzero(forest.depth == 1)
    tree = forest.tree[inside]
    digit = forest.leaf[inside] & (forest.links[inside] == 0)
    root = forest.symbol[forest.root]
    lists = np.zeros((len(forest), len(OPERATORS) + 1), np.int64)  # how many of each operator, and COPYs
    place = {name: position for position, name in enumerate(OPERATORS)}
    column = np.array([place.get(name, len(OPERATORS)) for name in forest.names], np.int64)
    np.add.at(lists, (tree[~digit], column[forest.symbol[inside[~digit]]]), 1)
    keys = np.column_stack([_codes(corpus)[root], truncation.own_digits(corpus), lists])
    return keys.reshape(len(corpus), corpus.width, -1)


# -- counts ------------------------------------------------------------------------------------------------------------


def _counts(corpus: Corpus, words: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Counts and presence of each word, and the length: [examples, features]."""
    place = {word: position for position, word in enumerate(words)}
    table = np.array([place.get(word, len(words)) for word in corpus.vocabulary], np.int64)
    rows = np.repeat(np.arange(len(corpus)), corpus.lengths)
    flat = np.bincount(
        rows * (len(words) + 1) + table[corpus.tokens], minlength=len(corpus) * (len(words) + 1)
    ).reshape(len(corpus), -1)[:, :-1]
    return np.column_stack([np.log1p(flat), flat > 0, np.log1p(corpus.lengths)]).astype(np.float64)


def _softmax(features: Floats, answers: Ints, other: Floats) -> npt.NDArray[np.int64]:
    """Answers to `other` by multinomial logistic regression with a little shrinkage."""
    from scipy.optimize import minimize

    labels, wanted = np.unique(answers[answers >= 0], return_inverse=True)
    features = features[answers >= 0]
    middle, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    # Longer examples than any in training: counts are taken for the largest that were weighed.
    other = np.clip(other, features.min(axis=0), features.max(axis=0))
    design = np.column_stack([(features - middle) / spread, np.ones(len(features))])
    truth = np.eye(len(labels))[wanted]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(design.shape[1], len(labels))
        scores = design @ weights
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        totals = powers.sum(axis=1, keepdims=True)
        value = float((np.log(totals[:, 0]) - (scores * truth).sum(axis=1)).mean() + 5e-5 * (flat @ flat))
        gradient = design.T @ (powers / totals - truth) / len(design) + 1e-4 * weights
        return value, gradient.ravel()

    start = np.zeros(design.shape[1] * len(labels))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    weights = found.reshape(-1, len(labels))
    scores = np.column_stack([(other - middle) / spread, np.ones(len(other))]) @ weights
    return np.asarray(labels[np.argmax(scores, axis=1)], np.int64)


# -- ceilings ----------------------------------------------------------------------------------------------------------


def copy_ceiling(corpus: Corpus, seen: Collection[int]) -> Rung:
    """The best possible accuracy when only these COPY arguments mean something: all others are one unknown word.

    An unknown argument is any of the other positions of the earlier trees, with equal chance (the law of the
    generator); laws of leaves are independent and go through the operators exactly. For two trees this is the Bayes
    ceiling; where a third tree quotes a second, what they share is left out of account.
    """
    forest = corpus.forest
    copies = np.flatnonzero(forest.links)
    quoted = copies - forest.links[copies]
    place = positions(forest, corpus.width)
    digits = truncation.digits(corpus)
    unknown = ~np.isin(place[quoted], np.array(sorted(seen), np.int64))
    rows = forest.tree[copies] // corpus.width
    leaves = np.full(len(forest.symbol), -1, np.int64)
    leaves[copies[unknown]] = np.arange(int(unknown.sum()))
    # Of each tree before: how often each value stands at a position that means nothing.
    strange = np.flatnonzero(~np.isin(place, np.array(sorted(seen), np.int64)))
    counts = np.zeros((len(forest), truncation.VALUES))
    np.add.at(counts, (forest.tree[strange], digits[strange]), 1.0)
    earlier = counts.reshape(len(corpus), corpus.width, -1).cumsum(axis=1)
    here = forest.tree[copies[unknown]] % corpus.width
    laws = earlier[rows[unknown], here - 1]
    laws = laws / np.maximum(1e-300, laws.sum(axis=1, keepdims=True))
    chance = truncation.law_of_roots(corpus, leaves, laws).max(axis=1).reshape(len(corpus), corpus.width)
    return Rung("COPY ceiling", f"all but COPY arguments other than the {len(set(seen))} known ones", chance)
