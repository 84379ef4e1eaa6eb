"""Visual concepts made of real digits (section 4 of the TRE paper): images, concepts, and tasks of four pictures.

    digits = read_digits()                        # MNIST in the data folder, else scikit-learn's bundled digits
    tasks = Tasks.draw(digits, seed=0)            # 10,000 tasks: two examples of a concept, then two test pictures
    tasks.derivations[0]                          # "heavy stroke", or ("digit 8", "black background")

The paper's own pictures are read by `published` where somebody has put them. As a replacement, a real digit is painted
in one of five colours on one of five backgrounds, with a plain or a heavy stroke: 22 attributes, which are the
primitives. A concept is one attribute, or two of different kinds. The four pictures of a task are random except that
three show the concept and one does not.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.errors import FormatError, SpecError
from pomona.base.files import read_bytes
from pomona.base.randomness import stream_key

SIDE = 28
LARGEST = 100_000_000  # bytes of a file of digits; MNIST's have 47,040,016
COLOURS = {
    "red": (220, 40, 40),
    "green": (30, 160, 60),
    "blue": (40, 70, 220),
    "purple": (150, 50, 170),
    "brown": (130, 80, 30),
}
GROUNDS = {
    "black": (0, 0, 0),
    "white": (250, 250, 250),
    "yellow": (250, 230, 90),
    "cyan": (120, 230, 240),
    "salmon": (250, 150, 130),
}
STROKES = ("plain stroke", "heavy stroke")
KINDS: tuple[tuple[str, ...], ...] = (
    tuple(f"digit {number}" for number in range(10)),
    tuple(f"{name} digit" for name in COLOURS),
    tuple(f"{name} background" for name in GROUNDS),
    STROKES,
)
FILES = {
    "images": ("t10k-images-idx3-ubyte", "train-images-idx3-ubyte"),
    "labels": ("t10k-labels-idx1-ubyte", "train-labels-idx1-ubyte"),
}


@dataclass(frozen=True, eq=False)
class Digits:
    """Grey images of digits, [digits, 28, 28] in bytes, and their labels."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    source: str


def data_folder() -> Path:
    """Where people put data of their own."""
    return Path(os.environ.get("POMONA_DATA", "../shared/data"))


def read_digits(folder: str | Path | None = None) -> Digits:
    """MNIST from this folder (gzipped or not); by default from the data folder, else scikit-learn's digits."""
    if folder is not None:
        return _read_mnist(Path(folder))
    known = data_folder() / "mnist"
    return _read_mnist(known) if known.is_dir() else bundled_digits()


def bundled_digits() -> Digits:
    """1,797 real digits of 8 x 8 pixels that come with scikit-learn, enlarged; nothing is downloaded."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise SpecError(
            "there are no MNIST files here, and scikit-learn, whose bundled digits could be used instead, is not "
            "installed: pip install 'pomona[experiments]', or give a folder with the MNIST files"
        ) from None
    from scipy.ndimage import zoom

    bundled = load_digits()
    large = zoom(bundled.images, (1, 24 / 8, 24 / 8), order=1)
    images = np.zeros((len(large), SIDE, SIDE), np.uint8)
    images[:, 2:26, 2:26] = np.clip(large * (255 / 16), 0, 255).astype(np.uint8)
    return Digits(images, bundled.target.astype(np.int64), "scikit-learn's digits, enlarged from 8 x 8")


def _read_mnist(folder: Path) -> Digits:
    images, count = _idx(folder, "images", 3)
    labels, other = _idx(folder, "labels", 1)
    if count[0] != other[0]:
        raise FormatError(f"{count[0]} images but {other[0]} labels", path=folder)
    if count[1:] != (SIDE, SIDE):
        raise FormatError(f"images of {count[1]} x {count[2]} pixels; MNIST's have 28 x 28", path=folder)
    if labels.max(initial=0) > 9:
        raise FormatError(f"a label of {labels.max()}; digits are 0 to 9", path=folder)
    return Digits(images.reshape(count), labels.astype(np.int64), f"MNIST, {count[0]} digits")


def _idx(folder: Path, what: str, axes: int) -> tuple[npt.NDArray[np.uint8], tuple[int, ...]]:
    """An IDX file: two zero bytes, the type (8 for bytes), the number of axes, their lengths, the bytes."""
    candidates = [folder / f"{name}{end}" for name in FILES[what] for end in ("", ".gz")]
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        raise FormatError(f"there is no {' or '.join(FILES[what])} (or .gz) in it", path=folder)
    content = _unpacked(path) if path.suffix == ".gz" else read_bytes(path)
    if len(content) < 4 + 4 * axes or content[:4] != bytes((0, 0, 8, axes)):
        raise FormatError(f"is not an IDX file of bytes with {axes} axes", path=path)
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    if len(content) != 4 + 4 * axes + math.prod(shape):
        raise FormatError(f"does not hold the {'x'.join(map(str, shape))} bytes that its header announces", path=path)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes), shape


def _unpacked(path: Path) -> bytes:
    """The content of a gzip file of at most `LARGEST` bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(read_bytes(path))) as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"is not a whole gzip file: {error}", path=path) from None
    if len(content) > LARGEST:
        raise FormatError(f"holds more than {LARGEST:,} bytes, which is more than MNIST has", path=path)
    return content


