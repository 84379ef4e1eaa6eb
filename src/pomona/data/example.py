"""One example of a corpus, and how it looks: as text with its tree, and as a picture in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pomona.base import notebook
from pomona.trees.forest import Forest
from pomona.trees.values import Value

Outcome: TypeAlias = Value
LONGEST = 400  # characters of the text that are shown
TALLEST = 40  # lines of the drawing


@dataclass(frozen=True, eq=False)
class Example:
    """One example: tokens, trees (a Forest; ORCHARD has two), the value of every node in order, target and key."""

    tokens: tuple[str, ...]
    trees: Forest
    values: tuple[Outcome | None, ...]
    target: tuple[Outcome, ...]
    key: str
    id: str
    length: int
    nesting: int
    dependency: int

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    @property
    def answer(self) -> str:
        """The target as text."""
        return ", ".join(str(part) for part in self.target)

    def __repr__(self) -> str:
        from pomona.trees.drawing import draw

        text = self.text if len(self.text) <= LONGEST else f"{self.text[: LONGEST - 1]}…"
        return f"{text}{f'  ->  {self.answer}' if self.target else ''}\n{draw(self, height=TALLEST)}"

    def _repr_html_(self) -> str:
        from pomona.trees.drawing import svg

        answer = [f"answer: {self.answer}"] if self.target else []
        lines = [*answer, f"{self.length} tokens, nesting {self.nesting}, dependency depth {self.dependency}"]
        picture = notebook.Markup(f'<div style="overflow-x:auto">{svg(self.trees, self.values)}</div>')
        return notebook.page(notebook.heading(self.text, *lines), picture)
