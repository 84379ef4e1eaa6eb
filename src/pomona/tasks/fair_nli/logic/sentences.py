"""Sentences of the fragment as words, for people, files and provers.

    every = Sentence.parse("every emptystring kid doesnot happily kick some large rock")
    every.subject                              ('', 'kid'): modifier and head
    every.contradictory                        the same with 'not every'
    encode_pairs([(premise, hypothesis)])      the encoding of `fragment`, from any words at all

A sentence has nine places (section 4.2 of the paper): three open-class heads with optional modifiers, two quantifiers
and a negation. Files spell an empty place `emptystring`, and write `notevery` and `doesnot` as one token. Generated
words are numbered, for example `sadj7` is the seventh adjective of subjects. A word's class follows from its place. In
one pair, an adjective may describe subjects and objects: that changes no label (tests/tasks/test_shared_adjectives.py
proves it with Z3). Any other open-class word may occur in one place only, because the exact labels assume that phrases
can be interpreted independently of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError, did_you_mean
from pomona.tasks.fair_nli.logic.fragment import (
    DIFFERENT,
    ONLY_HYPOTHESIS,
    ONLY_PREMISE,
    PHRASES,
    PLACES,
    Codes,
    encode,
    unpack,
)
from pomona.tasks.fair_nli.logic.projectivity import QUANTIFIERS

EMPTY: Final = "emptystring"
NOT: Final = "doesnot"
ADJECTIVES: Final = {PLACES.index("AdjS"), PLACES.index("AdjO")}
STEMS: Final = {"AdjS": "sadj", "NS": "snoun", "Adv": "adv", "V": "verb", "AdjO": "oadj", "NO": "onoun"}


@dataclass(frozen=True)
class Sentence:
    """One sentence, surface scope from left to right; an absent modifier is the empty string."""

    subject_quantifier: str
    subject_adjective: str
    subject_noun: str
    negated: bool
    adverb: str
    verb: str
    object_quantifier: str
    object_adjective: str
    object_noun: str

    def __post_init__(self) -> None:
        for quantifier in (self.subject_quantifier, self.object_quantifier):
            if quantifier not in QUANTIFIERS:
                raise SpecError(f"{quantifier!r} is not a quantifier. {did_you_mean(quantifier, QUANTIFIERS)}")
        for name in ("subject_noun", "verb", "object_noun"):
            if not getattr(self, name):
                raise SpecError(f"a sentence needs a {name.replace('_', ' ')}; only modifiers may be empty.")

    @classmethod
    def parse(cls, text: str) -> Sentence:
        """Read nine tokens: QS AdjS NS Neg Adv V QO AdjO NO."""
        tokens = text.split()
        if len(tokens) != 9:
            raise SpecError(f"a sentence has 9 tokens ({' '.join(PLACES)}), this one {len(tokens)}: {text!r}.")
        if tokens[3] not in (EMPTY, NOT):
            raise SpecError(f"token 4 must be {NOT!r} or {EMPTY!r}, not {tokens[3]!r}, in {text!r}.")
        words = ["" if token == EMPTY else token for token in tokens]
        return cls(words[0], words[1], words[2], words[3] == NOT, *words[4:])

    @classmethod
    def of_words(cls, row: Sequence[int]) -> Sentence:
        """The sentence of nine word numbers (see `fragment.encode`), in generated words."""
        words = [f"{STEMS[place]}{n}" if place in STEMS and n else "" for place, n in zip(PLACES, row, strict=True)]
        words[0], words[6] = QUANTIFIERS[row[0]], QUANTIFIERS[row[6]]
        return cls(words[0], words[1], words[2], bool(row[3]), *words[4:])

    @property
    def words(self) -> tuple[str, ...]:
        """The nine words; an empty place is the empty string."""
        negation = NOT if self.negated else ""
        subject = (self.subject_quantifier, self.subject_adjective, self.subject_noun)
        obj = (self.object_quantifier, self.object_adjective, self.object_noun)
        return (*subject, negation, self.adverb, self.verb, *obj)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The nine tokens of a file; `parse` undoes joining them by blanks."""
        return tuple(word or EMPTY for word in self.words)

    def __str__(self) -> str:
        return " ".join(self.tokens)

    @property
    def subject(self) -> tuple[str, str]:
        """Modifier and head of the subject."""
        return self.subject_adjective, self.subject_noun

    @property
    def predicate(self) -> tuple[str, str]:
        """Modifier and head of the verb phrase."""
        return self.adverb, self.verb

    @property
    def object(self) -> tuple[str, str]:
        """Modifier and head of the object."""
        return self.object_adjective, self.object_noun

    @property
    def contradictory(self) -> Sentence:
        """The sentence that is true exactly when this one is false."""
        flipped = QUANTIFIERS[QUANTIFIERS.index(self.subject_quantifier) ^ 1]
        return replace(self, subject_quantifier=flipped)


Pair: TypeAlias = tuple[Sentence, Sentence]


def encode_pairs(pairs: Iterable[Pair]) -> Codes:
    """[n] encodings of pairs of sentences over any vocabulary."""
    rows = [_numbered(premise, hypothesis) for premise, hypothesis in pairs]
    return encode(np.array(rows, np.int32).reshape(-1, 18))


def _numbered(premise: Sentence, hypothesis: Sentence) -> list[int]:
    """The 18 words as numbers within this pair: the encoding depends only on which are equal and which are empty."""
    numbers: dict[str, tuple[int, int]] = {}
    row = []
    for sentence in (premise, hypothesis):
        for place, word in enumerate(sentence.words):
            if place in (0, 6):
                row.append(QUANTIFIERS.index(word))
            elif not word:
                row.append(0)
            elif place == 3:
                row.append(1)
            else:
                number, where = numbers.setdefault(word, (len(numbers) + 1, place))
                if where != place and not {where, place} <= ADJECTIVES:
                    raise SpecError(
                        f"{word!r} stands both as {PLACES[where]} and as {PLACES[place]}; in this fragment a word "
                        "keeps its place, because phrases must be independent of each other. Rename one."
                    )
                row.append(number)
    return row


def exemplar(code: int) -> Pair:
    """A pair of sentences, in generated words, that has this encoding; as short as possible."""
    row = [0] * 18
    row[3], row[0], row[6], row[12], row[9], row[15] = (int(value) for value in unpack(np.array([code]))[0, :6])
    for phrase in PHRASES:
        how, equal, modifier = code >> phrase.how & 3, code >> phrase.equal & 1, phrase.modifier
        row[modifier] = 1 if how in (ONLY_PREMISE, DIFFERENT) else 0
        row[modifier + 9] = {ONLY_HYPOTHESIS: 1, DIFFERENT: 2}.get(how, 0)
        row[modifier + 1], row[modifier + 10] = 1, 2 - equal
    return pair_of_words(row)


def pair_of_words(row: Sequence[int] | Ints) -> Pair:
    """Premise and hypothesis of a row of 18 word numbers."""
    numbers = [int(n) for n in row]
    return Sentence.of_words(numbers[:9]), Sentence.of_words(numbers[9:])
