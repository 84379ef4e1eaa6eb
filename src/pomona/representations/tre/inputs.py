"""What people have, as arrays: tensors of any device, data frames, sparse matrices, messages, hidden states.

    array_of(tensor)                              a NumPy array; the gradient and the device are left behind
    Messages.of(["aab", "ab"]).one_hot            [items, positions, symbols]; a symbol of its own fills short messages
    pooled(hidden, "mean", mask)                  [items, tokens, width] -> [items, width]

Some arrays can mean two things: whole numbers may be the names of symbols, and [items, tokens, width] may be padded.
TRE of the wrong meaning is a number like any other, so `one_meaning` refuses them and prints the lines for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError

POOLS = ("mean", "last", "first")
DENSE_NUMBERS = 1_000_000_000  # the largest array that is built from a sparse matrix or from messages


def array_of(source: Any, what: str = "representations") -> npt.NDArray[Any]:
    """A NumPy array of numbers from a tensor, a data frame, a sparse matrix, or lists of any of these."""
    _refuse_what_is_no_array(source, what)
    if hasattr(source, "detach"):
        return _from_torch(source, what)
    if hasattr(source, "toarray"):
        return _from_sparse(source, what)
    if hasattr(source, "to_numpy"):
        return _from_frame(source, what)
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise MeasureError(f"the {what} have masked numbers. Fill them in or drop these rows first.")
    plain = isinstance(source, np.ndarray | memoryview) or hasattr(source, "__array__")
    if not plain and isinstance(source, Iterable):
        source = [_part(part, what) for part in source]
    try:
        array = np.asarray(source)
    except (ValueError, TypeError, RuntimeError):
        raise MeasureError(f"the {what} are ragged: every row must have the same shape.") from None
    return _numbers(array, what)


def _part(part: Any, what: str) -> Any:
    """One row: numbers and plain sequences as they are, tensors and the like as arrays."""
    if isinstance(part, (int, float, str, np.ndarray)) or part is None:
        return part
    if hasattr(part, "detach") or hasattr(part, "toarray") or hasattr(part, "to_numpy"):
        return array_of(part, what)
    if isinstance(part, list | tuple) and any(hasattr(number, "detach") for number in part):
        return [array_of(number, what) if hasattr(number, "detach") else number for number in part]
    return part


def _refuse_what_is_no_array(source: Any, what: str) -> None:
    if source is None:
        raise MeasureError(f"no {what}: give one row of numbers for each derivation.")
    if isinstance(source, str | bytes):
        raise MeasureError(f"{what} are arrays, got the text {source!r}. If it is a file: numpy.load({source!r}).")
    if hasattr(source, "hidden_states") or hasattr(source, "last_hidden_state"):
        raise MeasureError(
            "this is the whole output of a model. Choose what to measure:\n"
            '    pm.tre(output.last_hidden_state, derivations, pool="mean", mask=attention_mask)\n'
            '    pm.representations.tre_layers(output.hidden_states, derivations, pool="mean", mask=attention_mask)'
        )
    if isinstance(source, Mapping) and not hasattr(source, "toarray"):  # SciPy's dok_matrix is a dict
        raise MeasureError(
            f"{what} are one array, got a mapping with {len(source)} entries. Choose one of them, or measure all with\n"
            f"    pm.representations.tre_layers(layers, derivations)"
        )
    if isinstance(source, set | frozenset):
        raise MeasureError(f"the {what} are a set, which has no order, so no row belongs to a derivation. Give a list.")
    if isinstance(source, (int, float, complex, bool)):
        raise MeasureError(f"{what} must have shape [items, numbers]; got the single number {source}.")


def _from_torch(tensor: Any, what: str) -> npt.NDArray[Any]:
    """A tensor without its gradient, on the CPU; types that NumPy lacks (bfloat16, float8) become float32."""
    if tensor.is_meta:
        raise MeasureError(f"the {what} are on the device 'meta', where tensors have no numbers.")
    if tensor.is_nested:
        raise MeasureError(
            f"the {what} are a nested tensor: every row has its own number of tokens. Say what one vector is made of:\n"
            '    pm.tre(hidden, derivations, pool="mean")      # or "last", "first"'
        )
    tensor = tensor.detach()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_floating_point() and str(tensor.dtype) not in ("torch.float32", "torch.float64"):
        tensor = tensor.float()
    return _numbers(np.asarray(tensor.cpu().resolve_conj().resolve_neg().numpy()), what)


def _from_sparse(matrix: Any, what: str) -> npt.NDArray[Any]:
    if np.prod(matrix.shape, dtype=np.float64) > DENSE_NUMBERS:
        raise MeasureError(
            f"the {what} are a sparse matrix of {' x '.join(map(str, matrix.shape))}, too large to hold in full. "
            f"Reduce its width first, for example with sklearn.decomposition.TruncatedSVD."
        )
    return _numbers(np.asarray(matrix.toarray()), what)


def _from_frame(frame: Any, what: str) -> npt.NDArray[Any]:
    """A data frame of numeric columns, or a column whose cells are vectors."""
    array = frame.to_numpy()
    if array.dtype != object:
        return _numbers(array, what)
    if array.ndim == 1:
        return array_of(list(array), what)
    for name in frame.columns:
        if np.asarray(frame[name]).dtype.kind not in "fiub":
            try:
                np.asarray(frame[name], np.float64)
            except (TypeError, ValueError):
                raise MeasureError(
                    f"column {name!r} of the {what} does not hold numbers. Leave it out:\n"
                    f"    vectors = frame.drop(columns=[{name!r}])"
                ) from None
    return np.stack([np.asarray(frame[name], np.float64) for name in frame.columns], axis=1)


def _numbers(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if array.dtype == object:
        _refuse_objects(array, what)
    if array.dtype.kind not in "fiub":
        raise MeasureError(f"{what} must be numbers, got an array of {array.dtype}.")
    return array


def _refuse_objects(array: npt.NDArray[Any], what: str) -> None:
    for row, value in enumerate(array.tolist()):
        cells = value if isinstance(value, list) else [value]
        for cell in cells:
            if cell is None:
                raise MeasureError(f"row {row}: the {what} hold None. Drop the row or fill it in.")
    raise MeasureError(f"{what} must be numbers in rows of equal length, got an array of Python objects.")


def index_of(source: Any) -> list[Any] | None:
    """The labels of the rows of a data frame or a column of one; None for anything else."""
    if not hasattr(source, "to_numpy") or not hasattr(source, "index"):
        return None
    return list(source.index)


# -- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages as one-hot arrays. The alphabet is sorted; None in it stands for "the message has ended"."""

    one_hot: npt.NDArray[np.float64] = field(repr=False)  # [items, positions, symbols]
    alphabet: tuple[Hashable, ...]

    @staticmethod
    def of(source: Any) -> Messages:
        """From strings ("aab", or "red big" split at spaces), lists of symbols, or a table of whole numbers."""
        rows = _symbols(source)
        used = {symbol for row in rows for symbol in row}
        positions = max(map(len, rows), default=0)
        if not positions:
            raise MeasureError("messages: all messages are empty, so there is nothing to measure.")
        alphabet: list[Hashable] = sorted(used, key=lambda symbol: (type(symbol).__name__, symbol))
        if any(len(row) < positions for row in rows):
            alphabet.append(None)
        if len(rows) * positions * len(alphabet) > DENSE_NUMBERS:
            raise MeasureError(
                f"messages: {len(rows)} messages of up to {positions} symbols out of {len(alphabet)} are too large "
                f"as one-hot vectors. Take fewer messages, or give vectors of your own."
            )
        number = {symbol: position for position, symbol in enumerate(alphabet)}
        codes = np.array(
            [[number[symbol] for symbol in row] + [len(alphabet) - 1] * (positions - len(row)) for row in rows]
        )
        return Messages(np.eye(len(alphabet))[codes], tuple(alphabet))


