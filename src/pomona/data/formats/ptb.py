"""Trees in round brackets, as the Penn Treebank writes them: `(S (NP (DT the) (NN cat)) (VP sat))`.

A tree may be on one line or on several; each `(` is followed by the label of its node, and words are leaves. The labels
of a whole file are of one of three kinds:

    (S (NP the cat) (VP sat))             any labels: types of nodes; no values, no target; the tokens are the words
    (3 (2 very) (3 good))                 whole numbers, as in the Stanford Sentiment Treebank: values of nodes, of type
                                          `node`; the target is the number of the root; the tokens are the words
    (MAX 2 9 (MIN 4 7) 0)                 operators that Pomona knows: values, target and tokens as in ListOps

A bracket without a label around a whole tree, `( (S ...) )`, is left out, as it says nothing. Other brackets without a
label, `(S ( the cat ) sat)`, have the type `node`. `(5)` is a tree of one leaf.
"""

from __future__ import annotations

import bisect
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from pomona.base.errors import FormatError, TreeError
from pomona.base.files import read_text
from pomona.data.corpus import Corpus, narrowest
from pomona.data.formats import FORMATS, Format
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS
from pomona.trees.values import Interner, Value, natural_order, position_type, value_of_text

SUFFIX = ".ptb"
NODE = "node"  # the type of a node that has no label, or whose label is its value
_PIECE = re.compile(r"\((?P<label>[^\s()]*)|(?P<close>\))|[^\s()]+")
_WORD = re.compile(r"[^\s()]+")
_HELD = "trees in brackets hold one tree an example, its words as tokens, and no values but those that labels give"


def recognises(path: Path, head: bytes) -> bool:
    first = head.lstrip().partition(b"\n")[0]
    return first.startswith(b"(") and b"\t" not in first  # with a tab it is a table that has lost its answer


def read(path: Path) -> Corpus:
    """Read every tree of a file; an error names line and column."""
    return parse(read_text(path), path)


def parse(text: str, path: Path) -> Corpus:
    """The trees in a text as a corpus; errors name `path`."""
    newlines = [match.start() for match in re.finditer("\n", text)]

    def wrong(message: str, at: int) -> FormatError:
        line = bisect.bisect_left(newlines, at)
        column = at - (newlines[line - 1] + 1 if line else 0) + 1
        return FormatError(message, path=path, line=line + 1, column=column)

    trees = _Trees()
    opened: list[tuple[str, int, list[int]]] = []  # label, where, children
    for match in _PIECE.finditer(text):
        at = match.start()
        if match["close"]:
            if not opened:
                raise wrong("')' closes a bracket that was never opened", at)
            label, began, children = opened.pop()
            if not children and (opened or not label):
                raise wrong(f"the bracket '({label}' is empty; a node has at least one word or node in it", began)
            node = trees.close(label, children, root=not opened)
            if opened:
                opened[-1][2].append(node)
            else:
                trees.finish(bisect.bisect_left(newlines, began) + 1)
        elif match["label"] is not None:
            opened.append((match["label"], at, []))
        elif opened:
            opened[-1][2].append(trees.add(match.group(), []))
        else:
            raise wrong(f"{match.group()[:40]!r} stands outside of all brackets; a tree begins with '('", at)
    if opened:
        raise wrong(f"the bracket '({opened[-1][0]}' is never closed", opened[-1][1])
    if not trees.lines:
        raise FormatError("the file holds no trees", path=path, line=1, column=1)
    return trees.corpus(path)


