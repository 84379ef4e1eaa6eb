"""What the TRE paper's experiments read: word vectors of other people and of a text, and the paper's own pictures."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pomona.base.errors import FormatError, MeasureError
from pomona.papers.reproduce import Plan
from pomona.papers.tre_2019 import compounds, dynamics, published, vectors
from pomona.papers.tre_2019.experiments import measure

# -- vectors ----------------------------------------------------------------------------------------------------------


def test_text_and_binary_vectors_agree(tmp_path: Path) -> None:
    rows = {"nest": [1.0, -2.5, 0.25], "egg": [0.5, 0.0, 3.0], "nest_egg": [9.0, 1.0, 2.0]}
    lines = [f"{name} {' '.join(map(str, vector))} \n" for name, vector in rows.items()]
    (tmp_path / "a.vec").write_text("3 3\n" + "".join(lines))
    (tmp_path / "b.vec").write_text("".join(lines))
    packed = [name.encode() + b" " + np.array(vector, "<f4").tobytes() + b"\n" for name, vector in rows.items()]
    (tmp_path / "c.bin").write_bytes(b"3 3\n" + b"".join(packed))
    for name in ("a.vec", "b.vec", "c.bin"):
        found = vectors.vectors_from_file(tmp_path / name, ["egg", "nest_egg", "duck"])
        assert {key: value.tolist() for key, value in found.items()} == {k: rows[k] for k in ("egg", "nest_egg")}
    (tmp_path / "c.bin").write_bytes(b"3 3\n" + b"".join(packed)[:-3])
    with pytest.raises(FormatError, match="ends inside the vector of 'nest_egg'"):
        vectors.vectors_from_file(tmp_path / "c.bin", ["egg"])
    (tmp_path / "a.vec").write_text("egg 1 2\nnest 1\n")
    with pytest.raises(FormatError, match="line 2: expected 2 finite numbers"):
        vectors.vectors_from_file(tmp_path / "a.vec", ["egg"])


def test_compounds_are_joined_from_the_left() -> None:
    text = vectors.Text(Path("none"), frozenset({("nest", "egg"), ("egg", "egg")}))
    assert text.join(["a", "nest", "egg", "egg", "egg"]) == ["a", "nest_egg", "egg_egg"]


def test_vectors_are_trained_on_a_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["sea", "sand", "nest", "egg", "bird"]
    lines = [" ".join(rng.permutation([*words, "Nest egg,"])) for _ in range(60)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    listed = [("nest", "egg"), ("sea", "duck")]
    settings = vectors.Cbow(size=8, epochs=1)
    found, counts = vectors.vectors_from_text(tmp_path / "text.txt", listed, settings)
    assert set(found) == {"nest", "egg", "nest_egg", "sea"}
    assert counts["nest_egg"] >= 60
    again, _ = vectors.vectors_from_text(tmp_path / "text.txt", listed, settings)
    assert all(np.array_equal(found[name], again[name]) for name in found)
    parts, _ = vectors.vectors_from_text(tmp_path / "text.txt", listed, dataclasses.replace(settings, subwords=True))
    assert set(parts) == set(found)
    with pytest.raises(MeasureError, match="none of the compounds' words occurs 5 times"):
        vectors.vectors_from_text(tmp_path / "text.txt", [("gravy", "train")])


def test_the_text_is_read_once_and_trained_on_as_tokenised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many epochs; and a long line, which gensim would cut off, loses no word."""
    monkeypatch.setattr(vectors, "LONGEST_LINE", 50)
    (tmp_path / "text.txt").write_text("\ufeffSea sand\n" + "nest egg sea duck " * 100, encoding="utf-8")
    text = vectors.Text(tmp_path / "text.txt", frozenset({("nest", "egg")}))
    counts = text.tokenise(tmp_path / "words.txt")
    lines = (tmp_path / "words.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "sea sand"
    assert max(len(line.split()) for line in lines) == 50
    assert " ".join(lines[1:]).split() == ["nest_egg", "sea", "duck"] * 100
    assert counts == {"sea": 101, "sand": 1, "nest_egg": 100, "duck": 100}
    passes, whole = [], vectors.Text.__iter__
    monkeypatch.setattr(vectors.Text, "__iter__", lambda self: passes.append(1) or whole(self))
    vectors.vectors_from_text(tmp_path / "text.txt", [("nest", "egg")], vectors.Cbow(size=4, epochs=3))
    assert passes == [1]


def test_the_papers_spelling_of_compounds_is_read(tmp_path: Path) -> None:
    """Its model7.vec joins words by two underscores."""
    (tmp_path / "model7.vec").write_text("nest 1 0\negg 0 1\nnest__egg 1 1\nsea__nest 2 2\nsea_nest 3 3\n")
    found = vectors.vectors_from_file(tmp_path / "model7.vec", ["nest", "egg", "nest_egg", "sea_nest"])
    assert {name: vector.tolist() for name, vector in found.items()} == {
        "nest": [1, 0], "egg": [0, 1], "nest_egg": [1, 1], "sea_nest": [3, 3],
    }  # fmt: skip


def test_vectors_that_a_user_brings_fill_the_papers_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, data = np.random.default_rng(0), tmp_path / "data" / "compounds"
    data.mkdir(parents=True)
    names = [(f"a{number}", f"b{number}") for number in range(12)]
    scores = rng.uniform(0, 5, 12)
    data.joinpath("reddy.txt").write_text(
        "".join(f"{a}-n {b}-n\t0 0 0 0 {score:.3f} 0 0\n" for (a, b), score in zip(names, scores, strict=True))
    )
    rows, counts = [], ["word,count"]
    for (a, b), score in zip(names, scores, strict=True):
        first, second, noise = rng.normal(size=(3, 9))
        whole = first + second + (5 - score) * noise
        rows += [f"{word} {' '.join(map(str, one))}" for word, one in ((a, first), (b, second), (f"{a}_{b}", whole))]
        counts.append(f"{a}_{b},{rng.integers(15, 60)}")
    data.joinpath("cbow.vec").write_text("\n".join(rows) + "\n")
    data.joinpath("cbow_counts.csv").write_text("\n".join(counts) + "\n")
    monkeypatch.setenv("POMONA_DATA", str(tmp_path / "data"))
    plan = Plan("tre_2019", where=("compounds",), folder=tmp_path / "runs")
    found = measure(plan)
    cells = {(cell["row"], cell["column"]): cell for cell in found["cells"] if cell["where"] == "compounds"}
    paper = cells["CBOW, exact", "Spearman with judgement"]
    assert (paper["printed"], paper["runs"]) == (-0.34, 12)
    assert found["compounds"]["CBOW"]["source"] == "cbow.vec"
    assert paper["measured"] < 0 > cells["CBOW, 1 - cos(w1 + w2, compound)", "Spearman with judgement"]["measured"]
    assert cells["CBOW, exact", "Spearman with judgement, given the compound's own count"]["runs"] == 12
    often = cells["CBOW, exact", "Spearman with judgement, of compounds seen 20 times or more"]
    assert often["runs"] == sum(int(line.split(",")[1]) >= compounds.OFTEN for line in counts[1:])
    data.joinpath("vectors.vec").write_text(data.joinpath("cbow.vec").read_text())
    rows_now = {cell["row"] for cell in measure(plan)["cells"]}  # what is new in the folder is measured
    assert {"CBOW, exact", "cbow.vec, exact"} <= rows_now


def test_the_textbook_measure_is_one_minus_a_cosine() -> None:
    table = np.array([[1.0, 0], [0, 1], [2, 2], [1, 0], [0, 1], [1, -1], [1, 0], [-1, 0], [1, 1]])
    np.testing.assert_allclose(compounds.distance_from_sum(table), [0, 1, np.nan], atol=1e-12)


# -- the paper's pictures ---------------------------------------------------------------------------------------------


def jpeg(colour: tuple[int, int, int], side: int = 28) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(content, "JPEG")
    return content.getvalue()


def archive(path: Path, files: dict[str, bytes], *others: tarfile.TarInfo) -> Path:
    """A tar archive as the author's: a folder `data` with these files."""
    with tarfile.open(path, "w:gz") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name if "/" in name else f"data/{name}")
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        for member in others:
            made.addfile(member)
    return path


