"""Nested XOR and AND over the words T and F."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pomona.data.task import TASKS, Task
from pomona.trees.operators import Operator, define_operator


def all_true(arguments: list[str]) -> str:
    return "F" if "F" in arguments else "T"


def false_ones(arguments: list[str]) -> list[tuple[int, ...]]:
    """Any argument that is false decides an AND; if none is, all of them do."""
    return [(place,) for place, word in enumerate(arguments) if word == "F"] or [tuple(range(len(arguments)))]


define_operator(Operator("XOR", lambda arguments: "T" if arguments.count("T") % 2 else "F"))
define_operator(Operator("AND", all_true, deciding=false_ones))


@TASKS.add("nested_xor", presets={"small": {}})
@dataclass(frozen=True)
class NestedXor(Task):
    """Is a nested XOR and AND of T and F true?"""

    train: int = 400
    dev: int = 50
    test: int = 200
    depth: int = 5

    def example(self, random: np.random.Generator, depth: int = 0) -> Any:
        if depth and (depth == self.depth or random.random() < 0.4):
            return "TF"[random.integers(2)]
        operator = ("XOR", "AND")[random.integers(2)]
        return (operator, *(self.example(random, depth + 1) for _ in range(random.integers(2, 4))))