class _Trees:
    """The trees read so far, in post-order."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.symbols: list[int] = []
        self.parents: list[int] = []
        self.start = [0]
        self.lines: list[int] = []

    def add(self, name: str, children: list[int]) -> int:
        node = len(self.symbols)
        for child in children:
            self.parents[child] = node - self.start[-1]
        self.symbols.append(self.names.setdefault(name, len(self.names)))
        self.parents.append(-1)
        return node

    def close(self, label: str, children: list[int], *, root: bool) -> int:
        """The node of a bracket; a bracket around a whole tree that says nothing is not a node."""
        if root and not label and len(children) == 1:
            return children[0]
        return self.add(label or NODE, children)

    def finish(self, line: int) -> None:
        self.start.append(len(self.symbols))
        self.lines.append(line)

    def corpus(self, path: Path) -> Corpus:
        forest = Forest.of_lists(self.symbols, self.parents, self.start, tuple(self.names))
        corpus = _computed(forest) or _labelled(forest)
        return replace(corpus, origin={"path": str(path)}, lines=np.array(self.lines, np.int64))


def _labels(forest: Forest) -> list[str]:
    return [forest.names[symbol] for symbol in np.unique(forest.symbol[~forest.leaf]).tolist()]


def _computed(forest: Forest) -> Corpus | None:
    """The corpus whose values the operators give; None if some label is no operator, or not one of such leaves."""
    if not OPERATORS.keys() >= set(_labels(forest)):
        return None
    try:
        return Corpus.of_trees(forest)
    except TreeError:
        return None


def _labelled(forest: Forest) -> Corpus:
    """The corpus whose tokens are the words; labels are types, or values if all of them are whole numbers."""
    labels = _labels(forest)
    numbers: dict[str, Value] = {label: value_of_text(label) for label in labels}
    outcomes: tuple[Value, ...] = ()
    values = np.full(len(forest.symbol), -1, position_type(len(labels)))
    if all(type(number) is int for number in numbers.values()):
        outcomes = natural_order(numbers.values())
        found = Interner(outcomes)
        table = np.array([found.find(numbers[name]) if name in numbers else -1 for name in forest.names])
        values = np.where(forest.leaf, -1, table[forest.symbol]).astype(position_type(len(outcomes)))
        names = (*forest.names, NODE) if NODE not in forest.names else forest.names
        symbol = np.where(forest.leaf, forest.symbol, names.index(NODE)).astype(position_type(len(names)))
        forest = Forest(symbol, forest.parent, forest.start, names)
    used, tokens = np.unique(forest.symbol[forest.leaf], return_inverse=True)
    start = np.concatenate([[0], np.cumsum(forest.leaf)]).astype(np.int64)[forest.start]
    words = tuple(forest.names[word] for word in used.tolist())
    return Corpus(
        tokens.astype(narrowest(len(words))), start, words, forest, values, outcomes, values[forest.root][:, None]
    )


# -- writing -----------------------------------------------------------------------------------------------------------


class Writer:
    """One tree a line, chunk after chunk. What reading would not restore is refused."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("w", encoding="utf-8", newline="\n"), shown
        self._kind: str | None = None

    def write(self, corpus: Corpus) -> None:
        if not len(corpus):
            return
        text = "".join(line + "\n" for line in self._lines(corpus))
        again = parse(text, self._shown)
        kind = "numbers" if again.forest.names[again.forest.symbol[-1]] == NODE and again.outcomes else "labels"
        kind = "operators" if _computed(again.forest) else kind
        if again.fingerprint != corpus.fingerprint or kind != (self._kind or kind) or corpus.columns or corpus.ids:
            raise FormatError(f"this corpus cannot be written so: {_HELD}; write jsonl or parquet", path=self._shown)
        self._kind = kind
        self._file.write(text)

    def _lines(self, corpus: Corpus) -> list[str]:
        forest = corpus.forest
        if corpus.width != 1 or forest.links.any() or not all(map(_WORD.fullmatch, forest.names)):
            raise FormatError(f"this corpus cannot be written so: {_HELD}; write jsonl or parquet", path=self._shown)
        inner = forest.symbol[~forest.leaf]
        by_value = corpus.values[~forest.leaf].min(initial=0) >= 0 and (np.array(forest.names)[inner] == NODE).all()
        node, kind, start = brackets.walk(forest)
        pieces = []
        for number, action in zip(node.tolist(), kind.tolist(), strict=True):
            name = forest.names[forest.symbol[number]]
            label = str(corpus.outcomes[corpus.values[number]]) if by_value and action == brackets.OPEN else name
            pieces.append({brackets.LEAF: f" {name}", brackets.OPEN: f" ({label}", brackets.CLOSE: ")"}[action])
        lines = ["".join(pieces[low:high]).strip() for low, high in itertools.pairwise(start.tolist())]
        return [line if line.startswith("(") else f"({line})" for line in lines]

    def close(self) -> None:
        self._file.close()


FORMATS.add(Format("ptb", SUFFIX, recognises, read, Writer))
