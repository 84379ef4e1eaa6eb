"""ListOps as lines of text: compiled reading and writing of whole files; errors name line and column.

    0<TAB>( ( ( ( ( [SM 6 ) 5 ) 9 ) 0 ) ] )          the original: answer, then the binary tree in round brackets
    ( ( ( [MAX 2 ) 9 ) ] )<TAB>9                     Long Range Arena: a header line, source first

Round brackets repeat what the square ones say, so they may be left out. If present, they must be those of the
left-branching tree; a lost or moved bracket is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError
from pomona.base.letters import Place, packed, put_letters
from pomona.data.corpus import Corpus
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS
from pomona.trees.rules import counted, settle

DIGITS = tuple(str(digit) for digit in range(10))
_USUAL = ("MIN", "MAX", "MED", "SM")

_FAULTS = {
    1: "{piece!r} is not a ListOps token; there are the digits 0-9, {operators} and ']'",
    2: "']' closes a list that was never opened",
    3: "this list is empty; a list has at least one argument",
    4: "the line ends inside a list that was never closed",
    5: "a line is an answer 0-9, a tab and an expression; the answer is missing or not one digit",
    6: "{piece!r} comes after the end of the expression",
    7: "a carriage return (CR) stands inside the line; lines end in LF or CR LF",
    9: "the round brackets are not those of the left-branching tree of this list; one was lost, added or moved",
    10: "the line is empty",
    11: "the expression is missing",
}
TAB, NEWLINE, RETURN, BLANK, ROUND_OPEN, ROUND_CLOSE, SQUARE_OPEN, SQUARE_CLOSE = (ord(c) for c in "\t\n\r ()[]")
ZERO = ord("0")


def parse(data: bytes, *, source_first: bool, path: str | Path, first_line: int = 1) -> Corpus:
    """A corpus of all lines. The answer on a line is the target; the values of the nodes are computed."""
    if not data:
        raise FormatError("the file holds no rows", path=path)
    text = np.frombuffer(data, np.uint8)
    names = tuple(OPERATORS[name].name for name in OPERATORS if OPERATORS[name].number >= 0)
    spellings = np.array([int.from_bytes(name.encode(), "big") for name in names], np.uint64)
    rules = np.array([OPERATORS[name].number for name in names], np.int64)
    ends = np.flatnonzero(text == NEWLINE)
    rows = len(ends) + (len(text) > 0 and text[-1] != NEWLINE)
    longest = int(np.diff(ends, prepend=-1, append=len(text)).max())
    tokens, token_start, symbol, parent, start, values, answers, fault = _parse(
        text, rows, longest // 2 + 2, spellings, rules, source_first
    )
    if fault[0]:
        begin = data.rfind(b"\n", 0, fault[1]) + 1
        line = first_line + data.count(b"\n", 0, begin)
        piece = re.match(rb"\S+|\s?", data[fault[1] : fault[1] + 40])
        shown = piece.group().decode("utf-8", "replace") if piece else ""
        message = _FAULTS[fault[0]].format(piece=shown, operators=" ".join(f"[{name}" for name in names))
        raise FormatError(message, path=path, line=line, column=fault[1] - begin + 1)
    # Keep only the usual four operators and those in use, so that models see 15 token types.
    used = np.flatnonzero(np.bincount(symbol, minlength=1))
    kept = [row for row, name in enumerate(names) if name in _USUAL or 10 + row in used]
    if kept != list(range(len(kept))):
        table = np.zeros(11 + len(names), np.int16)
        table[:10] = np.arange(10)
        table[[10 + row for row in kept]] = 10 + np.arange(len(kept))
        table[10 + len(names)] = 10 + len(names)
        tokens, symbol = table.astype(np.uint8)[tokens], table[symbol]
    tokens = np.minimum(tokens, 10 + len(kept), out=tokens)  # `]` comes last
    operators = [names[row] for row in kept]
    forest = Forest(symbol, parent, start, (*DIGITS, *operators))
    return Corpus(
        tokens,
        token_start,
        (*DIGITS, *(f"[{name}" for name in operators), "]"),
        forest,
        values,
        tuple(range(10)),
        answers[:, None],
        origin={"path": str(path)},
        lines=first_line + np.arange(len(answers), dtype=np.int64),
    )


@compiled
def _parse(
    text: Bytes, lines: int, most: int, spellings: Ints, rules: Ints, source_first: bool
) -> tuple[
    npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.int32], npt.NDArray[np.int64],
    npt.NDArray[np.int16], npt.NDArray[np.int16], tuple[int, int],
]:  # fmt: skip
    """Tokens, trees, values and answers in one pass; the last result is number and byte of the first fault."""
    words = len(text) // 2 + 2  # a token takes at least two bytes; unused memory costs nothing
    tokens = np.empty(words, np.uint8)
    symbol = np.empty(words, np.int16)
    parent = np.empty(words, np.int32)
    values = np.empty(words, np.int16)
    token_start = np.zeros(lines + 1, np.int64)
    start = np.zeros(lines + 1, np.int64)
    answers = np.full(lines, -1, np.int16)
    operator = np.empty(most + 1, np.int64)  # of each open list: its operator,
    began = np.empty(most + 1, np.int64)  # where its arguments begin on the stack,
    rounds = np.empty(most + 1, np.int64)  # and how many round brackets precede it
    tally = np.empty(most + 1, np.uint64)
    total = np.empty(most + 1, np.int64)
    child = np.empty(most + 1, np.int64)
    value = np.empty(most + 1, np.int64)
    closing = 10 + len(rules)
    size = len(text)
    at, token, node = 0, 0, 0
    for line in range(lines):
        base = node
        level, high, opened = 0, 0, 0
        done, answered = False, False
        if text[at] == NEWLINE:
            return tokens, token_start, symbol, parent, start, values, answers, (10, at)
        if not source_first:
            if at + 1 >= size or not (ZERO <= text[at] <= ZERO + 9) or text[at + 1] != TAB:
                return tokens, token_start, symbol, parent, start, values, answers, (5, at)
            answers[line] = text[at] - ZERO
            answered = True
            at += 2
        grouped = at < size and text[at] == ROUND_OPEN
        while True:
            while at < size and text[at] == BLANK:
                at += 1
            if at >= size or text[at] == NEWLINE:
                break
            byte = text[at]
            if byte == RETURN:
                return tokens, token_start, symbol, parent, start, values, answers, (7, at)
            if done:
                if byte != TAB or answered:
                    fault = 9 if byte in (ROUND_OPEN, ROUND_CLOSE) else 6
                    return tokens, token_start, symbol, parent, start, values, answers, (fault, at)
                at += 1
                if at >= size or not (ZERO <= text[at] <= ZERO + 9) or (at + 1 < size and text[at + 1] > RETURN):
                    return tokens, token_start, symbol, parent, start, values, answers, (5, at)
                answers[line] = text[at] - ZERO
                answered = True
                at += 1
                continue
            if byte == ROUND_OPEN and grouped:
                while at < size and text[at] == ROUND_OPEN:
                    opened += 1
                    at += 2 if at + 1 < size and text[at + 1] == BLANK else 1
                continue
            if byte == SQUARE_OPEN:
                spelled, length = np.uint64(0), 1
                while at + length < size and text[at + length] > BLANK and length <= 8:
                    spelled = (spelled << np.uint64(8)) | np.uint64(text[at + length])
                    length += 1
                which = 0
                while which < len(rules) and spellings[which] != spelled:
                    which += 1
                if which == len(rules) or (at + length < size and text[at + length] > BLANK):
                    return tokens, token_start, symbol, parent, start, values, answers, (1, at)
                operator[level], began[level], rounds[level] = which, high, opened
                tally[level], total[level] = 0, 0
                opened = 0
                level += 1
                tokens[token] = 10 + which
                token += 1
                at += length
                continue
            if byte in (ROUND_OPEN, ROUND_CLOSE):
                return tokens, token_start, symbol, parent, start, values, answers, (9, at)
            if byte > BLANK and at + 1 < size and text[at + 1] > BLANK:
                return tokens, token_start, symbol, parent, start, values, answers, (1, at)
            if opened:
                return tokens, token_start, symbol, parent, start, values, answers, (9, at)
            closes = 0
            if ZERO <= byte <= ZERO + 9:
                tokens[token] = symbol[node] = values[node] = byte - ZERO
                value[high] = byte - ZERO
            elif byte == SQUARE_CLOSE:
                if level == 0:
                    return tokens, token_start, symbol, parent, start, values, answers, (2, at)
                level -= 1
                low = began[level]
                if low == high:
                    return tokens, token_start, symbol, parent, start, values, answers, (3, at)
                if grouped and rounds[level] != high - low + 1:
                    return tokens, token_start, symbol, parent, start, values, answers, (9, at)
                for argument in range(low, high):
                    parent[child[argument]] = node - base
                tokens[token] = closing
                symbol[node] = 10 + operator[level]
                value[low] = values[node] = settle(rules[operator[level]], tally[level], total[level], value, low, high)
                high = low
                closes = 1
            else:
                return tokens, token_start, symbol, parent, start, values, answers, (1, at)
            child[high] = node
            if level:
                tally[level - 1] += counted(value[high])
                total[level - 1] += value[high]
            high += 1
            token += 1
            node += 1
            at += 1
            done = level == 0
            if grouped:  # `)` follows each argument of a list, and the `]`
                for _ in range(closes + (level > 0)):
                    while at < size and text[at] == BLANK:
                        at += 1
                    if at >= size or text[at] != ROUND_CLOSE:
                        return tokens, token_start, symbol, parent, start, values, answers, (9, at)
                    at += 1
        if level:
            return tokens, token_start, symbol, parent, start, values, answers, (4, at)
        if not done:
            return tokens, token_start, symbol, parent, start, values, answers, (11, at)
        if not answered:
            return tokens, token_start, symbol, parent, start, values, answers, (5, at)
        parent[node - 1] = -1
        token_start[line + 1], start[line + 1] = token, node
        at += 1
    return tokens[:token], token_start, symbol[:node], parent[:node], start, values[:node], answers, (0, 0)


def lines(corpus: Corpus, *, source_first: bool, path: str | Path, grouped: bool = True) -> Iterator[memoryview]:
    """The corpus as lines of text, some rows at a time; an error for rows that `parse` could not restore. Each piece is
    written over the one before."""
    quoting = corpus.forest.link is not None and corpus.forest.link.any()
    if corpus.width != 1 or corpus.targets.shape[1] != 1 or quoting:
        raise FormatError(f"{_LISTOPS}; these examples have several trees or answers, or quotations", path=path)
    kinds = np.array([_kind(word) for word in corpus.vocabulary], np.uint8)
    digits = [outcome if type(outcome) is int and 0 <= outcome <= 9 else -1 for outcome in corpus.outcomes]
    answers = np.array([*digits, -1], np.int16)[corpus.targets[:, 0]]
    forest = corpus.forest
    names = {name: number for number, name in enumerate(forest.names)}
    every = [*zip(corpus.vocabulary, kinds.tolist(), strict=True)]
    named = np.array([-1 if kind == _FOREIGN else names.get(word.removeprefix("["), -1) for word, kind in every])
    spelled = [[f" {word}{' )' * rounds * grouped}".encode() for rounds in _ROUNDS[kind]] for word, kind in every]
    texts = np.array([packed(word) for both in spelled for word in both], np.uint64)  # eight letters at most
    sizes = np.where(kinds[:, None] == _FOREIGN, 0, [[len(word) for word in both] for both in spelled]).ravel()
    # A valid line has a pair of round brackets (four bytes) for each token but one; an invalid one may need more.
    widest = int(sizes.max(initial=0)) + 4
    text = np.empty(0, np.uint8)
    first = 0
    while first < len(corpus):
        last = int(np.searchsorted(corpus.token_start, corpus.token_start[first] + _PIECE, "right")) - 1
        last = max(first + 1, last)
        longest = int(corpus.lengths[first:last].max())
        words = int(corpus.token_start[last] - corpus.token_start[first])
        most = widest * words + 3 * (last - first) + 4 * longest + 32
        if most > len(text):
            text = np.empty(most, np.uint8)
        at, bad = _lines(
            corpus.tokens, corpus.token_start[first : last + 1], texts, sizes, kinds, named, answers[first:last],
            forest.symbol, forest.parent, forest.start[first : last + 1], longest, source_first, grouped, text,
        )  # fmt: skip
        if bad >= 0:
            shown = " ".join(corpus[first + bad].tokens[:12])
            raise FormatError(f"{_LISTOPS}; row {first + bad + 1} is not: {shown[:60]}", path=path)
        yield text[at:].data
        first = last


_PIECE = 1 << 17  # tokens; their text stays in the processor's cache
_LISTOPS = (
    "these lines hold lists of digits under the operators of ListOps, with their own tree and one digit as answer "
    "(parquet and jsonl hold anything)"
)
_DIGIT, _OPEN, _CLOSE, _FOREIGN = range(4)
_ROUNDS = {_DIGIT: (0, 1), _OPEN: (0, 0), _CLOSE: (1, 2), _FOREIGN: (0, 0)}  # brackets behind: alone, in a list


def _kind(word: str) -> int:
    if word in DIGITS:
        return _DIGIT
    operator = OPERATORS.get(word[1:]) if word.startswith("[") else None
    return _OPEN if operator is not None and operator.number >= 0 else _CLOSE if word == "]" else _FOREIGN


_ROUND_OPENS = packed(b" ( ( ( (")
_0, _1 = Place(0), Place(1)


@compiled
def _lines(
    tokens: Ints, token_start: Ints, texts: Ints, sizes: Ints, kinds: Bytes, named: Ints, answers: Ints, symbol: Ints,
    parent: Ints, start: Ints, longest: int, source_first: bool, grouped: bool, out: Bytes,
) -> tuple[int, int]:  # fmt: skip
    """Fill `out` from its end. Returns where the text begins, and a row whose tokens are not its tree (-1: none).

    `texts` and `sizes` hold each token after a blank, with the round brackets behind it: where it stands alone, and in
    a list. Tokens are read backwards, so a list's arguments are counted before its operator comes, and each tells what
    its node's parent is. No branch depends on what the next token is, which no processor could predict.
    """
    above = np.empty(longest + 2, np.int64)  # of each open list: its node,
    arguments = np.empty(longest + 2, np.int64)  # and how many of its arguments were read
    opening, closing = (kinds == _OPEN).astype(np.int64), (kinds == _CLOSE).astype(np.int64)
    at = len(out)
    for row in range(len(token_start) - 2, -1, -1):
        at -= 1
        out[at] = NEWLINE
        if source_first:
            at -= 2
            out[at], out[at + 1] = TAB, ZERO + answers[row]
        base, node, level, wrong = start[row], start[row + 1] - 1, _0, np.int64(0)
        above[_0], arguments[_0] = base - 1, 0
        for position in range(token_start[row + 1] - 1, token_start[row] - 1, -1):
            token = Place(tokens[Place(position)])
            opens, closes = opening[token], closing[token]
            if (node - base < -opens) | (np.int64(level) < opens):
                return at, row
            up, count = above[level], arguments[level]
            here = Place(node ^ ((up ^ node) & -opens))
            wrong |= (np.int64(symbol[here]) ^ named[token]) & (closes - 1)
            wrong |= (np.int64(parent[here]) ^ (up - base)) & (opens - 1)
            wrong |= opens & np.int64(count == 0)
            arguments[level], arguments[level + _1] = count + 1 - opens, 0
            above[level + _1] = node
            spelled = (token << _1) + Place(level > _0)
            at = put_letters(texts[spelled], out, at) - sizes[spelled]
            left = (count + 1) & -(opens & np.int64(grouped))
            put_letters(_ROUND_OPENS, out, at)
            put_letters(_ROUND_OPENS, out, at - 8)
            if left > 8:
                for farther in range(16, 2 * left, 8):
                    put_letters(_ROUND_OPENS, out, at - farther)
            at -= 2 * left
            level = level + Place(closes) - Place(opens)
            node -= 1 - opens
        if wrong or level or arguments[_0] != 1 or node != base - 1 or answers[row] < 0:
            return at, row
        if source_first:
            at += 1  # no blank before the first token
        else:
            out[at] = TAB
            at -= 1
            out[at] = ZERO + answers[row]
    return at, -1
