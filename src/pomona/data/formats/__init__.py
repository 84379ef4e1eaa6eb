"""Read and write corpora. `read` recognises the format, `write` is atomic, and reading restores what was written.

    parquet   everything, columns of lists, zstd; settings, version and fingerprint in the metadata
    jsonl     everything, one object a line, trees as nested objects (schema in `pomona.data.formats.jsonl`)
    ptb       trees in round brackets with labels, as the Penn Treebank writes them; one a line or over several lines
    csv       a table of attributes: a header row, one column for each part
    tsv       the original ListOps file: answer, tab, binary tree in round brackets
    lra       Long Range Arena's ListOps file: a header line, source first
    orchard   the original ORCHARD files: train.input, one example a line, and train.label beside it
    snli      sentence pairs as SNLI writes them (fair NLI)

A format is one call of `FORMATS.add(Format(...))`. General formats, which hold any corpus, are modules of this folder;
formats of a task are in the module `files` of the task's folder. Both are discovered, so there is no list to keep. Only
the modules needed to find a format are imported: pyarrow, for example, only for Parquet.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from pomona.base.errors import FormatError, SpecError, did_you_mean
from pomona.base.files import replacing, replacing_both, unix_lines
from pomona.data.corpus import Corpus, Fingerprint

HEAD = 4096  # bytes from which a format is recognised


class Writer(Protocol):
    """Writes the chunks of a corpus one after the other; `close` completes the file.

    A writer of several files also has `abandon`, which is called instead of `close` after a failure. A writer that
    computes the fingerprint of its rows has an attribute `fingerprint`.
    """

    def write(self, corpus: Corpus) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Format:
    """How to read and write one kind of file.

    `recognises(path, head)` decides by the first bytes of a file (of text: by its `unix_lines`). `writer(path, shown)`
    writes to `path`; its errors name the file `shown`. `also` is the suffix of a second file that is written beside it,
    if there is one; the path to write that to is the third argument of `writer`.
    """

    name: str
    suffix: str
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path], Corpus]
    writer: Callable[..., Writer]
    holds_everything: bool = False  # any corpus, or only those of one task
    also: tuple[str, ...] = ()


class FormatRegistry:
    """Formats by name, suffix or content; modules are imported when they are needed."""

    def __init__(self, formats: str, tasks: str) -> None:
        self._formats, self._tasks = formats, tasks  # packages: of formats, and of tasks that may have a module `files`
        self._entries: dict[str, Format] = {}

    def add(self, format_: Format) -> Format:
        """Register a format; two formats of the same name or suffix are an error."""
        for known in self._entries.values():
            if (known.name == format_.name or known.suffix == format_.suffix) and known.read != format_.read:
                raise SpecError(f"two formats are called {format_.name!r} or end in {format_.suffix!r}; rename one")
        self._entries[format_.name] = format_
        return format_

    def entries(self) -> dict[str, Format]:
        """Every format, in order of name; this imports all of them."""
        for module in self._waiting():
            importlib.import_module(module)
        return dict(sorted(self._entries.items()))

    def named(self, name: str) -> Format:
        """The format of this name."""
        format_ = self._search(name, lambda entry: entry.name == name)
        if format_ is None:
            raise FormatError(f"no format is called {name!r}. {did_you_mean(name, self.entries())}")
        return format_

    def by_suffix(self, path: Path) -> Format:
        """The format that a file of this name is written in; the longest suffix counts."""
        if path.name.count(".") == 1:  # no longer suffix can match, so the first match is right
            format_ = self._search(path.suffix[1:], lambda entry: entry.suffix == path.suffix)
        else:
            fitting = [entry for entry in self.entries().values() if path.name.endswith(entry.suffix)]
            format_ = max(fitting, key=lambda entry: len(entry.suffix), default=None)
        if format_ is None:
            suffixes = ", ".join(f"{entry.suffix} ({name})" for name, entry in self.entries().items())
            message = f"the name does not tell the format; end it in one of {suffixes}, or name the format"
            raise FormatError(message, path=path)
        return format_

    def by_content(self, path: Path, head: bytes) -> Format | None:
        """The format of a file that begins with these bytes."""
        # First try the general format with the name of the suffix; then the others need not be imported.
        suffix = path.suffix[1:]
        general = self._search(suffix, lambda entry: entry.name == suffix and entry.holds_everything, widely=False)
        if general is not None and general.recognises(path, head):
            return general
        return next((entry for entry in self.entries().values() if entry.recognises(path, head)), None)

    def stem(self, path: Path) -> str:
        """The path without the suffix of its format: train.lra.tsv and train.parquet are both train."""
        fitting = [entry.suffix for entry in self.entries().values() if path.name.endswith(entry.suffix)]
        return str(path)[: len(str(path)) - max(map(len, fitting), default=0)]

    def holds_corpora(self, path: Path) -> bool:
        """Whether the name has the suffix of a format."""
        return any(path.name.endswith(entry.suffix) for entry in self.entries().values())

    def has_suffix(self, name: str) -> bool:
        """Whether the name has the suffix of a format, or of a file written beside one."""
        return name.endswith(tuple(end for entry in self.entries().values() for end in (entry.suffix, *entry.also)))

    def last_suffixes(self) -> list[str]:
        """The last suffix of every format, for messages."""
        return sorted({Path(f"x{entry.suffix}").suffix for entry in self.entries().values()})

    def _search(self, likely: str, wanted: Callable[[Format], bool], *, widely: bool = True) -> Format | None:
        """The first wanted format: among those imported, in modules called `likely`, then (`widely`) in the rest."""
        format_ = next(filter(wanted, self._entries.values()), None)
        modules = self._waiting()
        modules.sort(key=lambda module: module.rpartition(".")[2] != likely)
        for module in modules:
            if format_ is not None or (not widely and module.rpartition(".")[2] != likely):
                break
            importlib.import_module(module)
            format_ = next(filter(wanted, self._entries.values()), None)
        return format_

    def _waiting(self) -> list[str]:
        """The modules of formats not yet imported: of imported tasks, of other tasks, then general ones."""
        of_tasks, general = self._modules
        modules = [module for module in of_tasks if module not in sys.modules]
        modules.sort(key=lambda module: module.rpartition(".")[0] not in sys.modules)
        return modules + [module for module in general if module not in sys.modules]

    @cached_property
    def _modules(self) -> tuple[list[str], list[str]]:
        """The modules of formats: those of tasks, and general ones. Listing folders takes longer than a small file."""
        of_tasks = []
        for folder in importlib.import_module(self._tasks).__path__:
            for task in pkgutil.iter_modules([folder]):
                inside = pkgutil.iter_modules([str(Path(folder) / task.name)]) if task.ispkg else ()
                if any(module.name == "files" for module in inside):
                    of_tasks.append(f"{self._tasks}.{task.name}.files")
        general = pkgutil.iter_modules(importlib.import_module(self._formats).__path__)
        return of_tasks, [f"{self._formats}.{module.name}" for module in general]


FORMATS = FormatRegistry("pomona.data.formats", "pomona.tasks")


def recognise(path: str | Path) -> Format:
    """The format of a file, by its first bytes."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = unix_lines(file.read(HEAD))
    except (OSError, ValueError) as error:  # a null character in a name is a ValueError
        raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error
    if not head:
        raise FormatError("the file is empty", path=path)
    format_ = FORMATS.by_content(path, head)
    if format_ is not None:
        return format_
    message = f"not a format we know ({', '.join(FORMATS.entries())}); the file begins with {head[:40]!r}"
    raise FormatError(message, path=path, line=1, column=1)


