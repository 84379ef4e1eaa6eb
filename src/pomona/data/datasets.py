"""A dataset is a folder: one file for each split, and `manifest.json`, which says what they are.

    dataset = Dataset.read("data")
    dataset.splits                          ("train", "dev", "test")
    dataset.corpus("test")                  its rows, after a check that they are those that the manifest lists

The manifest has the task, its settings and seed, and for each split the files (names inside the folder), rows, labels
and fingerprint. A split in shards (`data.shards`) has rows and fingerprint of each of them, too. While `generate`
writes, the manifest is marked as unfinished, so that a folder with files of two draws is never taken for a dataset. A
folder without a manifest whose files are called train, dev, test is a dataset, too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pomona.base.errors import FormatError, PomonaError, did_you_mean
from pomona.base.files import kind_of, read_bytes, read_json, write_bytes, write_json
from pomona.base.shapes import ANYTHING, COUNT, TEXT, Each, fault, is_finite
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS
from pomona.data.task import TASKS

MANIFEST = "manifest.json"
UNFINISHED = "unfinished"
_SHARD_NAME = re.compile(r"-\d{5}-of-\d{5}$")
_SHARD = {"file": TEXT, "rows": COUNT, "fingerprint": TEXT}
_SPLIT = {"files?": [TEXT], "shards?": [_SHARD], "rows?": COUNT, "fingerprint?": TEXT, "labels?": Each(COUNT)}
_MANIFEST = {"splits": Each(ANYTHING), "settings?": Each(ANYTHING)}
_SAME = ("name", "seed", "settings", "version")  # what two manifests of one dataset have in common


@dataclass(frozen=True)
class Dataset:
    """The splits of a folder: the files of each, and what the manifest says of it (nothing without a manifest)."""

    folder: Path
    files: Mapping[str, tuple[Path, ...]]
    manifest: Mapping[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> Dataset:
        """The dataset in a folder; an error if it holds none, or one that was not finished."""
        folder = Path(folder)
        path = folder / MANIFEST
        if kind_of(path) != "file":
            return cls(folder, _by_name(folder), {})
        manifest = read_json(path)
        wrong = fault(manifest, _MANIFEST)
        if not wrong and not (all(map(_is_split, manifest["splits"].values())) and is_finite(manifest)):
            wrong = "its splits cannot be read"
        if wrong:
            raise FormatError(f"this is no manifest of `pomona generate`: {wrong}", path=path)
        splits = manifest["splits"]
        if manifest.get(UNFINISHED):
            raise FormatError(
                "`pomona generate` did not finish here, so the files may be of different draws; run it again", path=path
            )
        # Older manifests have the path as it was typed; the files are always in the folder itself.
        files = {
            split: tuple(folder / PurePath(name).name for name in _names(about)) for split, about in splits.items()
        }
        return cls(folder, files, manifest)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.files)

    def about(self, split: str) -> Mapping[str, Any]:
        """What the manifest says of a split; empty without a manifest."""
        found: Mapping[str, Any] = self.manifest.get("splits", {}).get(split, {})
        return found

    def file(self, split: str) -> Path:
        """The file of a split that holds most: Parquet, else JSON lines, else the first."""
        if split not in self.files:
            message = f"this dataset has no split {split!r}. {did_you_mean(split, self.files)}"
            raise FormatError(message, path=self.folder)
        if "shards" in self.about(split):
            raise FormatError(f"the split {split!r} is in shards, not in one file", path=self.folder)
        order = {".parquet": 0, ".jsonl": 1}
        return min(self.files[split], key=lambda path: order.get(path.suffix, 2))

    def corpus(self, split: str) -> Corpus:
        """The rows of a split. A file that is not as the manifest lists it is an error."""
        path = self.file(split)
        corpus = formats.read(path)
        difference = next(self.differences(split, path, corpus), "")
        if difference:
            raise FormatError(f"{difference}; `pomona verify {self.folder}` lists all that differs", path=path)
        if self.manifest and "settings" not in corpus.origin:  # a format that keeps no origin
            corpus = dataclasses.replace(corpus, origin={**self.origin(split), **corpus.origin})
        return corpus

    def origin(self, split: str) -> dict[str, Any]:
        """What a corpus that was generated here says of itself."""
        about = {key: self.manifest[key] for key in ("version", "settings", "seed") if key in self.manifest}
        return {"task": str(self.manifest.get("name", "")).partition("/")[0], "split": split, **about}

    def differences(self, split: str, path: Path, corpus: Corpus) -> Iterator[str]:
        """How a file differs from what the manifest says of its split."""
        about = self.about(split)
        if "rows" in about and about["rows"] != len(corpus):
            yield f"{path.name} has {len(corpus):,} rows, and {MANIFEST} lists {about['rows']:,} for {split}"
        elif "fingerprint" in about and about["fingerprint"] != corpus.fingerprint:
            seed = corpus.origin.get("seed")
            drawn = f" (it is of data seed {seed}, {MANIFEST} of {self.manifest.get('seed')})"
            yield (
                f"{path.name} does not hold the examples that {MANIFEST} lists for {split}"
                f"{drawn if seed not in (None, self.manifest.get('seed')) else ''}"
            )


def _is_split(about: Any) -> bool:
    return not fault(about, _SPLIT) and bool(_names(about)) and all(PurePath(name).name for name in _names(about))


def _names(about: Mapping[str, Any]) -> list[str]:
    """The names of a split's files: the same rows in several formats, or one shard each."""
    return [shard["file"] for shard in about["shards"]] if "shards" in about else list(about.get("files", ()))