@dataclass(frozen=True, eq=False)
class Painter:
    """Paints pictures from the number of a digit's image and four attributes."""

    plain: Tensor  # [strokes, digits, 28, 28], between 0 and 1
    colours: Tensor  # [5, 3]
    grounds: Tensor

    @classmethod
    def of(cls, digits: Digits, device: str = "cpu") -> Painter:
        grey = torch.tensor(digits.images).float() / 255
        heavy = torch.nn.functional.max_pool2d(grey[:, None], 3, stride=1, padding=1)[:, 0]
        paints = (torch.tensor(list(table.values())) / 256 for table in (COLOURS, GROUNDS))
        return cls(torch.stack([grey, heavy]).to(device), *(paint.float().to(device) for paint in paints))

    def paint(self, image: npt.NDArray[np.int64], looks: npt.NDArray[np.int64]) -> Tensor:
        """[n, 3, 28, 28] from [n] and [n, 4] (digit, colour, background, stroke)."""
        where = self.plain.device
        stroke, number = torch.as_tensor(looks[:, 3], device=where), torch.as_tensor(image, device=where)
        ink = self.plain[stroke, number][:, None]
        front = self.colours[torch.as_tensor(looks[:, 1], device=where)][:, :, None, None]
        back = self.grounds[torch.as_tensor(looks[:, 2], device=where)][:, :, None, None]
        return back + ink * (front - back)


@dataclass(frozen=True, eq=False)
class Tasks:
    """Many tasks: a concept and four pictures (two examples, one test that shows it, one that does not)."""

    concepts: npt.NDArray[np.int64]  # [tasks, 4]: the concept's value in each kind of attribute, -1 for any value
    looks: npt.NDArray[np.int64]  # [tasks, 4 pictures, 4 kinds]
    images: npt.NDArray[np.int64]  # [tasks, 4 pictures]: the number of the digit image that is painted

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def derivations(self) -> list[Any]:
        """The derivation of each task: an attribute, or a pair of attributes in the order of KINDS."""
        trees: list[Any] = []
        for row in self.concepts.tolist():
            names = [KINDS[kind][value] for kind, value in enumerate(row) if value >= 0]
            trees.append(names[0] if len(names) == 1 else tuple(names))
        return trees

    @classmethod
    def draw(cls, digits: Digits, seed: int, count: int = 10_000, *, single: float = 0.5) -> Tasks:
        """Tasks whose concept is one attribute with probability `single`, else two of different kinds."""
        rng = np.random.default_rng(int(stream_key("concepts", seed, count)))
        sizes = np.array([len(kind) for kind in KINDS])
        order = np.argsort(rng.random((count, 4)), axis=1)
        asked = np.zeros((count, 4), bool)
        np.put_along_axis(asked, order[:, :1], True, 1)
        np.put_along_axis(asked, order[:, 1:2], (rng.random(count) >= single)[:, None], 1)
        value = (rng.random((count, 4)) * sizes).astype(np.int64)
        return cls._filled(digits, np.where(asked, value, -1), sizes, rng)

    @classmethod
    def of_attributes(cls, digits: Digits, seed: int, each: int) -> Tasks:
        """`each` tasks of every single attribute, to estimate the information about attributes."""
        rng = np.random.default_rng(int(stream_key("attributes", seed, each)))
        sizes = np.array([len(kind) for kind in KINDS])
        rows = [(kind, value) for kind in range(4) for value in range(sizes[kind])]
        concepts = np.full((len(rows), 4), -1)
        for row, (kind, value) in enumerate(rows):
            concepts[row, kind] = value
        return cls._filled(digits, np.repeat(concepts, each, axis=0), sizes, rng)

    @classmethod
    def _filled(cls, digits: Digits, concepts: npt.NDArray[np.int64], sizes: Any, rng: np.random.Generator) -> Tasks:
        count = len(concepts)
        looks = (rng.random((count, 4, 4)) * sizes).astype(np.int64)
        wanted = np.broadcast_to(concepts[:, None], (count, 3, 4))
        looks[:, :3] = np.where(wanted >= 0, wanted, looks[:, :3])
        for _ in range(
            1000
        ):  # redraw negative pictures that show the concept; each redraw succeeds with probability 1/2 or more
            shows = ((looks[:, 3] == concepts) | (concepts < 0)).all(axis=1)
            if not shows.any():
                break
            looks[shows, 3] = (rng.random((int(shows.sum()), 4)) * sizes).astype(np.int64)
        order = np.argsort(digits.labels, kind="stable")
        counts = np.bincount(digits.labels, minlength=10)
        if (counts == 0).any():
            raise SpecError(f"there is no image of the digit {int(np.argmin(counts))} in {digits.source}")
        first = np.cumsum(counts) - counts
        shown = looks[:, :, 0]
        images = order[first[shown] + (rng.random(shown.shape) * counts[shown]).astype(np.int64)]
        return cls(concepts, looks, images)

    def pictures(self, painter: Painter, rows: npt.NDArray[np.int64], which: npt.NDArray[np.int64] | int) -> Tensor:
        """One picture of each of these tasks: `which` of the four, one number for all or one for each."""
        return painter.paint(self.images[rows, which], self.looks[rows, which])