def _symbols(source: Any) -> list[tuple[Any, ...]]:
    """Each message as a tuple of symbols."""
    if hasattr(source, "to_numpy"):  # a data frame is a table, which Python would walk by column
        source = source.to_numpy()
    if isinstance(source, str | bytes | Mapping) or not (isinstance(source, Iterable) or hasattr(source, "detach")):
        raise MeasureError(f"messages are a list of strings or of lists of symbols; got {type(source).__name__}.")
    if hasattr(source, "detach") or (isinstance(source, np.ndarray) and source.dtype.kind in "fiub"):
        rows: list[Any] = _table(array_of(source, "messages")).tolist()
    else:
        rows = [array_of(row, "messages").tolist() if hasattr(row, "detach") else row for row in source]
    if not rows:
        raise MeasureError("messages: there are none.")
    spaced = any(isinstance(row, str) and len(row.split()) > 1 for row in rows)
    return [_message(row, number, spaced) for number, row in enumerate(rows)]


def _table(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A table of symbols: whole numbers, [items, positions]."""
    if array.ndim > 2:
        raise MeasureError(
            f"messages hold one symbol for each position, [items, positions]; got {list(array.shape)}. One-hot "
            f"messages are vectors already:",
            code=["pm.tre(one_hot, derivations)"],
        )
    if array.dtype.kind == "f":
        if not np.array_equal(array, np.round(array)):
            raise MeasureError(
                "messages are symbols, got fractions. Vectors are the first argument: pm.tre(vectors, ...)"
            )
        array = array.astype(np.int64)
    return array


def _message(row: Any, number: int, spaced: bool) -> tuple[Any, ...]:
    if isinstance(row, str):
        return tuple(row.split()) if spaced else tuple(row)
    if hasattr(row, "tolist"):
        row = row.tolist()
    symbols = tuple(row) if isinstance(row, Sequence) and not isinstance(row, bytes) else (row,)
    for symbol in symbols:
        if symbol is None or symbol != symbol or not isinstance(symbol, Hashable) or isinstance(symbol, tuple):
            raise MeasureError(
                f"messages, row {number}: {symbol!r} is not a symbol. Symbols are letters, words or numbers."
            )
    return symbols


def are_texts(source: Any) -> bool:
    """Whether these are strings, which can only be messages."""
    if isinstance(source, np.ndarray) or hasattr(source, "to_numpy"):
        values = np.asarray(source)
        return values.ndim == 1 and len(values) > 0 and all(isinstance(value, str) for value in values.tolist())
    return isinstance(source, list | tuple) and len(source) > 0 and all(isinstance(value, str) for value in source)


# -- hidden states and arrays that can mean two things ---------------------------------------------------------------


def pooled(hidden: Any, pool: str, mask: Any = None) -> npt.NDArray[Any]:
    """One vector for each item from its tokens: their mean, the last or the first, without the padding.

    `hidden` is [items, tokens, width] with a mask (1 for a token, 0 for padding), or a list of [tokens, width].
    """
    if pool not in POOLS:
        raise SpecError(f"pool is {', '.join(map(repr, POOLS))}; got {pool!r}.")
    if getattr(hidden, "is_nested", False):
        hidden = list(hidden.unbind())
    if isinstance(hidden, list | tuple) and mask is None:
        states = [array_of(state, "hidden states") for state in hidden]
        for row, state in enumerate(states):
            if state.ndim != 2 or not len(state) or state.shape[1] != states[0].shape[-1]:
                raise MeasureError(
                    f"row {row}: hidden states without a mask are a list of [tokens, width]; got {list(state.shape)}."
                )
        return np.stack([_pool_tokens(state, pool) for state in states])
    states_array = array_of(hidden, "hidden states")
    if states_array.ndim != 3:
        raise MeasureError(
            f"pool={pool!r} is for hidden states [items, tokens, width]; these have shape {list(states_array.shape)}. "
            f"Vectors that are one for each item need no pool."
        )
    kept = _token_mask(mask, states_array.shape[:2])
    return np.stack([_pool_tokens(state[chosen], pool) for state, chosen in zip(states_array, kept, strict=True)])


def _pool_tokens(tokens: npt.NDArray[Any], pool: str) -> npt.NDArray[Any]:
    if pool == "mean":
        return np.asarray(tokens.mean(axis=0, dtype=np.float64))
    return np.asarray(tokens[-1 if pool == "last" else 0])


def _token_mask(mask: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    if mask is None:
        raise MeasureError(
            "hidden states in one array are padded to one length, so a mask must say which tokens are real:\n"
            '    pm.tre(hidden, derivations, pool="mean", mask=batch["attention_mask"])\n'
            '    pm.tre(hidden, derivations, pool="mean", mask="all")      # if no item is padded'
        )
    if isinstance(mask, str):
        if mask != "all":
            raise SpecError(f"mask is an array of 0 and 1, or 'all' if there is no padding; got {mask!r}.")
        return np.ones(shape, np.bool_)
    kept = array_of(mask, "masks")
    if kept.shape != shape:
        raise MeasureError(
            f"the mask has shape {list(kept.shape)}; the hidden states need {list(shape)}, one for each token."
        )
    if not np.isin(kept, (0, 1)).all():
        raise MeasureError("a mask holds 1 for a token and 0 for padding; this one has other numbers.")
    empty = ~kept.astype(np.bool_).any(axis=1)
    if empty.any():
        raise MeasureError(f"row {int(np.argmax(empty))}: the mask leaves no token ({int(empty.sum())} such rows).")
    return kept.astype(np.bool_)


def one_meaning(array: npt.NDArray[Any], *, messages: bool) -> None:
    """Refuse arrays that may be symbols or padded hidden states.

    `messages`: the composition or the distance is for items of [positions, symbols], so the user has decided.
    """
    if array.ndim >= 3 and not messages and not _distributions(array):
        shape = list(array.shape)
        raise MeasureError(
            f"representations of shape {shape} may be hidden states of padded tokens. Say what they are:",
            code=[
                'pm.tre(hidden, derivations, pool="mean", mask=attention_mask)      # one vector from the tokens',
                f"pm.tre(vectors.reshape({shape[0]}, -1), derivations)      # every number counts, nothing is padding",
            ],
        )
    if array.dtype.kind in "iu" and array.ndim == 2:
        raise MeasureError(
            f"representations of whole numbers ({array.dtype}) may be symbols, whose size means nothing. Say what they "
            f"are:",
            code=[
                "pm.tre(messages=symbols, derivations=derivations)      # symbols: one-hot vectors are made",
                "pm.tre(numpy.asarray(vectors, float), derivations)      # measurements or counts",
            ],
        )


def _distributions(array: npt.NDArray[Any]) -> bool:
    """Whether every position holds a distribution over symbols, or nothing."""
    if float(array.min()) < 0.0:
        return False
    total = array.sum(axis=-1, dtype=np.float64)
    return bool((np.minimum(np.abs(total), np.abs(total - 1.0)) <= 1e-6).all())