def files_of(tasks: int, concepts: tuple[str, ...] = ("red", "(red eight)", "eight")) -> dict[str, bytes]:
    lines = [f"{number},{concepts[number % len(concepts)]}" for number in range(tasks)]
    files = {"vocab.csv": b"red,0\n", "metadata.csv": "\n".join(lines).encode()}
    for number in range(tasks):
        for place, which in enumerate(published.WHICH):
            files[f"{number}_{which}.jpg"] = jpeg((number % 200, 60 * place, 50))
    return files


def test_the_papers_archive_is_read(tmp_path: Path) -> None:
    tasks = published.read_archive(archive(tmp_path / "data.tar.gz", files_of(12)))
    assert tasks.derivations[:4] == ["red", ("red", "eight"), "eight", "red"]
    assert tasks.images.shape == (12, 4, 28, 28, 3)
    assert abs(int(tasks.images[10, 2, 5, 5, 0]) - 10) <= 3  # JPEG rounds
    assert abs(int(tasks.images[10, 2, 5, 5, 1]) - 120) <= 3
    shown = tasks.pictures(np.array([3, 10]), np.array([0, 3]))
    assert shown.shape == (2, 3, 28, 28)
    assert float(shown[1, 1].mean()) == pytest.approx(180 / 256, abs=0.02)
    probes = tasks.of_attributes(3)
    assert probes.derivations == ["red"] * 3 + ["eight"] * 3
    assert np.array_equal(probes.images[1], tasks.images[3])


