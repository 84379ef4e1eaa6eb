"""Edge inputs of TRE: each gives the right score, or an error of ours that says what to do; never a bare one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import pomona as pm
from pomona.base.errors import PomonaError
from pomona.representations.tre import Derivations, ReconstructionWarning, TreFit, tre, tre_layers
from pomona.trees import read

TREES = [(shape, colour) for shape in ("disc", "cube", "cone") for colour in ("red", "blue", "grey", "pink")]
TEXTS = [f"{shape} {colour}" for shape, colour in TREES]
ROWS = (
    0.3 * np.random.default_rng(0).normal(size=(12, 4))
    + np.tile(np.eye(4), (3, 1))
    + np.repeat(np.eye(3, 4), 4, axis=0)
)
SCORE = tre(ROWS, TREES).score
HIDDEN = np.random.default_rng(1).normal(size=(12, 3, 4))
MASK = np.array([[1, 1, 0], [1, 1, 1]] * 6)
MEANS = np.array([state[kept > 0].mean(axis=0) for state, kept in zip(HIDDEN, MASK, strict=True)])
LETTERS = [first + second for first in "xyz" for second in "abcd"]
SYMBOLS = np.array([["xyz".index(first), "abcd".index(second)] for first, second in LETTERS])
CODES = SYMBOLS + np.array([0, 3])  # a symbol means the same at every position


class Frame:
    """As much of a data frame as TRE uses: columns by name, and all of them as one array."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.cells = {name: np.asarray(column, None) for name, column in columns.items()}

    @property
    def columns(self) -> list[str]:
        return list(self.cells)

    def __getitem__(self, name: str) -> Any:
        return self.cells[name]

    def to_dict(self) -> dict[str, Any]:
        return self.cells

    def to_numpy(self) -> Any:
        texts = any(column.dtype.kind in "UO" for column in self.cells.values())
        return np.stack([column.astype(object) if texts else column for column in self.cells.values()], axis=1)


class Labelled(Frame):
    """A data frame with labels of its rows."""

    def __init__(self, columns: dict[str, Any], index: Any) -> None:
        super().__init__(columns)
        self.index = list(index)


class Missing:
    """A missing number, as pandas has it."""

    def __float__(self) -> float:
        raise TypeError("float() argument must be a string or a real number, not 'NAType'")


class Series:
    """A column whose cells are vectors, as in a data frame that was read from Parquet."""

    def to_numpy(self) -> Any:
        cells = np.empty(len(ROWS), object)
        cells[:] = list(ROWS)
        return cells


@dataclasses.dataclass
class ModelOutput:
    """What a Hugging Face model returns."""

    last_hidden_state: Any
    hidden_states: Any


def with_value(value: float, row: int = 5) -> Any:
    rows = ROWS.copy()
    rows[row, 1] = value
    return rows


def deep(depth: int) -> Any:
    tree: Any = "a"
    for _ in range(depth):
        tree = (tree, "b")
    return tree


FRAME = Frame({f"x{column}": ROWS[:, column] for column in range(4)})
ATTRIBUTES = {"shape": [tree[0] for tree in TREES], "colour": [tree[1] for tree in TREES]}