def read(path: str | Path) -> Corpus:
    """The corpus in a file, whatever its format."""
    return recognise(path).read(Path(path))


class CountingWriter:
    """A writer that counts its rows."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self.rows = writer, 0

    def write(self, corpus: Corpus) -> None:
        self._writer.write(corpus)
        self.rows += len(corpus)

    def close(self) -> None:
        self._writer.close()

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the rows so far, if the format computes one."""
        return getattr(self._writer, "fingerprint", None)

    def abandon(self) -> None:
        getattr(self._writer, "abandon", self._writer.close)()


@contextmanager
def writing(path: str | Path, format: str | None = None) -> Iterator[CountingWriter]:  # noqa: A002 - the command's word
    """A writer for chunks. The file appears when the block ends without an error, else not at all."""
    chosen = FORMATS.named(format) if format else FORMATS.by_suffix(Path(path))
    with _beside(Path(path), chosen) as (beside, *companions):
        writer = CountingWriter(chosen.writer(beside, Path(path), *companions))
        try:
            yield writer
            if not writer.rows:
                raise FormatError("there are no rows to write; a file needs at least one", path=path)
        except BaseException:
            with suppress(Exception):  # a second failure must not hide the first
                writer.abandon()
            raise
        writer.close()


@contextmanager
def _beside(path: Path, chosen: Format) -> Iterator[tuple[Path, ...]]:
    """The paths to write to: one for the file, and one for what the format writes beside it."""
    if not chosen.also:
        with replacing(path) as beside:
            yield (beside,)
        return
    if path.suffix != chosen.suffix:
        ends = " and ".join((chosen.suffix, *chosen.also))
        raise FormatError(f"the files of the format {chosen.name} end in {ends}; name the first", path=path)
    with replacing_both(path, path.with_suffix(chosen.also[0])) as both:
        yield both


def write(corpus: Corpus | Iterable[Corpus], path: str | Path, format: str | None = None) -> Path:  # noqa: A002
    """Write a corpus, or its chunks one after the other; by default the suffix gives the format."""
    with writing(path, format) as writer:
        for part in [corpus] if isinstance(corpus, Corpus) else corpus:
            writer.write(part)
    return Path(path)


def plain_origin(origin: Any) -> dict[str, Any]:
    """The origin as a file records it: without the path of another file."""
    return {key: value for key, value in dict(origin).items() if key != "path"}
