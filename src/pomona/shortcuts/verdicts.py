"""The effective depth of a model in one plain sentence, from the numbers that `EffectiveDepth.as_dict` keeps.

    acts like a full evaluator: 96 % of its answers; not an exact match
    acts like an evaluator that opens 2 levels: 82 % of its answers; the others look random
    acts exactly like an evaluator that opens 3 levels: all 2,000 answers
    acts like a guesser: nothing gives more of its answers than chance would (11 %)
    gives the same answer, 7, to every example

An evaluator that opens k levels evaluates the top k levels of a tree exactly and guesses the value of deeper lists from
their operators. "Not an exact match" means that the other answers follow a pattern; the tests are in `unlike`. Numbers
of earlier versions, without rows and chance, give a sentence as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ENOUGH = 0.5  # an evaluator that gives no more of the answers than this is no description of them
CLEAR = 2 / 3  # one that gives fewer than this is only called the nearest
FEW = 30  # examples that are too few to speak of guessing
SURE = 4.0  # standard errors above chance
DEEP = 8  # whether a full evaluator or one of more levels than this is meant is not worth the words
COUNTED = 10  # so many other answers are counted instead of described

_SHORTCUTS = {
    "most frequent answer": "one that always gives the most frequent answer",
    "root operator": "one that looks only at the root operator",
    "look-up table": "a look-up table of what stands directly in the root's list",
}


def sentence(found: Mapping[str, Any]) -> str:
    """What a model acts like, as one sentence without a full stop."""
    rows, best = found.get("rows"), max(found["agreement"])
    if found.get("unparsed") and found["unparsed"] == rows:
        return "gives no answer that can be read"
    if found.get("constant") is not None and rows != 1:
        return f"gives the same answer, {found['constant']}, to every example"
    shortcut = best - found["margin"]
    if rows and _by_chance(max(best, shortcut), found["chance"], rows):
        if rows < FEW:
            return f"cannot be told from a guesser on {_counted(rows, 'example')}"
        return f"acts like a guesser: nothing gives more of its answers than chance would ({percent(found['chance'])})"
    evaluator = levels_in_words(found["interval"], found["depth"])
    if found["margin"] < 0:
        name = _SHORTCUTS.get(found["rival"], f"the shortcut {found['rival']!r}")
        words = f"acts like a shortcut, {name}: {percent(shortcut)} of its answers"
        return f"{words}; the nearest evaluator, {_one(evaluator)}, gives {percent(best)}"
    if best <= ENOUGH:
        return f"acts like no evaluator: the nearest, {_one(evaluator)}, gives {percent(best)} of its answers"
    if best == 1:
        many = f"all {rows:,} answers" if rows else "all answers"
        return f"acts exactly like {evaluator}: {many}{_alternative(found)}"
    verb = "acts like" if best >= CLEAR else "is nearest to"
    return f"{verb} {evaluator}: {percent(best)} of its answers{_others(found, best, rows)}{_alternative(found)}"


def levels_in_words(interval: Sequence[Any], depth: Any) -> str:
    """An evaluator by the levels it opens; by the interval of levels where several explain the answers as well."""
    low, high = interval
    if depth == "everything":
        return "a full evaluator"
    if high == "everything":
        return f"an evaluator that opens {low} level{_s(low)} or more"
    if low != high:
        return f"an evaluator that opens {low} to {high} levels"
    if depth == 0:
        return "an evaluator that sees only the root operator"
    return f"an evaluator that opens {depth} level{_s(depth)}"


def percent(share: float) -> str:
    """A share in per cent; only all of them are 100 %, and only none are 0 %.

    >>> percent(0.956), percent(0.9996), percent(1)
    ('96 %', '99.9 %', '100 %')
    """
    if share in (0, 1) or 0.01 <= share <= 0.99:
        return f"{100 * share:.0f} %"
    return f"{min(99.9, max(0.1, 100 * share)):.1f} %"


def _by_chance(share: float, chance: float, rows: int) -> bool:
    """Whether independent answers would agree as often; the best of many is allowed for by a wide margin."""
    if chance >= 1:
        return False
    return bool(share - chance < SURE * (max(chance, 1 / rows) * (1 - chance) / rows) ** 0.5)


def _others(found: Mapping[str, Any], best: float, rows: int | None) -> str:
    if rows and round((1 - best) * rows) <= COUNTED:
        count = round((1 - best) * rows)
        return f"; {_counted(count, 'answer')} differ{'s' if count == 1 else ''}"
    return "; the others look random" if found["fits"] else "; not an exact match"


def _alternative(found: Mapping[str, Any]) -> str:
    """Which fewer levels these examples cannot tell from a full evaluator."""
    low = found["interval"][0]
    if found["depth"] != "everything" or low == "everything" or low > DEEP:
        return ""
    return f"; on these examples one that opens {low} level{_s(low)} does as well"


def _one(evaluator: str) -> str:
    return evaluator.replace("an evaluator that", "one that")


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{_s(count)}"


def _s(count: Any) -> str:
    return "" if count == 1 else "s"