RIGHT: dict[str, Callable[[], TreFit]] = {
    "a tensor": lambda: tre(torch.tensor(ROWS), TREES),
    "a tensor with gradient": lambda: tre(torch.tensor(ROWS, requires_grad=True), TREES),
    "a tensor inside a graph": lambda: tre(torch.tensor(ROWS, requires_grad=True) * 1.0, TREES),
    "a float32 tensor": lambda: tre(torch.tensor(ROWS).float(), TREES),
    "a float16 tensor": lambda: tre(torch.tensor(ROWS).half(), TREES),
    "a bfloat16 tensor": lambda: tre(torch.tensor(ROWS).bfloat16(), TREES),
    "a bfloat16 tensor with gradient": lambda: tre(torch.tensor(ROWS).bfloat16().requires_grad_(), TREES),
    "a parameter": lambda: tre(torch.nn.Parameter(torch.tensor(ROWS)), TREES),
    "a sparse tensor": lambda: tre(torch.tensor(ROWS).to_sparse(), TREES),
    "a transposed tensor": lambda: tre(torch.tensor(ROWS.T.copy()).T, TREES),
    "a negative view": lambda: tre(torch._neg_view(torch.tensor(-ROWS)), TREES),
    "a list of tensors": lambda: tre([torch.tensor(row) for row in ROWS], TREES),
    "a list of tensors with gradient": lambda: tre([torch.tensor(row, requires_grad=True) for row in ROWS], TREES),
    "a list of arrays": lambda: tre(list(ROWS), TREES),
    "a tuple of arrays": lambda: tre(tuple(ROWS), TREES),
    "lists of floats": lambda: tre(ROWS.tolist(), TREES),
    "a view of memory": lambda: tre(memoryview(ROWS), TREES),
    "a generator of rows": lambda: tre((row for row in ROWS), TREES),
    "lists of zero-dimensional tensors": lambda: tre([[torch.tensor(x) for x in row] for row in ROWS], TREES),
    "float16": lambda: tre(ROWS.astype(np.float16), TREES),
    "long double": lambda: tre(ROWS.astype(np.longdouble), TREES),
    "big-endian": lambda: tre(ROWS.astype(">f8"), TREES),
    "read-only": lambda: tre(np.broadcast_to(ROWS, ROWS.shape), TREES),
    "column-major": lambda: tre(np.asfortranarray(ROWS), TREES),
    "a data frame": lambda: tre(FRAME, TREES),
    "a data frame of objects": lambda: tre(Frame({"x": ROWS[:, 0].astype(object)} | FRAME.cells), TREES, "add", "l2"),
    "a column of vectors": lambda: tre(Series(), TREES),
    "a SciPy matrix": lambda: tre(scipy.sparse.csr_matrix(ROWS), TREES),
    "a SciPy matrix that is a dict": lambda: tre(scipy.sparse.dok_matrix(ROWS), TREES),
    "a SciPy array": lambda: tre(scipy.sparse.coo_array(ROWS), TREES),
    "a masked array without masked numbers": lambda: tre(np.ma.masked_array(ROWS), TREES),
    "rows of size 1e200": lambda: tre(ROWS * 1e200, TREES),
    "rows of size 1e-200": lambda: tre(ROWS * 1e-200, TREES),
    "float32 rows of size 1e30": lambda: tre((ROWS * 1e30).astype(np.float32), TREES),
    "derivations as texts": lambda: tre(ROWS, TEXTS),
    "derivations as an array of texts": lambda: tre(ROWS, np.array(TEXTS)),
    "derivations in round brackets": lambda: tre(ROWS, [f"({text})" for text in TEXTS]),
    "derivations as lists": lambda: tre(ROWS, [list(tree) for tree in TREES]),
    "derivations from a generator": lambda: tre(ROWS, (tree for tree in TREES)),
    "a Forest": lambda: tre(ROWS, read([f"({text})" for text in TEXTS])),
    "attributes by name": lambda: tre(ROWS, ATTRIBUTES),
    "attributes of a data frame": lambda: tre(ROWS, Frame(ATTRIBUTES)),
    "attributes as an array": lambda: tre(ROWS, np.array(TREES)),
    "attributes as whole numbers": lambda: tre(ROWS, SYMBOLS),
    "attributes as a sparse matrix": lambda: tre(ROWS, scipy.sparse.csr_matrix(SYMBOLS)),
    "attributes as a tensor": lambda: tre(ROWS, torch.tensor(SYMBOLS)),
    "hidden states, mean": lambda: tre(HIDDEN, TREES, pool="mean", mask=MASK),
    "hidden states, last": lambda: tre(HIDDEN, TREES, pool="last", mask=MASK),
    "hidden states, first, padded on the left": lambda: tre(HIDDEN[:, ::-1], TREES, pool="first", mask=MASK[:, ::-1]),
    "hidden states and a mask as tensors": lambda: tre(
        torch.tensor(HIDDEN, requires_grad=True), TREES, pool="mean", mask=torch.tensor(MASK)
    ),
    "hidden states and a mask of booleans": lambda: tre(HIDDEN, TREES, pool="mean", mask=MASK > 0),
    "hidden states without padding": lambda: tre(HIDDEN, TREES, pool="first", mask="all"),
    "hidden states as a list": lambda: tre(
        [state[kept > 0] for state, kept in zip(HIDDEN, MASK, strict=True)], TREES, pool="mean"
    ),
    "strings": lambda: tre(LETTERS, TREES),
    "messages as strings": lambda: tre(messages=LETTERS, derivations=TREES),
    "messages as words": lambda: tre(messages=[" ".join(text) for text in LETTERS], derivations=TREES),
    "messages as whole numbers": lambda: tre(messages=CODES, derivations=TREES),
    "messages as a data frame": lambda: tre(
        messages=Frame({"first": CODES[:, 0], "second": CODES[:, 1]}), derivations=TREES
    ),
    "messages as a data frame of letters": lambda: tre(
        messages=Frame({"first": [text[0] for text in LETTERS], "second": [text[1] for text in LETTERS]}),
        derivations=TREES,
    ),
    "messages as a tensor": lambda: tre(messages=torch.tensor(CODES), derivations=TREES),
    "messages as whole floats": lambda: tre(messages=CODES.astype(float), derivations=TREES),
    "messages as lists": lambda: tre(messages=[list(text) for text in LETTERS], derivations=TREES),
    "one-hot messages": lambda: tre(np.eye(7)[CODES], TREES),
    "labelled rows": lambda: tre(Labelled(FRAME.cells, range(12)), Labelled(ATTRIBUTES, range(12))),
    "layers as a tuple": lambda: tre_layers((ROWS, -ROWS), TREES)["layer 1"],
    "layers as a list of sparse matrices": lambda: tre_layers([scipy.sparse.csr_matrix(ROWS)] * 2, TREES)["layer 0"],
    "layers as one array": lambda: tre_layers(np.stack([ROWS, ROWS]), TREES)["layer 1"],
    "layers of two seeds as tuples": lambda: tre_layers({"a": (ROWS,), "b": (ROWS,)}, TREES).seeds["b"]["layer 0"],
    "hidden states, mean, of a model's output": lambda: tre_layers(
        ModelOutput(HIDDEN, (HIDDEN, HIDDEN)), TREES, pool="mean", mask=MASK
    )["layer 1"],
    "hidden states as a nested tensor": lambda: tre(
        torch.nested.nested_tensor([torch.tensor(HIDDEN[n, : MASK[n].sum()]) for n in range(12)]), TREES, pool="mean"
    ),
    "one-hot messages of whole numbers": lambda: tre(np.eye(7, dtype=int)[CODES], TREES),
}  # fmt: skip


