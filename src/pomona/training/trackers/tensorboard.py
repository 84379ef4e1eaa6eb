"""TensorBoard: `tensorboard --logdir runs` shows the curves of all runs below `runs`, also while they are trained.

Each epoch is an event file of its own in the run's folder `tensorboard`, written as a whole, so that nothing is half
written and nothing is twice there. The format is small enough to be written here: records of length, checksum, content
and checksum, whose content is a protocol buffer `Event(wall_time, step, summary of (tag, simple_value))`. Looking at
them needs TensorBoard (`pip install 'pomona[tensorboard]'`); writing them needs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pomona.training.curves import flat
from pomona.training.run import Run
from pomona.training.tracking import TRACKERS, Tracker

TAGS = {"loss": "loss/train", "dev_loss": "loss/dev", "train": "accuracy/train", "dev": "accuracy/dev"}
_CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C


@TRACKERS.add("tensorboard")
@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Event files for TensorBoard, in the folder of the run."""

    def send(self, run: Run, entries: Sequence[Mapping[str, Any]]) -> None:
        begin = (run.folder / "curve.jsonl").stat().st_mtime - entries[-1].get("core_seconds", 0.0)
        for entry in entries:
            seconds = begin + entry.get("core_seconds", 0.0)  # about when the epoch ended
            version = _event(seconds, 0, _field(3, b"brain.Event:2"))
            content = _record(version) + _record(_event(seconds, entry.get("step", 0), _field(5, _summary(entry))))
            run.write_bytes(f"tensorboard/events.out.tfevents.{entry['epoch']:010d}.pomona", content)


def _summary(entry: Mapping[str, Any]) -> bytes:
    """Every number of an epoch under its tag."""
    values = b""
    for name, value in flat(entry).items():
        if isinstance(value, (int, float)) and name not in ("epoch", "step"):
            tag = TAGS.get(name, f"accuracy/{name}" if name.startswith("dev at") else name)
            values += _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
    return values


def _event(seconds: float, step: int, content: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", seconds) + b"\x10" + _varint(step) + content


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that holds bytes."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(content: bytes) -> bytes:
    """CRC-32C, turned and shifted as in all files of records."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
