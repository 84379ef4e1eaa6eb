"""Bring your own: every block of the page runs, every format goes through every command, and errors keep the tone."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pomona as pm
from pomona.base import registry
from pomona.cli import main as cli

PAGE = Path(__file__).parents[2] / "docs" / "bring_your_own.md"
Call = Callable[..., Any]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """The command, in a folder of its own: status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pomona", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return command


# -- the page --------------------------------------------------------------------------------------------------------


def test_every_block_of_the_page_runs(call: Call, tmp_path: Path) -> None:
    """Blocks in their order, as a reader would type them; files that the page tells to write are written here."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.S)
    assert [kind for kind, _ in blocks].count("python") == 4
    world: dict[str, Any] = {"__name__": "page"}
    shown = ""
    for kind, text in blocks:
        if kind == "json":
            rows = [json.loads(line) for line in text.splitlines()]
            if "prediction" in rows[0]:  # the reader's model; it gets the first two in three right
                inputs = [json.loads(line) for line in Path("inputs.jsonl").read_text().splitlines()]
                assert rows[0]["id"] == inputs[0]["id"]
                right = {one.id: one.target[0] for one in pm.generate("listops/d20s", split="test", size=200)}
                lines = [{"id": one["id"], "prediction": right[one["id"]] if place % 3 else "?"}
                         for place, one in enumerate(inputs)]  # fmt: skip
                Path("predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            elif "tree" in rows[0]:
                other = json.loads(
                    text.replace('"first"', '"second"').replace('"value": "red", "ch', '"value": "blue", "ch')
                )
                Path("colours.jsonl").write_text(text + json.dumps(other) + "\n")
        elif kind == "python" and "import Model" in text:
            Path("mymodels.py").write_text(text + "\n\ndef last_digit(texts):\n    return ['1'] * len(texts)\n")
            sys.modules.pop("mymodels", None)
        elif kind == "python":
            exec(compile(text, "bring_your_own.md", "exec"), world)
            if "def last_digit" in text:
                Path("mymodels.py").write_text(text[text.index("def last") : text.index("found =")])
        else:
            for line in text.splitlines():
                status, out, err = call(*shlex.split(line)[1:])
                shown += out
                assert (status, err) == (0, "") or line.startswith("pomona certify colours"), (line, err)
    assert "66.50% right" in shown
    assert "67 unparsed" in shown
    assert "by derivation" in shown
    sys.modules.pop("mymodels", None)


# -- your own data ---------------------------------------------------------------------------------------------------


@pytest.fixture
def files(call: Call, tmp_path: Path) -> dict[str, tuple[Path, Path]]:
    """Train and test in every format, by what they hold."""
    small = ["--set", "train=80", "--set", "dev=10", "--set", "test=40"]
    call("generate", "listops/d20s", "-o", "l", "-f", "tsv,lra,jsonl", *small)
    call("generate", "orchard/hard/min-max", "-o", "o", "-f", "orchard,jsonl", "--split", "train,test-4", *small,
         "--set", "iid=10")  # fmt: skip
    call("generate", "fair_nli/hardest", "-o", "n", "-f", "snli,jsonl", "--size", "60")
    for split in ("train", "test-4"):
        sources, labels = (Path(f"o/{split}.{end}").read_text().splitlines() for end in ("input", "label"))
        pairs = [*zip(sources, labels, strict=True)]
        Path(f"o/{split}.tsv").write_text("".join(f"{source}\t{label}\n" for source, label in pairs))
        Path(f"o/{split}-turned.tsv").write_text("".join(f"{label}\t{source}\n" for source, label in pairs))
    names = {
        "ListOps": ("l", "tsv", "test"), "LRA": ("l", "lra.tsv", "test"), "trees": ("l", "jsonl", "test"),
        "ORCHARD": ("o", "input", "test-4"), "its trees": ("o", "jsonl", "test-4"),
        "its table": ("o", "tsv", "test-4"), "NLI": ("n", "snli.jsonl", "test"), "its JSONL": ("n", "jsonl", "test"),
    }  # fmt: skip
    return {name: (Path(f"{at}/train.{end}"), Path(f"{at}/{split}.{end}")) for name, (at, end, split) in names.items()}


def test_every_format_goes_through_every_command(call: Call, files: dict[str, tuple[Path, Path]]) -> None:
    prints: dict[str, set[str]] = {}
    for name, (train, test) in files.items():
        prints.setdefault(test.parent.name, set()).add(json.loads(call("stats", test, "--json")[1])["fingerprint"])
        assert json.loads(call("show", test, "-n", 1, "--json")[1])[0]["id"]
        status, out, err = call("certify", train, "--test", test, "--json")
        assert status in (0, 1), (name, err)
        assert "coverage" in json.loads(out)
        assert json.loads(call("ladder", test, "--train", train, "--json")[1])["rungs"]
        assert call("export", test, "--answers", "--out", "in.jsonl", "--json")[0] == 0
        rows = [json.loads(line) for line in Path("in.jsonl").read_text().splitlines()]
        lines = [{"id": row["id"], "prediction": row["answer"]} for row in rows]
        Path("out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        status, out, err = call("evaluate", "out.jsonl", "--data", test, "--no-ladder", "--json")
        assert (status, err) == (0, "Kept in out.jsonl.evaluation.json\n"), name
        assert json.loads(out)["accuracy"] == 1.0
    assert {folder: len(found) for folder, found in prints.items()} == {"l": 1, "o": 1, "n": 1}
    turned = pm.read("o/test-4-turned.tsv")
    assert {turned.fingerprint} == prints["o"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "6,2\t[MAX 2 6 ] X [COPY 1 ]\n6,2 [MAX 2 6 ] X [COPY 1 ]\n",
            "line 2: a line is a source and a label with one",
        ),
        ("6,2\t[MAX 2 6 ] X [COPY 1 ]\n6,2\t[MAX 2 6 ] X [COPY 9 ]\n", "line 2, column 2"),
        ("[MAX 2 6 ] X [COPY 1 ]\t6,2\n[MAX 2 6 ] X [COPY 1 ]\t6\n", "line 2: a label is 2 digits with commas between"),
        ("6,2\t[MAX 2 6 ] X [COPY 1 \n", "line 1, column 26: the line ends before a list is closed"),
    ],
)
def test_a_table_of_orchard_that_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(text)
    with pytest.raises(pm.PomonaError) as caught:
        pm.read(path)
    assert str(caught.value).startswith(f"{path}, {words}")


# -- the commands ----------------------------------------------------------------------------------------------------


def test_evaluate_and_compare(call: Call, tmp_path: Path) -> None:
    assert call("export", "listops/d20s", "--answers", "--size", 60, "--out", "in.jsonl")[0] == 0
    rows = [json.loads(line) for line in Path("in.jsonl").read_text().splitlines()]
    for name, wrong in (("a", 6), ("b", 20), ("c", 21)):
        said = [
            {"id": row["id"], "prediction": "x" if place < wrong else row["answer"]} for place, row in enumerate(rows)
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    where = ["--data", "listops/d20s", "--size", 60]
    status, out, _ = call("evaluate", "--predictions", "a.jsonl", *where, "--no-ladder")
    assert status == 0
    assert "90.00% right (79.85% to 95.34%): 54 right, 0 wrong, 6 unparsed of 60" in out
    found = json.loads(call("compare", "a.jsonl", "b.jsonl", "c.jsonl", *where, "--cluster", "operator", "--json")[1])
    assert [side["value"] for side in found["sides"]] == [0.9, 40 / 60, 0.65]
    first = found["pairs"][0]
    assert (first["only_first"], first["only_second"]) == (14, 0)
    assert first["p_value"] == pytest.approx(2**-13)
    assert first["adjusted"] == pytest.approx(2 * 2**-13)  # the third pair differs by more
    assert first["clustered"]["interval"][0] <= 14 / 60 <= first["clustered"]["interval"][1]
    assert found["notes"] == ["Only 4 groups by operator: too few to trust the clustered interval."]
    lines = Path("b.jsonl").read_text().splitlines()
    Path("lines.txt").write_text("".join(f"{json.loads(line)['prediction']}\n" for line in lines))
    rungs = [
        json.loads(call("ladder", "listops/d20s", "--size", 60, "--levels", 1, "--predictions", name, "--json")[1])
        for name in ("b.jsonl", "lines.txt")
    ]
    assert rungs[0]["rungs"][-1]["accuracy"] == rungs[1]["rungs"][-1]["accuracy"] == pytest.approx(40 / 60, abs=1e-6)
    status, out, _ = call("compare", "mine=a.jsonl,b.jsonl", "other=c.jsonl,c.jsonl", *where)
    assert "t-interval over 2 runs" in out
    assert "Welch's t-interval over 2 and 2 runs, Welch's t-test" in out


def test_answers_need_no_torch() -> None:
    code = (
        "import sys\nimport pomona as pm\n"
        "corpus = pm.generate('propositional/paper', split='test')\n"
        "found = pm.evaluate(lambda texts: ['T'] * len(texts), corpus)\n"
        "pm.compare(found, found)\n"
        "assert 'torch' not in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(pm.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["evaluate", "--data", "listops/d20s"], 2, "give either a model or --predictions"),
        (["evaluate", "a.jsonl"], 2, "say what to evaluate on"),
        (["evaluate", "a.jsonl", "--data", "listops/d20s", "--predictions", "a.jsonl"], 2, "and not both"),
        (["evaluate", "nowhere", "--data", "t.jsonl"], 3, "no run folder or file of answers 'nowhere'"),
        (["evaluate", "a.jsonl", "--data", "t.jsonl"], 3, "a.jsonl: 1 example without a prediction: x; 1 id not in"),
        (["evaluate", "a.jsonl", "--data", "t.jsonl", "--name", "n"], 3, "--name keeps scores in a run's folder"),
        (["evaluate", "no.such:thing", "--data", "t.jsonl"], 3, "SpecError: no.such:thing: there is no module 'no'"),
        (["compare", "b.jsonl", "--data", "t.jsonl"], 2, "at least two models"),
        (["compare", "b.jsonl", "b.jsonl", "--data", "t.jsonl", "--cluster", "sourc"], 3,
         "MeasureError: examples cannot be grouped by 'sourc'. Did you mean 'source'?"),
        (["train", "no_such_module:Model"], 3, "SpecError: no_such_module: there is no module"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(call: Call, arguments: list[str], status: int, words: str) -> None:
    Path("t.jsonl").write_text('{"id": "x", "tree": {"type": "1", "value": 1}, "source": "s"}\n')
    Path("a.jsonl").write_text('{"id": "y", "prediction": 1}\n')
    Path("b.jsonl").write_text('{"id": "x", "prediction": 1}\n')
    found, out, err = call(*arguments)
    assert (found, out) == (status, "")
    assert words in " ".join(err.replace("│", " ").split())


def test_a_run_of_your_own_model_by_the_command(call: Call, tmp_path: Path) -> None:
    text = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[2]
    Path("somebodys_mean.py").write_text(text)
    small = ["--set", "train=100", "--set", "dev=10", "--set", "test=20"]
    trained = call("train", "somebodys_mean:MeanOfWords", "--out", "run", "--recipe", "epochs=1", *small, "--json")
    assert trained[0] == 0
    assert json.loads(trained[1])["recipe"]["model"] == "somebodys_mean:MeanOfWords"
    where = ["--data", "listops/d20s", "--set", "train=100", "--set", "dev=10", "--set", "test=20", "--no-ladder"]
    pm.MODELS._entries.pop("somebodys_mean:MeanOfWords")  # as in another process
    registry._TRUSTED.clear()
    status, _, err = call("evaluate", "run", *where)
    assert status == 3
    assert "is code of your own, and was not imported: add --import somebodys_mean" in err
    found = call("evaluate", "run", *where, "--import", "somebodys_mean", "--name", "test", "--json")
    assert json.loads(found[1])["rows"] == 20
    assert pm.Run.read("run").scores["test"]["accuracy"] == json.loads(found[1])["accuracy"]
    assert call("parse", "run", "[MAX 2 9 ]", "--import", "somebodys_mean", "--json")[0] == 0
