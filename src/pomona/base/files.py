"""The one door through which files are written: complete or absent, and never in the way of what is there.

    with replacing("data/train.parquet") as path:
        ...                                          # write to `path`, a file of another name in the same folder

The file is written under another name, flushed to disk, and renamed in one step; then its folder is flushed. If the
process is killed, either the old file is there or the new one. After an exception the old file is unchanged and no
temporary file is left. What a killed process left behind is removed by the next write of the same file.

A replaced file keeps its permissions. A symbolic link stays, and the file it points to is replaced. A device or a pipe
is written to when the block ends.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pomona.base.errors import FormatError
from pomona.base.locks import try_lock

LONGEST_NAME = 255  # bytes of a file's name, on all usual file systems
_LEFT_OVER = re.compile(r"\..*\.[0-9a-f]{8}\.part(\..*)?", re.DOTALL)
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EBADF, errno.EISDIR)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def replacing(path: str | Path, *, mode: int | None = None) -> Iterator[Path]:
    """A path to write to. The file becomes `path` when the block ends without an exception.

    A new file gets the permissions `mode`, by default those that the user's umask gives.
    """
    target = Path(path)
    kind = kind_of(target)
    if kind == "folder" or not target.name:
        raise FormatError("this is a folder; name a file in it", path=target)
    try:
        if kind == "device":
            with _through_copy(target) as other:
                yield other
            return
        with _Beside(target, mode) as beside:
            yield beside.path
            beside.complete()
            beside.replace()
            _remove_left_overs(beside.target)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", path=target) from error


@contextmanager
def replacing_both(path: str | Path, companion: str | Path) -> Iterator[tuple[Path, Path]]:
    """Two paths to write to. Both files, which belong together, become `path` and its companion when the block ends.

    They are never of two times: the old companion is put aside before the first file is replaced. If the process is
    killed in between, there is no companion; if the first file cannot be replaced, the old pair is there again.
    """
    targets = Path(path), Path(companion)
    if any(kind_of(target) not in ("", "file") for target in targets):
        raise FormatError(f"the two files {targets[0].name} and {targets[1].name} must be plain files", path=path)
    try:
        with _Beside(targets[0], None) as first, _Beside(targets[1], None) as second:
            yield first.path, second.path
            first.complete()
            second.complete()
            aside = second.path.with_name(f"{second.path.name}.old")
            with _put_aside(second.target, aside):
                first.path.replace(first.target)
            second.replace()
            _sync_folder(first.target.parent)
            for target in (first.target, second.target):
                _remove_left_overs(target)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", path=path) from error


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file, completely or not at all."""
    with replacing(path) as beside:
        beside.write_bytes(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, completely or not at all. Half of a surrogate pair, which UTF-8 lacks, becomes a `?`."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_array(path: str | Path, array: Any) -> None:
    """Write an array as a .npy file. NumPy writes to an open file through C, and hides that its end was lost."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    write_bytes(path, content.getvalue())


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON document, completely or not at all."""
    write_bytes(path, json_document(value))


def json_document(value: Any) -> bytes:
    """A value as JSON for people. Characters that UTF-8 lacks are escapes; NaN and Infinity are a ValueError."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    if any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    return text.encode()


def is_left_over(path: Path) -> bool:
    """Whether this is the name of a file that a killed process was writing: no content, and removed in time."""
    return _LEFT_OVER.fullmatch(path.name) is not None


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but what killed processes left behind."""
    return all(is_left_over(path) for path in folder.iterdir())


# -- how ---------------------------------------------------------------------------------------------------------------


class _Beside:
    """A new file in the folder of a target, which replaces it at the end."""

    def __init__(self, path: Path, mode: int | None) -> None:
        self.target = Path(os.path.realpath(path))  # behind links
        if self.target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        _make_folder(self.target.parent)
        self.path, self._mode, self._number = _free_name(self.target), mode, -1

    def __enter__(self) -> _Beside:
        try:
            self._number = _create(self.path)
            self._permissions = _permissions(self.target, self.path, self._mode)
            self.path.chmod(self._permissions | 0o200)  # before anything is in it; also if it can only be read
        except BaseException:  # a signal may end the process at any moment
            self.__exit__()
            raise
        return self

    def complete(self) -> None:
        """Flush what was written, before it replaces the target."""
        with self.path.open("rb+") as written:
            os.fsync(written.fileno())
        self.path.chmod(self._permissions)

    def replace(self) -> None:
        self.path.replace(self.target)
        _sync_folder(self.target.parent)

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._number >= 0:
            os.close(self._number)


@contextmanager
def _put_aside(path: Path, aside: Path) -> Iterator[None]:
    """Give a file another name, and its own again if the block fails."""
    there = path.exists()
    if there:
        path.replace(aside)
        _sync_folder(path.parent)
    try:
        yield
    except BaseException:
        if there:
            with suppress(OSError):
                aside.replace(path)
        raise
    if there:
        aside.unlink(missing_ok=True)


def _free_name(target: Path) -> Path:
    """A name beside the target that nothing has."""
    while True:
        beside = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.part")
        if not os.path.lexists(beside):
            return beside


def _create(beside: Path) -> int:
    """Create an empty file and return its number. Its lock shows other processes that it is in use."""
    while True:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # without a lock it is as safe, but is not removed if the process is killed
            try_lock(number, wait=True)  # one who takes it for a left-over holds the lock until it is removed
        with suppress(FileNotFoundError):  # it was removed before the lock was there: try again
            if beside.stat().st_ino == os.fstat(number).st_ino:
                return number
        os.close(number)


def _prefix(target: Path) -> str:
    """What the names of a target's temporary files begin with; the ends of long names are cut off."""
    room = LONGEST_NAME - len("..12345678.part.before")
    return f".{os.fsdecode(os.fsencode(target.name)[:room])}."


def _permissions(target: Path, beside: Path, mode: int | None) -> int:
    """The permissions of the file that is replaced, or of a new one. The owner is kept where that is allowed."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return beside.stat().st_mode & 0o777 if mode is None else mode
    with suppress(OSError):
        os.chown(beside, old.st_uid, old.st_gid)
    return old.st_mode & 0o777


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they are still there after a crash."""
    if not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk, where the file system can."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be written and not read
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise
    finally:
        os.close(number)


def _remove_left_overs(target: Path) -> None:
    """Remove what killed processes left of the same target. A file that somebody still writes is locked."""
    prefix = _prefix(target)
    with suppress(OSError):  # a folder that cannot be read, a file that another process removed
        left = [path for path in target.parent.iterdir() if path.name.startswith(prefix)]
        for path in sorted(left, key=lambda path: -len(path.name)):  # what a writer keeps beside its file first
            rest = re.fullmatch(r"([0-9a-f]{8}\.part)(\..*)?", path.name[len(prefix) :], re.DOTALL)
            if rest:
                with _is_abandoned(target.with_name(prefix + rest[1])) as abandoned:
                    if abandoned:
                        path.unlink(missing_ok=True)


@contextmanager
def _is_abandoned(beside: Path) -> Iterator[bool]:
    """Whether no process holds the lock of a temporary file, or the file itself is gone. Nobody can lock it meanwhile:
    a writer that has just created it would, and then find it gone."""
    try:
        number = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        yield isinstance(error, FileNotFoundError)
        return
    try:
        yield try_lock(number) is True
    finally:
        os.close(number)


@contextmanager
def _through_copy(device: Path) -> Iterator[Path]:
    """A file elsewhere, whose bytes are written to a device or a pipe at the end."""
    with tempfile.TemporaryDirectory(prefix="pomona-") as folder:
        copy = Path(folder) / device.name
        yield copy
        with copy.open("rb") as source, device.open("wb", buffering=0) as sink:
            shutil.copyfileobj(source, sink)


# -- reading -----------------------------------------------------------------------------------------------------------


def kind_of(path: str | Path) -> Literal["file", "folder", "device", ""]:
    """What is at a path, behind links: a file, a folder, a device or pipe, or nothing.

    Nothing, too, if a text that a user gave is too long or too strange to be a path.
    """
    try:
        path = Path(path)
        return "file" if path.is_file() else "folder" if path.is_dir() else "device" if path.exists() else ""
    except (OSError, ValueError):
        return ""


def read_bytes(path: str | Path) -> bytes:
    """The whole file, or an error that says why not."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error


def unix_lines(data: bytes, *, first: bool = True) -> bytes:
    """Text as Unix writes it: without a byte order mark, and with LF at the end of lines that end in CR LF.

    Lines and columns of what is left are those that an editor shows. Only the `first` part of a text can have the mark.
    """
    if first:
        data = data.removeprefix(BYTE_ORDER_MARK)
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def read_lines(path: str | Path) -> bytes:
    """The whole of a text file, written on any system; what follows sees `unix_lines`."""
    return unix_lines(read_bytes(path))


def line_blocks(path: str | Path, size: int = 1 << 22) -> Iterator[bytes]:
    """A text file, written on any system, in blocks of about `size` bytes: whole lines, each ended by a newline.

    Together they are `read_lines`, with a newline at the end of the last line. An empty file is one empty line.
    """
    try:
        with Path(path).open("rb") as file:
            waiting, first = [file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)], True
            while piece := file.read(size):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield unix_lines(b"".join([*waiting, piece[:cut]]), first=False)
                    waiting, first = [], False
                waiting.append(piece[cut:])
            rest = unix_lines(b"".join(waiting), first=False)
            if rest or first:
                yield rest if rest.endswith(b"\n") else rest + b"\n"
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error


def read_text(path: str | Path) -> str:
    """The whole of a text file in UTF-8, written on any system."""
    data = read_lines(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("this is not UTF-8", path=path, line=line) from None


def read_json(path: str | Path) -> Any:
    """The value of a JSON document, or an error that says why not."""
    return parse_json(read_text(path), path)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML document, or an error that says why not."""
    import tomllib

    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"this is not TOML: {error}", path=path) from None
    except RecursionError:
        raise FormatError("this TOML is nested too deeply", path=path) from None
    except ValueError:  # Python reads whole numbers of at most 4,300 digits; a date may have no such day
        raise FormatError("this TOML holds a number or a date that cannot be", path=path) from None


def parse_json(text: str, path: str | Path, line: int | None = None) -> Any:
    """The value of a JSON text from a file, or an error with the file and, if it is given, the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = {"line": error.lineno if line is None else line, "column": error.colno}
        raise FormatError(f"this is not JSON: {error.msg}", path=path, **where) from None
    except RecursionError:
        raise FormatError("this JSON is nested too deeply", path=path, line=line) from None
    except ValueError:  # Python reads whole numbers of at most 4,300 digits
        raise FormatError("this JSON holds a number that is too long", path=path, line=line) from None