def test_networks_learn_from_the_papers_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamics, "VALIDATION", 6)
    folder = tmp_path / "data" / "concepts"
    folder.mkdir(parents=True)
    archive(folder / "data.tar.gz", files_of(30))
    monkeypatch.setenv("POMONA_DATA", str(tmp_path / "data"))
    opened = dynamics.dynamics_folder(tmp_path / "run", dynamics.Dynamics(runs=1, epochs=1, batches=2, batch=8))
    dynamics.learn(opened)
    judged = dynamics.judge(opened)
    assert judged["runs"] == 1
    assert judged["digits"] == "the paper's pictures, 30 tasks"


def member(name: str, **more: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize(
    ("change", "others", "told"),
    [
        ({}, [member("data/0_train_a.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "no plain file or folder"),
        ({}, [member("data/x", type=tarfile.LNKTYPE, linkname="data/0_train_a.jpg")], "no plain file or folder"),
        ({}, [member("data/x", type=tarfile.CHRTYPE)], "no plain file or folder"),
        ({"../0_train_a.jpg": b"x"}, [], "leads out of the archive"),
        ({"/tmp/metadata.csv": b"0,red"}, [], "leads out of the archive"),
        ({"0_train_a.jpg": b"\xff" * 70_000}, [], "at most 65,536 are expected"),
        ({"0_train_a.jpg": b"no picture"}, [], "0_train_a.jpg is not a JPEG picture"),
        ({"0_train_a.jpg": jpeg((0, 0, 0), 32)}, [], "32 x 32 pixels"),
        ({"metadata.csv": b"0,red\n7,red"}, [], "has no picture 7_train_a.jpg"),
        ({"metadata.csv": b"0,(red eight nine)"}, [], "expected a word or a pair"),
        ({"metadata.csv": b"0,((red)"}, [], "expected a word or a pair"),
        ({"metadata.csv": b"0,red\n0,red"}, [], "the number of a new task"),
        ({"metadata.csv": b""}, [], "no tasks"),
    ],
)
def test_broken_or_hostile_archives_are_refused(
    tmp_path: Path, change: dict[str, bytes], others: list[tarfile.TarInfo], told: str
) -> None:
    path = archive(tmp_path / "data.tar.gz", {**files_of(2), **change}, *others)
    with pytest.raises(FormatError, match=told):
        published.read_archive(path)


def test_archives_that_are_no_archives_or_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "data.tar.gz", files_of(2))
    whole = path.read_bytes()
    for content in (b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="is not a whole tar archive"):
            published.read_archive(path)
    files = {name: content for name, content in files_of(2).items() if name != "metadata.csv"}
    with pytest.raises(FormatError, match=r"has no metadata\.csv"):
        published.read_archive(archive(path, files))
    monkeypatch.setattr(published, "LARGEST_ARCHIVE", 3_000)
    with pytest.raises(FormatError, match="larger than the paper's pictures can be"):
        published.read_archive(archive(path, files_of(2)))
