"""Compounds and human judgement (section 5): does TRE agree with people about which compounds are compositional?

    compounds = read_reddy("compounds/reddy.txt")             # 90 noun compounds, scored 0 to 5 by people
    vectors = vectors_from_file("model7.vec", wanted(compounds))
    judge(compounds, vectors, frequencies, counts)            # Spearman with its interval, alone and given others

Words and compounds are items. A compound `nest_egg` has the derivation ("nest", "egg"); composition is addition and
the distance is cosine. `vectors` says where vectors come from. Two controls: how frequent the rarer word is, and how
often the text that the vectors were trained on has the compound itself, since a rare compound has a noisy vector.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base.errors import FormatError, MeasureError
from pomona.base.files import read_text
from pomona.base.shapes import COUNT, NUMBER, TEXT, Each, Maybe
from pomona.papers.tre_2019.correlations import correlate
from pomona.papers.tre_2019.vectors import Vector
from pomona.representations.tre import ReconstructionWarning, tre
from pomona.representations.tre.legacy import andreas2019

SHOWN = 3  # most and least compositional items, as in the paper
OFTEN = 20  # a compound that occurs less often has a vector that says little
_CORRELATION = {"value": Maybe(NUMBER), "low": Maybe(NUMBER), "high": Maybe(NUMBER)}
JUDGED = Each({  # what `judge` gives, by source of the vectors
    "compounds": COUNT, "exact": _CORRELATION, "legacy": _CORRELATION, "given frequency": Maybe(_CORRELATION),
    "items": [(TEXT, NUMBER, NUMBER)],
})  # fmt: skip


@dataclass(frozen=True)
class Compound:
    """Two words and how literally people understand them together."""

    first: str
    second: str
    score: float  # how literal people find the whole, 0 to 5

    @property
    def joined(self) -> str:
        """The compound as one word, as corpora and vector files have it."""
        return f"{self.first}_{self.second}"


def read_reddy(path: str | Path) -> list[Compound]:
    """Read the data of Reddy et al. (2011): `end-n user-n`, a tab, seven numbers, the fifth the compound's mean."""
    compounds = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        if len(fields) != 9 or not all(re.fullmatch(r"\S+-[a-z]", word) for word in fields[:2]):
            raise FormatError(
                "expected two words such as 'end-n user-n' and seven numbers, the fifth of them the compound's mean",
                path=path, line=number,
            )  # fmt: skip
        try:
            score = float(fields[6])
        except ValueError:
            raise FormatError(f"the compound's mean is {fields[6]!r}, not a number", path=path, line=number) from None
        if not 0.0 <= score <= 5.0:
            raise FormatError(f"the compound's mean is {score}; people gave 0 to 5", path=path, line=number)
        compounds.append(Compound(fields[0][:-2].lower(), fields[1][:-2].lower(), score))
    if not compounds:
        raise FormatError("holds no compounds", path=path)
    return compounds


def wanted(compounds: Sequence[Compound]) -> list[str]:
    """Every word and every joined compound, once, in order."""
    return list(
        dict.fromkeys(name for compound in compounds for name in (compound.first, compound.second, compound.joined))
    )


# -- correlations ---------------------------------------------------------------------------------------------------


def read_frequencies(path: str | Path) -> dict[str, float]:
    """Each line holds a word, a tab or a comma, and a number; a first line `word,count` is a header."""
    frequencies = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        word, _, count = line.replace(",", "\t").partition("\t")
        if number == 1 and (word.lower(), count.lower()) in (("word", "count"), ("word", "frequency")):
            continue
        try:
            frequencies[word.lower()] = float(count)
        except ValueError:
            raise FormatError("expected a word, a tab or a comma, and a number", path=path, line=number) from None
    return frequencies


def packaged_frequencies(names: Sequence[str]) -> dict[str, float] | None:
    """Word frequencies from the package wordfreq; None if it is not installed."""
    try:
        from wordfreq import word_frequency
    except ImportError:
        return None
    return {name: float(word_frequency(name, "en")) for name in names}


def judge(
    compounds: Sequence[Compound],
    vectors: Mapping[str, Vector],
    frequencies: Mapping[str, float] | None = None,
    counts: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Correlate the TRE of each compound with people's scores, for the exact solver and the published one.

    `frequencies` are those of words in general, `counts` those of words and joined compounds in the text that the
    vectors were trained on. `sum` is the textbook measure, 1 - cos(w1 + w2, compound): nothing is fitted.
    """
    known = [
        compound
        for compound in compounds
        if all(name in vectors for name in (compound.first, compound.second, compound.joined))
    ]
    if len(known) < 5:
        raise MeasureError(f"only {len(known)} of {len(compounds)} compounds have all three vectors; 5 are needed")
    # As in the released code, a word that occurs in several compounds is an item several times.
    items: list[Any] = []
    rows = []
    for compound in known:
        items += [compound.first, compound.second, (compound.first, compound.second)]
        rows += [vectors[compound.first], vectors[compound.second], vectors[compound.joined]]
    table = np.array(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)
        fit = tre(table, items)
        old = andreas2019(table, items, zero_init=False)
    score = [compound.score for compound in known]
    exact, legacy = fit.per_item[2::3], old.per_item[2::3]
    order = np.argsort(exact, kind="stable")
    named = [f"{compound.first} {compound.second}" for compound in known]
    results: dict[str, Any] = {
        "compounds": len(known),
        "tre": float(exact.mean()),
        "exact": correlate(exact, score, method="spearman").plain,
        "legacy": correlate(legacy, score, method="spearman").plain,
        "sum": correlate(distance_from_sum(table), score, method="spearman").plain,
        "most compositional": [named[row] for row in order[:SHOWN]],
        "least compositional": [named[row] for row in order[::-1][:SHOWN]],
        "given frequency": None,
        "given count": None,
        "items": [[name, float(value), one.score] for name, value, one in zip(named, exact, known, strict=True)],
    }
    if frequencies is not None:
        rarer = [min(frequencies.get(compound.first, 0.0), frequencies.get(compound.second, 0.0)) for compound in known]
        results["given frequency"] = correlate(exact, score, given=rarer, method="spearman").plain
        results["frequency and judgement"] = correlate(rarer, score, method="spearman").plain
        results["frequency and TRE"] = correlate(rarer, exact, method="spearman").plain
    if counts is not None:
        own = np.array([counts.get(compound.joined, 0.0) for compound in known])
        often = own >= OFTEN
        results["given count"] = correlate(exact, score, given=own, method="spearman").plain
        results["seen often"] = correlate(exact[often], np.array(score)[often], method="spearman").plain
        results["count and judgement"] = correlate(own, score, method="spearman").plain
        results["count and TRE"] = correlate(own, exact, method="spearman").plain
    return results


def distance_from_sum(table: Vector) -> Vector:
    """1 - cos(w1 + w2, compound), for rows that hold first word, second word and compound in turn."""
    whole, together = table[2::3], table[0::3] + table[1::3]
    sizes = np.linalg.norm(whole, axis=1) * np.linalg.norm(together, axis=1)
    return np.asarray(1 - (whole * together).sum(axis=1) / np.where(sizes > 0, sizes, np.nan))
