"""Corpora on disk: `read` recognises what it is given, `write` is atomic, and a round trip changes nothing.

    parquet   everything, columns of lists, zstd; spec, version and fingerprint in the metadata
    jsonl     everything, one object a line, trees as nested objects (schema in `pomona.data.formats.jsonl`)
    tsv       the original ListOps file: answer, tab, binary tree in round brackets
    lra       Long Range Arena's ListOps file: a header line, source first
    orchard   the original ORCHARD files: train.input, one example a line, and train.label beside it
    snli      sentence pairs as SNLI writes them (fair NLI)

Each format is one module here with SUFFIX, `recognises`, `read` and a `Writer` that takes chunks; the folder is
discovered. A writer of more than one file also has `abandon`, called instead of `close` when the writing failed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

from pomona.base.errors import FormatError, did_you_mean
from pomona.base.files import replacing
from pomona.data.corpus import Corpus, Fingerprint

_HOMES = {
    "jsonl": "pomona.data.formats.jsonl",
    "lra": "pomona.tasks.listops.lra_files",
    "orchard": "pomona.tasks.orchard.files",
    "parquet": "pomona.data.formats.parquet",
    "snli": "pomona.tasks.fair_nli.files",
    "tsv": "pomona.tasks.listops.files",
}


class Writer(Protocol):
    """Takes the chunks of a corpus one after the other; `close` completes the file."""

    def write(self, corpus: Corpus) -> None: ...
    def close(self) -> None: ...


class _Counting:
    """A writer that knows how many rows it was given."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self.rows = writer, 0

    def write(self, corpus: Corpus) -> None:
        self._writer.write(corpus)
        self.rows += len(corpus)

    def close(self) -> None:
        self._writer.close()

    @property
    def fingerprint(self) -> Fingerprint | None:
        """That of the rows so far, where the format keeps one."""
        return getattr(self._writer, "fingerprint", None)

    def abandon(self) -> None:
        getattr(self._writer, "abandon", self._writer.close)()


class Format(Protocol):
    """What a module of this folder offers."""

    SUFFIX: str

    def recognises(self, path: Path, head: bytes) -> bool: ...
    def read(self, path: Path) -> Corpus: ...
    def Writer(self, path: Path, shown: Path) -> Writer: ...  # noqa: N802 - a class in each module


def formats() -> dict[str, Format]:
    """Every format by name."""
    return {name: cast(Format, importlib.import_module(module)) for name, module in sorted(_HOMES.items())}


def format_named(name: str) -> Format:
    """The format of a name; only its own module is imported."""
    if name not in _HOMES:
        raise FormatError(f"no format is called {name!r}. {did_you_mean(name, formats())}")
    return cast(Format, importlib.import_module(_HOMES[name]))


def recognise(path: str | Path) -> tuple[str, Format]:
    """Name and module of the format of a file, by its first bytes."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from error
    if not head:
        raise FormatError("the file is empty", path=path)
    for name, one in formats().items():
        if one.recognises(path, head):
            return name, one
    if head.startswith(b"\xef\xbb\xbf"):
        message = "the file begins with a byte order mark; save it as UTF-8 without one"
        raise FormatError(message, path=path, line=1, column=1)
    raise FormatError(
        f"not a format we know ({', '.join(formats())}); the file begins with {head[:40]!r}",
        path=path,
        line=1,
        column=1,
    )


def read(path: str | Path) -> Corpus:
    """The corpus in a file, whatever its format."""
    return recognise(path)[1].read(Path(path))


@contextmanager
def writing(path: str | Path, format: str | None = None) -> Iterator[_Counting]:  # noqa: A002 - the word of the command
    """A writer that takes chunks; the file appears whole when the block ends well, or not at all."""
    one = format_named(format or _by_suffix(Path(path)))
    with replacing(path) as beside:
        writer = _Counting(one.Writer(beside, Path(path)))
        try:
            yield writer
            if not writer.rows:
                raise FormatError("there are no rows to write, and a file without any cannot be read", path=path)
        except BaseException:
            with suppress(Exception):  # a second failure must not hide the first
                writer.abandon()
            raise
        writer.close()


def write(corpus: Corpus | Iterable[Corpus], path: str | Path, format: str | None = None) -> Path:  # noqa: A002
    """Write a corpus, or its chunks one after the other; the format is named or follows from the suffix."""
    with writing(path, format) as writer:
        for part in [corpus] if isinstance(corpus, Corpus) else corpus:
            writer.write(part)
    return Path(path)


def _by_suffix(path: Path) -> str:
    for name, one in sorted(formats().items(), key=lambda item: -len(item[1].SUFFIX)):
        if path.name.endswith(one.SUFFIX):
            return name
    suffixes = ", ".join(f"{one.SUFFIX} ({name})" for name, one in formats().items())
    raise FormatError(f"the name does not tell the format; end it in one of {suffixes}, or name the format", path=path)


def plain_origin(origin: Any) -> dict[str, Any]:
    """What a file records of where its rows came from: not the path of another file."""
    return {key: value for key, value in dict(origin).items() if key != "path"}