def _is_shard(file: Path, split: str) -> bool:
    """Whether a file is called as a shard of this split is; a manifest may list anything."""
    return file.suffix == ".parquet" and _SHARD_NAME.sub("", file.stem) == split != file.stem


def _base_names(files: Iterable[Path]) -> list[str]:
    return [file.name for file in files]


def is_same(manifest: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """Whether a manifest is of the same task, settings and seed."""
    return all(manifest.get(key) == about[key] for key in _SAME)


def _by_name(folder: Path) -> dict[str, tuple[Path, ...]]:
    """The files that are called like splits, in a folder without a manifest."""
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and FORMATS.holds_corpora(path)):
        name = PurePath(FORMATS.stem(path)).name
        if name.split("-")[0] in ("train", "dev", "test", "valid"):
            found.setdefault(name, []).append(path)
    if not found:
        raise FormatError(
            f"this folder is no dataset: it has no {MANIFEST}, and no files called train, dev or test; name a file",
            path=folder,
        )
    order = sorted(found, key=lambda name: (("train", "dev", "valid", "test").index(name.split("-")[0]), name))
    return {name: tuple(found[name]) for name in order}


# -- compared with its manifest ----------------------------------------------------------------------------------------


def compared(folder: Path, corpora: Iterable[tuple[Path, Corpus]]) -> Iterator[tuple[Path, str]]:
    """Where the files of a folder are not what its manifest says: each file, and a sentence."""
    path = folder / MANIFEST
    if kind_of(path) != "file":
        return
    try:
        dataset = Dataset.read(folder)
    except FormatError as error:
        yield path, str(error).removeprefix(f"{path}: ")
        return
    known = {corpus_path: corpus for corpus_path, corpus in corpora if corpus_path.parent == folder}
    for split, paths in dataset.files.items():
        for file in paths:
            if kind_of(file) != "file":
                yield path, f"{file.name} is listed for {split}, and is not there"
            elif file in known:
                yield from ((file, difference) for difference in dataset.differences(split, file, known[file]))
    listed = {file for paths in dataset.files.values() for file in paths}
    splits = {*_declared(dataset.manifest), *dataset.splits}
    for file in sorted(known.keys() - listed):
        stem = PurePath(FORMATS.stem(file)).name
        if stem in splits or _SHARD_NAME.sub("", stem) in splits:
            yield file, f"{MANIFEST} does not list this file: it is of another draw, or was put here by hand"


def _declared(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The splits of the manifest's task, written or not."""
    with suppress(PomonaError):
        return tuple(TASKS.build(str(manifest.get("name")), dict(manifest.get("settings") or {})).sizes)
    return ("train", "dev", "test")


# -- written -----------------------------------------------------------------------------------------------------------


@contextmanager
def rewriting(folder: Path, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Mark a folder's dataset as unfinished, and write its manifest when the block ends.

    The block fills the splits of the manifest that it is given. Splits that are in the folder already, of the same
    task, settings and seed, stay in it. If the block fails and has changed no file, the old manifest is back.
    """
    path = folder / MANIFEST
    files = _state(folder)
    before = read_bytes(path) if kind_of(path) == "file" else None
    splits: dict[str, Any] = {}
    stale: dict[str, tuple[Path, ...]] = {}  # shards of the manifest that is replaced
    if before is not None:
        with suppress(FormatError):
            old = Dataset.read(folder)
            stale = {split: old.files[split] for split in old.splits if "shards" in old.about(split)}
            if is_same(old.manifest, about):
                splits = {
                    split: {**old.about(split), **({} if split in stale else {"files": _base_names(old.files[split])})}
                    for split in old.splits
                    if all(kind_of(file) == "file" for file in old.files[split])
                }
    manifest: dict[str, Any] = {**about, "splits": {}}
    try:
        write_json(path, {**about, UNFINISHED: True, "splits": {}})
        yield manifest
    except BaseException:
        if _state(folder) == files:
            with suppress(PomonaError, OSError):
                write_bytes(path, before) if before is not None else path.unlink(missing_ok=True)
        raise
    for split, new in manifest["splits"].items():
        old_files = splits.get(split, {}).get("files", [])
        # the same rows in further formats
        if old_files and "files" in new and splits[split].get("fingerprint") == new["fingerprint"]:
            new["files"] = list(dict.fromkeys([*old_files, *new["files"]]))
    written = {name for new in manifest["splits"].values() for name in _names(new)}
    old_shards = [file for split in manifest["splits"] for file in stale.get(split, ()) if _is_shard(file, split)]
    replaced = [file for file in old_shards if file.name not in written]
    manifest["splits"] = {**splits, **manifest["splits"]}
    write_json(path, manifest)
    for file in replaced:
        file.unlink(missing_ok=True)


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a folder but the manifest, and what changes when one is replaced."""
    paths = [path for path in folder.iterdir() if path.name != MANIFEST] if folder.is_dir() else []
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths if path.is_file()}