def wanted(name: str) -> float:
    if "hidden" in name:
        means = tre(MEANS, TREES).score
        last = tre(np.array([state[kept.sum() - 1] for state, kept in zip(HIDDEN, MASK, strict=True)]), TREES).score
        first = tre(HIDDEN[:, 0], TREES).score
        return last if "last" in name or "left" in name else first if "without" in name else means
    if "objects" in name:
        return tre(np.column_stack([ROWS[:, 0], ROWS]), TREES, "add", "l2").score
    return 0.0 if "messages" in name or name == "strings" else SCORE


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", RIGHT)
def test_what_people_have_is_taken_as_it_is(name: str) -> None:
    coarse = 2e-2 if "float16" in name else 1e-6
    assert RIGHT[name]().score == pytest.approx(wanted(name), rel=coarse, abs=1e-9)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no vectors": (lambda: tre(None, TREES), "no representations: give one row"),
    "no derivations": (lambda: tre(ROWS), "no derivations: pm.tre"),
    "vectors and messages": (lambda: tre(ROWS, TREES, messages=LETTERS), "not both"),
    "a path": (lambda: tre("reps.npy", TREES), r"numpy.load\('reps.npy'\)"),
    "one number": (lambda: tre(3.5, TREES), "the single number 3.5"),
    "one row": (lambda: tre(ROWS[0], TREES), r"\[items, numbers\]"),
    "no rows": (lambda: tre(np.empty((0, 4)), []), "no derivations"),
    "rows without numbers": (lambda: tre(np.empty((12, 0)), TREES), "with at least one item"),
    "a row too few": (lambda: tre(ROWS[1:], TREES), "row 11 has a derivation but no representation"),
    "a derivation too few": (lambda: tre(ROWS, TREES[1:]), "row 11 has a representation but no derivation"),
    "NaN": (lambda: tre(with_value(np.nan), TREES), "row 5: the representation holds nan"),
    "infinity": (lambda: tre(torch.tensor(with_value(np.inf)), TREES), "row 5: the representation holds inf"),
    "infinity from float16": (lambda: tre((ROWS * 1e6).astype(np.float16), TREES), "holds -?inf"),
    "None": (lambda: tre([[*row[:3], None] for row in ROWS.tolist()], TREES), "row 0: the representations hold None"),
    "ragged rows": (lambda: tre([[1.0], [1.0, 2.0]] * 6, TREES), "every row must have the same shape"),
    "ragged tensors": (lambda: tre([torch.ones(2), torch.ones(3)] * 6, TREES), "every row must have the same shape"),
    "complex numbers": (lambda: tre(ROWS * 1j, TREES), "must be numbers, got an array of complex128"),
    "dates": (lambda: tre(ROWS.astype("datetime64[s]"), TREES), "got an array of datetime64"),
    "a meta tensor": (lambda: tre(torch.empty(12, 4, device="meta"), TREES), "have no numbers"),
    "masked numbers": (lambda: tre(np.ma.masked_less(ROWS, 0.5), TREES), "have masked numbers"),
    "a column of names": (
        lambda: tre(Frame({"name": [tree[0] for tree in TREES]} | FRAME.cells), TREES),
        r"drop\(columns=\['name'\]\)",
    ),
    "a missing number in a data frame": (
        lambda: tre(Frame(FRAME.cells | {"x1": np.array([*ROWS[:11, 1], Missing()], object)}), TREES),
        "column 'x1' of the representations does not hold numbers",
    ),
    "labels in another order": (
        lambda: tre(Labelled(FRAME.cells, range(12)), Labelled(ATTRIBUTES, range(11, -1, -1))), r"derivations.loc\[",
    ),
    "vectors in a set": (lambda: tre({tuple(row) for row in ROWS.tolist()}, TREES), "a set, which has no order"),
    "derivations in a set": (lambda: tre(ROWS, set(TREES)), "one for each row; got set"),
    "a nested tensor": (lambda: tre(torch.nested.nested_tensor([torch.ones(2, 4)] * 12), TREES), "nested tensor"),
    "one layer as layers": (lambda: tre_layers(ROWS, TREES), "For one layer: pm.tre"),
    "no layers": (lambda: tre_layers((), TREES), "got tuple"),
    "layers that were not asked for": (
        lambda: tre_layers(ModelOutput(HIDDEN, None), TREES, pool="mean", mask=MASK), "output_hidden_states=True",
    ),
    "a huge sparse matrix": (lambda: tre(scipy.sparse.coo_array((12, 10**9)), TREES), "Reduce its width first"),
    "a mapping": (lambda: tre({"layer 1": ROWS}, TREES), r"tre_layers\(layers, derivations\)"),
    "a model's output": (lambda: tre(ModelOutput(HIDDEN, (HIDDEN,)), TREES), "output.last_hidden_state"),
    "a tuple of layers": (lambda: tre((ROWS, ROWS), TREES), "these are 2 layers"),
    "a tuple of layers of tokens": (lambda: tre((HIDDEN, HIDDEN), TREES), "these are 2 layers"),
    "token ids": (lambda: tre(SYMBOLS, TREES), r"pm.tre\(messages=symbols"),
    "token ids as lists": (lambda: tre(SYMBOLS.tolist(), TREES), r"pm.tre\(messages=symbols"),
    "token ids as a tensor": (lambda: tre(torch.tensor(SYMBOLS), TREES), r"pm.tre\(messages=symbols"),
    "hidden states": (lambda: tre(HIDDEN, TREES), 'pool="mean", mask=attention_mask'),
    "hidden states of four axes": (lambda: tre(HIDDEN[:, None], TREES), 'pool="mean", mask=attention_mask'),
    "hidden states without a mask": (lambda: tre(HIDDEN, TREES, pool="mean"), "a mask must say which tokens are real"),
    "hidden states of different lengths": (
        lambda: tre([state[: 1 + row % 2] for row, state in enumerate(HIDDEN)], TREES),
        "every row has its own number of tokens",
    ),
    "a mask without pool": (lambda: tre(HIDDEN, TREES, mask=MASK), "a mask needs pool"),
    "a mask of another shape": (lambda: tre(HIDDEN, TREES, pool="mean", mask=MASK[:, :2]), r"need \[12, 3\]"),
    "a mask of scores": (lambda: tre(HIDDEN, TREES, pool="mean", mask=MASK - 1e9), "1 for a token and 0 for padding"),
    "a mask of nothing": (lambda: tre(HIDDEN, TREES, pool="last", mask=MASK * 0), "row 0: the mask leaves no token"),
    "a wrong word for the mask": (lambda: tre(HIDDEN, TREES, pool="mean", mask="none"), "or 'all'"),
    "a wrong pool": (lambda: tre(HIDDEN, TREES, pool="max", mask=MASK), "'mean', 'last', 'first'; got 'max'"),
    "pooled vectors": (lambda: tre(ROWS, TREES, pool="mean", mask=MASK), "need no pool"),
    "messages of fractions": (lambda: tre(messages=ROWS, derivations=TREES), "got fractions"),
    "messages that are one-hot": (lambda: tre(messages=np.eye(7)[SYMBOLS], derivations=TREES), "are vectors already"),
    "empty messages": (lambda: tre(messages=[""] * 12, derivations=TREES), "all messages are empty"),
    "no messages": (lambda: tre(messages=[], derivations=TREES), "there are none"),
    "one message": (lambda: tre(messages="aab", derivations=TREES), "messages are a list"),
    "messages of lists": (lambda: tre(messages=[[[1], [2]]] * 12, derivations=TREES), r"\[1\] is not a symbol"),
    "a message with None": (lambda: tre(messages=[["a", None]] * 12, derivations=TREES), "None is not a symbol"),
    "a message too few": (lambda: tre(messages=LETTERS[1:], derivations=TREES), "11 representations but 12"),
    "arguments in the wrong order": (lambda: tre(TREES, ROWS), "The vectors come first"),
    "vectors twice": (lambda: tre(ROWS, scipy.sparse.csr_matrix(ROWS)), "The vectors come first"),
    "arguments in the wrong order, lists": (lambda: tre(TREES, ROWS.tolist()), "The vectors come first"),
    "one text as derivations": (lambda: tre(ROWS, "disc red"), "one for each row; got str"),
    "an empty text": (lambda: tre(ROWS, ["", *TEXTS[1:]]), "row 0: an empty text"),
    "a bracket that is not closed": (lambda: tre(ROWS, [*TEXTS[1:], "(disc red"]), r"row 11: '\(disc red' is not a"),
    "a bracket too many": (lambda: tre(ROWS, [*TEXTS[1:], "disc red)"]), "row 11: .* is not a derivation"),
    "derivations of single parts": (lambda: tre(ROWS, list("abcdefghijkl")), "is never composed with another"),
    "an empty bracket": (lambda: tre(ROWS, [(), *TREES[1:]]), "row 0: an empty composition"),
    "a missing part": (lambda: tre(ROWS, [("disc", None), *TREES[1:]]), "row 0: None is not a primitive"),
    "a part that is a set": (lambda: tre(ROWS, [("disc", {"red"}), *TREES[1:]]), "row 0: a primitive must be"),
    "a zero row under cosine": (lambda: tre(np.vstack([ROWS[:11], np.zeros(4)]), TREES), "row 11: .* no direction"),
    "rows of size 1e200 under l2": (lambda: tre(ROWS * 1e200, TREES, distance="l2"), r"vectors / abs\(vectors\).max"),
    "rows of size 1e-200 under l1": (lambda: tre(ROWS * 1e-200, TREES, distance="l1"), "too small"),
    "crossentropy of vectors": (lambda: tre(ROWS, TREES, distance="crossentropy"), "needs messages of shape"),
    "position of vectors": (lambda: tre(ROWS, TREES, compose="position"), "compose='position' needs messages"),
    "a wide bilinear fit": (lambda: tre(np.ones((12, 300)), TREES, compose="bilinear"), "too wide"),
    "an unknown composition": (lambda: tre(ROWS, TREES, compose="adds"), "Did you mean 'add'"),
    "an unknown distance": (lambda: tre(ROWS, TREES, distance="cos"), "no distance is called 'cos'"),
    "a composition that is a number": (lambda: tre(ROWS, TREES, compose=3), "compose is a name"),
    "a NumPy composition": (lambda: tre(ROWS, TREES, compose=np.maximum), "must use torch|Write it with torch"),
    "a NumPy function as composition": (
        lambda: tre(ROWS, TREES, compose=lambda x, y: np.exp(np.asarray(x)) + np.asarray(y)), "Write it with torch",
    ),
    "a composition of one part": (lambda: tre(ROWS, TREES, compose=torch.nn.Linear(4, 4)), "failed on tensors of"),
    "a module of another width": (
        lambda: tre(ROWS, TREES, compose=torch.nn.Bilinear(3, 3, 3)), r"failed on tensors of shape \(\d+, 4\)",
    ),
    "a module that is not made": (lambda: tre(ROWS, TREES, compose=torch.nn.Linear), r"compose=Linear\(...\)"),
    "a composition without gradient": (
        lambda: tre(ROWS, TREES, compose=lambda x, y: (x * y).detach(), restarts=1), "has no gradient",
    ),
    "a composition that is undefined below zero": (
        lambda: tre(ROWS, TREES, compose=lambda x, y: x.log() + (-x).log() + y, distance="sql2", restarts=2),
        r"no start came to a finite score.*x.clamp",
    ),
    "an unknown option": (lambda: tre(ROWS, TREES, dist="l1"), "no option 'dist'. Did you mean 'distance'"),
    "an unknown option for layers": (lambda: tre_layers([ROWS], TREES, messages=LETTERS), "no option 'messages'"),
    "a layer with a row too few": (lambda: tre_layers((ROWS, ROWS[1:]), TREES), r"shapes \[12, 4\], \[11, 4\]"),
    "a composition that returns a number": (lambda: tre(ROWS, TREES, compose=lambda x, y: 1.0), "got float"),
    "a NumPy distance": (
        lambda: tre(ROWS, TREES, distance=lambda x, y: np.abs(np.asarray(x) - np.asarray(y)).sum(1)), "got ndarray",
    ),
    "a distance of the whole": (lambda: tre(ROWS, TREES, distance=lambda x, y: (x - y).abs().sum()), "one number for"),
    "a column that is one text": (lambda: tre(ROWS, {"shape": "disc", "colour": "red"}), "one value for each row"),
    "a composition by zero": (lambda: tre(ROWS, TREES, compose=lambda x, y: x + 1 / 0), "division by zero"),
    "a seed that is a name": (lambda: tre(ROWS, TREES, "weighted", seed="first"), "seed is a whole number"),
    "a negative seed": (lambda: tre(ROWS, TREES).shuffle_test(9, seed=-1), "seed is a whole number"),
    "no starts": (lambda: tre(ROWS, TREES, restarts=0), "restarts must be 1 or more"),
    "a wrong word": (lambda: tre(ROWS, TREES, uncomposed="yes"), "uncomposed is 'error' or 'allow'"),
    "a layer that is wrong": (lambda: tre_layers({"top": with_value(np.nan)}, TREES), "layer 'top': row 5"),
    "a primitive that the fit does not know": (
        lambda: tre(ROWS, TREES).predict([("disc", "green")]), "'green' was not in the data",
    ),
    "vectors of another width": (
        lambda: tre(ROWS, TREES).distances(ROWS[:, :3], TREES), r"the fit is of items with shape \[4\]",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:overflow")  # of torch's tensors in NumPy
@pytest.mark.parametrize("name", WRONG)
def test_what_would_be_wrong_is_refused_with_what_to_do(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(PomonaError, match=words):
        call()


def notes(*arguments: Any, **options: Any) -> Iterator[str]:
    with pytest.warns(ReconstructionWarning):
        yield from tre(*arguments, **options).notes


def test_results_that_say_nothing_are_noted() -> None:
    assert "all representations are equal" in " ".join(notes(np.ones((12, 4)), TREES, distance="sql2"))
    assert "as many numbers as the representations" in " ".join(notes(ROWS[:2], [("a", "b"), ("c", "d")]))


def test_there_are_at_least_the_75_cases_of_the_study() -> None:
    assert len(RIGHT) + len(WRONG) >= 75


def test_a_perfect_score_is_never_negative() -> None:
    vectors = np.array([[1.0, 2.0, 0.3], [0.1, 0.2, 3.0], [1.1, 2.2, 3.3]])
    fit = tre(vectors, ["a", "b", ("a", "b")])
    assert fit.score >= 0.0
    assert (fit.per_item >= 0.0).all()


def test_the_alphabet_is_found_and_short_messages_end_in_a_symbol_of_their_own() -> None:
    fit = pm.tre(["b", "ab", "a", "aab"], ["x y", "x z", "w y", "w z"], distance="sql2")
    assert fit.alphabet == ("a", "b", None)
    assert fit.representations[0].tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_a_text_beside_tuples_is_the_name_of_a_part() -> None:
    fit = tre(ROWS[:3], [("New York", "bridge"), "New York", "bridge"])
    assert set(fit.lexicon) == {"New York", "bridge"}
    assert np.array_equal(fit.predict(["New York"])[0], fit.lexicon["New York"])
    assert np.array_equal(fit.predict(["bridge bridge"])[0], 2 * fit.lexicon["bridge"])


def test_brackets_are_read_as_people_write_them() -> None:
    texts = ["((dark red) cube)", "(dark red) cube", "dark red cube", "[MAX 2 [MIN 4 7 ] ]"]
    trees = Derivations.of(texts)
    nested = (("dark", "red"), "cube")
    operators = ("MAX", "2", ("MIN", "4", "7"))
    assert [trees.tree(row) for row in range(4)] == [nested, nested, ("dark", "red", "cube"), operators]


def test_deep_derivations_are_no_problem() -> None:
    assert tre(np.eye(3), [deep(5_000), deep(3_000), deep(10)], distance="sql2").score >= 0.0
    text = "(" * 3_000 + "a" + " b)" * 3_000
    assert tre(np.eye(2), [text, "(a b)"], distance="sql2").score >= 0.0
