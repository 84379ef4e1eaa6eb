"""String rewriting: values are tuples of symbols."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pomona.data.task import TASKS, Task
from pomona.trees.operators import Operator, define_operator

LONGEST = 4  # longer strings lose their end

define_operator(Operator("JOIN", lambda strings: tuple(symbol for string in strings for symbol in string)[:LONGEST]))
define_operator(Operator("TURN", lambda strings: strings[0][::-1]))
define_operator(Operator("SWAP", lambda strings: tuple({"a": "b", "b": "a"}.get(one, one) for one in strings[0])))


@TASKS.add("rewriting", presets={"small": {}})
@dataclass(frozen=True)
class Rewriting(Task):
    """What do JOIN, TURN and SWAP make of strings of a, b and c?"""

    train: int = 400
    dev: int = 50
    test: int = 200
    depth: int = 4

    @staticmethod
    def leaf_value(text: str) -> tuple[str, ...]:
        return tuple(text)

    def example(self, random: np.random.Generator, depth: int = 0) -> Any:
        if depth and (depth == self.depth or random.random() < 0.3):
            return "".join("abc"[symbol] for symbol in random.integers(3, size=random.integers(1, 3)))
        operator = ("JOIN", "TURN", "SWAP")[random.integers(3)]
        below = 2 if operator == "JOIN" else 1
        return (operator, *(self.example(random, depth + 1) for _ in range(below)))
