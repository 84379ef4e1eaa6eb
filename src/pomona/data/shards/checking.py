"""Verify splits in shards: each shard on its own, then equal rows among all of them, in bounded memory.

    verify_shards(splits, others, None, crew)

Workers share the shards. Each reads one a row group at a time, compares it with the manifest, works out every answer
again, and writes the keys of its rows. Duplicates and leaks are then found partition by partition (`repeats`).
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pomona.base.errors import FormatError
from pomona.base.files import kind_of
from pomona.base.workers import Crew
from pomona.data.corpus import Corpus
from pomona.data.datasets import MANIFEST, Dataset
from pomona.data.formats import FORMATS
from pomona.data.row_checks import Fault, Proof, contradicted, faults_of, message_of
from pomona.data.shards.digests import whole_fingerprint
from pomona.data.shards.folder import Shard, Shards, shards_in
from pomona.data.shards.keys import partitions_for, write_keys
from pomona.data.shards.repeats import Repeats, find_repeats


class Checked(NamedTuple):
    """What was found in shards."""

    files: list[tuple[str, str, int, str]]
    problems: list[Fault]
    rules: set[str]
    unchecked: list[str]


def shards_among(paths: Iterable[str | Path]) -> list[Shards]:
    """The splits in shards of the datasets among these folders."""
    found: dict[tuple[Path, str], Shards] = {}
    for folder in dict.fromkeys(path for path in map(Path, paths) if (path / MANIFEST).is_file()):
        with suppress(FormatError):  # it is told when the folder is compared with its manifest
            found |= {(folder, split): shards for split, shards in shards_in(Dataset.read(folder)).items()}
    return list(found.values())


def verify_shards(
    splits: Sequence[Shards], others: Sequence[tuple[Path, Corpus]], proof: Proof | None, crew: Crew,
    progress: Callable[[int], None] | None,
) -> Checked:  # fmt: skip
    """Check every shard on its own, then look for equal rows among all shards and the other files."""
    checked = Checked([], [], set(), [])
    if not splits:
        return checked
    rows = sum(map(len, splits)) + sum(len(corpus) for _, corpus in others)
    partitions = partitions_for(rows)
    shards = [(number, shard) for number, split in enumerate(splits) for shard in split.files if _there(shard)]
    with tempfile.TemporaryDirectory(prefix="pomona-keys-") as folder:
        keys = [Path(folder) / f"{number}.keys" for number in range(len(shards) + len(others))]
        orders = [
            {"shard": shard.plain(), "keys": str(file), "partitions": partitions, "proof": proof and vars(proof)}
            for (_, shard), file in zip(shards, keys, strict=False)
        ]
        for number, answer in crew.run(verify_shard, orders):
            shard = shards[number][1]
            checked.problems.extend(Fault(*fault) for fault in answer["faults"])
            checked.rules.update(answer["rules"])
            checked.files.append((str(shard.path), "parquet", shard.rows, answer["fingerprint"]))
            checked.unchecked.extend([] if answer["checked"] else [str(shard.path)])
            if progress:
                progress(1)
        for file, (_, corpus) in zip(keys[len(shards) :], others, strict=True):
            write_keys(file, np.arange(len(corpus)), corpus.keys, partitions)
        names = [shard.path for _, shard in shards] + [path for path, _ in others]
        groups = [number for number, _ in shards] + [len(splits) + number for number in range(len(others))]
        repeats = find_repeats(keys, groups, len(splits), partitions, crew) if keys else Repeats()
    checked.files.sort()
    checked.problems.sort(key=lambda fault: (fault.path, fault.line or 0))
    checked.problems.extend(_other_wholes(splits, checked.problems, crew))
    checked.problems.extend(_repeats_told(repeats, names, splits, others))
    return checked


def _other_wholes(splits: Sequence[Shards], problems: Sequence[Fault], crew: Crew) -> Iterable[Fault]:
    """Splits whose shards are all as listed, and are together not what the manifest says of the whole."""
    wrong = {fault.path for fault in problems if fault.kind in ("unreadable", "not the dataset")}
    for split in splits:
        paths = [shard.path for shard in split.files]
        if any(str(path) in wrong or kind_of(path) != "file" for path in paths):
            continue
        if split.about.get("rows") != len(split) or split.fingerprint != whole_fingerprint(paths, crew):
            message = f"the shards of {split.split} are not together the {split.about.get('rows')} rows that it lists"
            yield Fault(str(split.folder / MANIFEST), None, "not the dataset", message)


def _there(shard: Shard) -> bool:
    return kind_of(shard.path) == "file"


def _repeats_told(
    repeats: Repeats, names: Sequence[Path], splits: Sequence[Shards],
    others: Sequence[tuple[Path, Corpus]],
) -> Iterable[Fault]:  # fmt: skip
    """Duplicates inside a split in shards, and leaks between one and another split or file."""
    for row, first in repeats.rows:
        same = "on line" if row.file == first.file else f"in {names[first.file].name}, line"
        yield Fault(str(names[row.file]), row.row + 1, "duplicate", f"the same example is {same} {first.row + 1}")
    if repeats.count > len(repeats.rows):
        more = f"{repeats.count - len(repeats.rows):,} more rows repeat an earlier one of their split"
        yield Fault(str(splits[0].folder), None, "duplicate", more)
    sizes = [*map(len, splits), *(len(corpus) for _, corpus in others)]
    for (earlier, later), (count, row, first) in sorted(repeats.shared.items()):
        if earlier < len(splits) and not _same_split(splits[earlier], names[row.file], later, splits):
            where = f"{names[first.file]} (this one on line {first.row + 1})"
            message = f"{count} of {sizes[later]} examples are also in {where}"
            yield Fault(str(names[row.file]), row.row + 1, "leak", message)


def _same_split(shards: Shards, path: Path, group: int, splits: Sequence[Shards]) -> bool:
    """Whether a file is the split of these shards in another format."""
    return group >= len(splits) and FORMATS.stem(path.absolute()) == str(shards.folder.absolute() / shards.split)


def verify_shard(
    shard: Mapping[str, Any], keys: str, partitions: int, proof: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What is wrong with the rows of a shard, each on its own; their keys go to a file."""
    one, problems, rules, content, row = Shard.of(shard), list[Fault](), set[str](), [np.zeros(0, np.uint64)], 0
    checked = True
    try:
        difference = one.difference()
        if difference:
            problems.append(Fault(str(one.path), None, "not the dataset", difference))
        for part in () if difference else one.parts():
            numbered = dataclasses.replace(part, lines=np.arange(row + 1, row + len(part) + 1))
            found = faults_of(one.path, numbered, None)
            problems += found.faults
            rules |= found.rules
            checked &= found.checked
            content.append(part.keys)
            row += len(part)
        if proof is not None and not difference:
            problems += contradicted(one.path, Corpus.concatenate(list(one.parts())), Proof(**proof), rules)
    except FormatError as error:
        problems.append(Fault(str(one.path), error.line, "unreadable", message_of(error)))
    whole = np.concatenate(content)
    write_keys(Path(keys), np.arange(len(whole)), whole, partitions)
    faults = [[fault.path, fault.line, fault.kind, fault.message] for fault in problems]
    return {"faults": faults, "rules": sorted(rules), "checked": checked, "fingerprint": one.fingerprint}
