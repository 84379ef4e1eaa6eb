"""Corpora: many examples, stored as columns.

    corpus = pm.generate("listops/d20s", split="test", seed=7)
    corpus[0]                       an Example; its repr draws the tree
    corpus[:100], corpus[rows]      corpora again
    corpus.lengths, corpus.nesting, corpus.dependency, corpus.targets      arrays, one row each

An example is a sequence of tokens, one or more trees, a value for every node, a target (always a tuple) and a key, the
hash of its tokens. `values` and `targets` hold positions in `outcomes`, the table of distinct values (any plain values,
see `trees.values`; in ListOps the digits), and -1 where the value is unknown. `Corpus.of_trees` makes a corpus from
trees alone. The fingerprint is a SHA-256 over the content of the rows, not over file bytes: it does not change with the
format, the chunk size, the number of workers or the order of the vocabulary.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base import notebook
from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.errors import FormatError
from pomona.base.randomness import mix
from pomona.base.tables import put_entries
from pomona.data.example import Example as Example
from pomona.data.example import Outcome as Outcome
from pomona.trees import brackets
from pomona.trees.forest import Forest, gather
from pomona.trees.operators import OPERATORS, LeafValues, Operator, dependency, dependency_of, evaluate, needs_values
from pomona.trees.values import distinct, labels_of, position_type, renumber, value_of_text

# The parts of an example in files; the columns that a task adds must have other names.
FIELDS = {
    "id", "tokens", "text", "target", "tree", "trees", "symbols", "parents", "to_parent", "values", "links",
    "length", "nesting", "dependency",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Corpus:
    """Many examples of `width` trees each, stored as columns."""

    tokens: npt.NDArray[np.integer[Any]]
    token_start: npt.NDArray[np.int64]
    vocabulary: tuple[str, ...]
    forest: Forest
    values: npt.NDArray[np.signedinteger[Any]]  # 16-bit, or 32-bit where there are more outcomes
    outcomes: tuple[Outcome, ...]
    targets: npt.NDArray[np.signedinteger[Any]]
    width: int = 1
    origin: Mapping[str, Any] = field(default_factory=dict)
    ids: tuple[str, ...] | None = None
    lines: npt.NDArray[np.int64] | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = len(self.token_start) - 1
        if len(self.forest) != rows * self.width or len(self.targets) != rows:
            raise FormatError(
                f"{rows} examples of {self.width} trees need as many targets and trees; "
                f"got {len(self.targets)} targets and {len(self.forest)} trees"
            )
        if len(self.values) != len(self.forest.symbol):
            raise FormatError(f"{len(self.forest.symbol)} nodes need as many values; got {len(self.values)}")
        for name, column in self.columns.items():
            if name in FIELDS or len(column) != rows:
                why = "that name has another meaning" if name in FIELDS else f"it has {len(column)} rows of {rows}"
                raise FormatError(f"{name!r} cannot be a column of this corpus: {why}")

    @classmethod
    def of_trees(
        cls,
        forest: Forest,
        values: LeafValues = value_of_text,
        *,
        operators: Mapping[str, Operator] = OPERATORS,
        outcomes: Sequence[Outcome] = (),
        origin: Mapping[str, Any] | None = None,
    ) -> Corpus:
        """A corpus of list trees, one each: tokens `[OP .. ]`, values by the operators, that of the root as target.

        >>> Corpus.of_trees(brackets.read("[MAX 2 9 ]"))[0].target
        (9,)

        `values` gives a leaf's value from its text, as a function or a mapping; by default a numeral is its number and
        any other word is itself. `outcomes` come first in the table of values, in this order; the others follow in
        their natural order.
        """
        tokens, start, vocabulary = brackets.list_tokens(forest)
        positions, table = evaluate(forest, operators, values)
        if outcomes:
            declared = distinct([*outcomes, *table])
            positions, table = renumber(positions, table, declared, position_type(len(declared))), declared
        return cls(
            tokens, start, vocabulary, forest, positions, table, positions[forest.root][:, None],
            origin=dict(origin or {}),
        )  # fmt: skip

    # -- parts -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.token_start) - 1

    def __getitem__(self, item: Any) -> Any:
        """`corpus[i]` is an Example; a slice, a list of rows or a boolean mask gives a Corpus."""
        if isinstance(item, (int, np.integer)):
            if not -len(self) <= item < len(self):
                raise IndexError(f"row {item} of a corpus of {len(self)}")
            return self._example(int(item) % len(self))
        if isinstance(item, slice):
            return self._rows(item) if item.step in (None, 1) else self.take(np.arange(len(self))[item])
        rows = np.asarray(item)
        if rows.dtype == np.bool_:
            if len(rows) != len(self):
                raise IndexError(f"a mask of {len(rows)} rows for a corpus of {len(self)}")
            rows = np.flatnonzero(rows)
        return self.take(rows)

    def _example(self, row: int) -> Example:
        low, high = self.token_start[row], self.token_start[row + 1]
        trees = self.forest[row * self.width : (row + 1) * self.width]
        first = self.forest.start[row * self.width]
        values = self.values[first : first + len(trees.symbol)].tolist()
        key = f"{self.keys[row]:016x}"
        return Example(
            tokens=tuple(self.vocabulary[token] for token in self.tokens[low:high].tolist()),
            trees=trees,
            values=tuple(None if value < 0 else self.outcomes[value] for value in values),
            target=tuple(self.outcomes[value] for value in self.targets[row].tolist() if value >= 0),
            key=key,
            id=key if self.ids is None else self.ids[row],
            length=int(high - low),
            nesting=int(self.nesting[row]),
            dependency=int(self.dependency[row]),
        )

    def _rows(self, rows: slice) -> Corpus:
        first, last, _ = rows.indices(len(self))
        last = max(first, last)
        low, high = self.token_start[first], self.token_start[last]
        forest = self.forest[first * self.width : last * self.width]
        node = self.forest.start[first * self.width]
        return replace(
            self,
            tokens=self.tokens[low:high],
            token_start=self.token_start[first : last + 1] - low,
            forest=forest,
            values=self.values[node : node + len(forest.symbol)],
            targets=self.targets[first:last],
            ids=None if self.ids is None else self.ids[first:last],
            lines=None if self.lines is None else self.lines[first:last],
            columns={name: column[first:last] for name, column in self.columns.items()},
        )

    def take(self, rows: Ints) -> Corpus:
        """The rows with these numbers, in this order."""
        rows = np.asarray(rows, np.int64)
        token_start, tokens = gather(self.token_start, rows)
        trees = (rows[:, None] * self.width + np.arange(self.width)).ravel()
        _, nodes = gather(self.forest.start, trees)
        return replace(
            self,
            tokens=self.tokens[tokens],
            token_start=token_start,
            forest=self.forest[trees],
            values=self.values[nodes],
            targets=self.targets[rows],
            ids=None if self.ids is None else tuple(self.ids[row] for row in rows.tolist()),
            lines=None if self.lines is None else self.lines[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
        )

    def __iter__(self) -> Iterator[Example]:
        return (self._example(row) for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Corpus({self._name}: {len(self):,} examples, {len(self.tokens):,} tokens)"

    def _repr_html_(self) -> str:
        first = [[example.text, example.answer, example.nesting] for example in self[:5]]
        about = f"{len(self):,} examples, {len(self.tokens):,} tokens"
        labels = ", ".join(f"{name}: {count:,}" for name, count in self.labels().items() if count)
        more = [f"answers: {labels}"] if labels else []
        rows = notebook.table(["example", "answer", "nesting"], first)
        return notebook.page(notebook.heading(self._name, about, *more), rows)

    @property
    def _name(self) -> str:
        what = self.origin.get("task") or self.origin.get("path") or "corpus"
        return f"{what}, {self.origin['split']}" if "split" in self.origin else str(what)

    @classmethod
    def concatenate(cls, parts: Sequence[Corpus]) -> Corpus:
        """One corpus of all the rows; vocabularies and outcomes are merged, the origin is that of the first corpus."""
        if not parts:
            raise FormatError("there are no corpora to join; give at least one, which may be empty")
        first = parts[0]
        if len(parts) == 1:
            return first
        for what, counts in (
            ("trees", {part.width for part in parts}),
            ("targets", {part.targets.shape[1] for part in parts}),
        ):
            if len(counts) > 1:
                raise FormatError(f"corpora with {sorted(counts)} {what} an example cannot be joined")
        vocabulary = tuple(dict.fromkeys(token for part in parts for token in part.vocabulary))
        outcomes = first.outcomes
        if any(part.outcomes is not outcomes for part in parts):
            outcomes = distinct(outcome for part in parts for outcome in part.outcomes)
        kind = position_type(len(outcomes))
        token_start = np.zeros(sum(map(len, parts)) + 1, np.int64)
        np.cumsum(np.concatenate([part.lengths for part in parts]), out=token_start[1:])
        shared = [name for name in first.columns if all(name in part.columns for part in parts)]
        return replace(
            first,
            tokens=np.concatenate([_tokens_in(part, vocabulary) for part in parts]),
            token_start=token_start,
            vocabulary=vocabulary,
            forest=Forest.concatenate([part.forest for part in parts]),
            values=np.concatenate([renumber(part.values, part.outcomes, outcomes, kind) for part in parts]),
            outcomes=outcomes,
            targets=np.concatenate([renumber(part.targets, part.outcomes, outcomes, kind) for part in parts]),
            ids=None if any(part.ids is None for part in parts) else tuple(i for part in parts for i in part.ids or ()),
            lines=None
            if any(part.lines is None for part in parts)
            else np.concatenate([part.lines for part in parts if part.lines is not None]),
            columns={name: np.concatenate([part.columns[name] for part in parts]) for name in shared},
        )

    # -- properties of each row ------------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """The content key of each example: a 64-bit hash of its tokens, the same in every format and vocabulary."""
        return content_keys(self.tokens, self.token_start, self.vocabulary)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each example."""
        return np.diff(self.token_start)

    @cached_property
    def tree_nesting(self) -> npt.NDArray[np.int32]:
        """Nesting depth of each tree: how many lists are open at the deepest point. One row an example."""
        return self.forest.height[self.forest.root].reshape(len(self), self.width)

    @cached_property
    def tree_dependency(self) -> npt.NDArray[np.int32]:
        """Dependency depth of each tree: operators between the root and the leaves that decide. One row an example.

        Where values are unknown or contradict the rules, nothing shows what decides: all arguments count.
        """
        if not self.outcomes:
            return self.tree_nesting
        if needs_values(self.forest):
            depths = dependency_of(self.forest, self.values, self.outcomes)
        else:
            numbers = [out if type(out) is int else position for position, out in enumerate(self.outcomes)]
            own = numbers == list(range(len(numbers)))  # each number stands at its own position
            depths = dependency(self.forest, self.values if own else np.array(numbers, np.int64)[self.values])
        roots = depths[self.forest.root].reshape(len(self), self.width)
        if self.values.min(initial=0) < 0 or depths.max(initial=0) > len(depths):
            doubtful = np.zeros(len(self.forest), np.bool_)
            doubtful[self.forest.tree[(self.values < 0) | (depths > len(depths))]] = True
            roots = np.where(doubtful.reshape(roots.shape), self.tree_nesting, roots)
        return roots

    @cached_property
    def nesting(self) -> npt.NDArray[np.int32]:
        """Nesting depth of each example, the deepest of its trees."""
        return np.asarray(self.tree_nesting.max(axis=1), np.int32)

    @cached_property
    def dependency(self) -> npt.NDArray[np.int32]:
        """Dependency depth of each example, the deepest of its trees."""
        return np.asarray(self.tree_dependency.max(axis=1), np.int32)

    @property
    def texts(self) -> list[str]:
        """Each example's tokens, joined by blanks."""
        words = np.array(self.vocabulary, object)[self.tokens].tolist()
        return [" ".join(words[low:high]) for low, high in itertools.pairwise(self.token_start.tolist())]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the content of all rows."""
        return Fingerprint().update(self).hexdigest()

    def labels(self, question: int = 0) -> dict[str, int]:
        """How often each outcome is the target, in order of the outcomes; 0 for those that never occur."""
        targets = self.targets[:, question]
        counts = np.bincount(targets[targets >= 0], minlength=len(self.outcomes)).tolist()
        return dict(zip(labels_of(self.outcomes), counts, strict=True))

    def duplicates(self) -> npt.NDArray[np.int64]:
        """Rows that have the same tokens as an earlier row."""
        _, first = np.unique(self.keys, return_index=True)
        repeated: Bools = np.ones(len(self), np.bool_)
        repeated[first] = False
        return np.flatnonzero(repeated)


class Fingerprint:
    """A SHA-256 over corpora added one after the other; it does not depend on how the rows are cut into pieces."""

    def __init__(self) -> None:
        self._columns = {name: hashlib.sha256() for name in ("rows", "tokens", "targets", "trees", "symbols", "values")}
        self._nodes = 0

    def update(self, corpus: Corpus) -> Fingerprint:
        put = self._columns
        rows = np.empty((len(corpus), 2), "<i8")
        rows[:, 0], rows[:, 1] = corpus.lengths, corpus.width
        put["rows"].update(rows.data)
        put_entries(put["tokens"], codes(corpus.vocabulary), corpus.tokens)
        outcome = np.append(codes(tuple(repr(out) for out in corpus.outcomes)), np.uint64(0))  # -1 reads the last entry
        put_entries(put["targets"], outcome, corpus.targets.ravel())
        put_entries(put["values"], outcome, corpus.values)
        put_entries(put["symbols"], codes(corpus.forest.names), corpus.forest.symbol)
        put["trees"].update(np.ascontiguousarray(corpus.forest.parent, "<i4").data)
        quoting = np.flatnonzero(() if corpus.forest.link is None else corpus.forest.link)
        if len(quoting):  # only these, so that a piece without links adds nothing
            links = self._columns.setdefault("links", hashlib.sha256())
            links.update(np.stack([self._nodes + quoting, corpus.forest.links[quoting]], axis=1).astype("<i8").data)
        self._nodes += len(corpus.forest.symbol)
        return self

    def hexdigest(self) -> str:
        return self.joined({name: column.digest() for name, column in self._columns.items()})

    @staticmethod
    def joined(columns: Mapping[str, bytes]) -> str:
        """The fingerprint of all columns, from the digest of each."""
        whole = hashlib.sha256(b"pomona corpus 1")
        for name in sorted(columns):
            whole.update(name.encode() + columns[name])
        return whole.hexdigest()


@lru_cache(maxsize=256)
def codes(names: tuple[str, ...]) -> npt.NDArray[np.uint64]:
    """A 64-bit code for each word, from its text alone."""
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    table = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
    table.flags.writeable = False
    return table


KEY_SEED = np.uint64(0x6A09E667F3BCC909)
_KEY_PRIME = np.uint64(0x9FB21C651E98DF25)
_29 = np.uint64(29)


@inlined
def absorb(key: np.uint64, code: np.uint64) -> np.uint64:
    """Add a token to a content key; begin with KEY_SEED and `mix` at the end."""
    key = (key ^ code) * _KEY_PRIME
    return key ^ (key >> _29)


def content_keys(tokens: Ints, start: Ints, vocabulary: tuple[str, ...]) -> npt.NDArray[np.uint64]:
    """The content keys of examples whose tokens are cut at `start`."""
    return _keys(tokens, start, codes(vocabulary))


@compiled
def _keys(tokens: Ints, start: Ints, table: Ints) -> npt.NDArray[np.uint64]:
    keys = np.empty(len(start) - 1, np.uint64)
    for row in range(len(start) - 1):
        key = KEY_SEED
        for position in range(start[row], start[row + 1]):
            key = absorb(key, table[tokens[position]])
        keys[row] = mix(key)
    return keys


def narrowest(words: int) -> np.dtype[Any]:
    """The narrowest number type for tokens of a vocabulary of this size."""
    return np.min_scalar_type(max(words - 1, 0))


def _tokens_in(corpus: Corpus, vocabulary: tuple[str, ...]) -> npt.NDArray[Any]:
    """The tokens of a corpus as positions in a larger vocabulary, in a type at least as wide as before."""
    kind = np.promote_types(corpus.tokens.dtype, narrowest(len(vocabulary)))
    return renumber(corpus.tokens, corpus.vocabulary, vocabulary, kind)
