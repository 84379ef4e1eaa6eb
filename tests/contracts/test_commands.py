"""What every command must do: a new file in `pomona.cli.commands` is tested here once it has a call in CALLS and BAD.

Help that reads well and loads nothing heavy, examples that parse, JSON that is one document, wrong usage and bad input
told apart by their exit status, text from outside printed as text, and a shell that completes. A command's function has
as many parameters as the command has options: it is an interface, and the rule of seven parameters is not for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from rich.text import Text

import pomona as pm
from pomona.cli import commands
from pomona.cli import main as cli
from pomona.cli.verbs import first_line

VERBS = sorted(path.stem for path in Path(commands.__path__[0]).glob("*.py") if path.stem != "__init__")
COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]

SMALL = ["--set", "train=60", "--set", "dev=10", "--set", "test=20"]
# A quick call of every command; the demo and the papers take minutes and have tests of their own.
CALLS: dict[str, list[str]] = {
    "ls": ["ls", "listops"],
    "show": ["show", "test.tsv", "-n", "1"],
    "generate": ["generate", "listops/d20s", "--out", "made", *SMALL],
    "verify": ["verify", "test.tsv"],
    "stats": ["stats", "test.tsv"],
    "certify": ["certify", "train.tsv", "--test", "test.tsv"],
    "ladder": ["ladder", "test.tsv", "--levels", "1"],
    "export": ["export", "test.tsv", "--out", "inputs.jsonl"],
    "evaluate": ["evaluate", "answers.jsonl", "--data", "test.tsv", "--no-ladder"],
    "compare": ["compare", "answers.jsonl", "answers.jsonl", "--data", "test.tsv"],
    "train": ["train", "lstm", "--out", "run", "--model-set", "width=4", "--recipe", "epochs=1", "--set", "train=20",
              "--set", "dev=10", "--set", "test=10", "--quiet"],
    "sweep": ["sweep", "show", "."],
    "parse": ["parse", "run", "[MAX 2 9 ]"],
    "tre": ["tre", "vectors.npy", "derivations.jsonl"],
    "measure": ["measure", "topsim", "meanings.jsonl", "messages.txt"],
    "report": ["report", "run", "--out", "page"],
    "represent": ["represent", "run", "--data", "test.tsv", "--out", "represented.npz"],
}  # fmt: skip
LONG = {"demo", "reproduce"}
HOSTILE = "[red]no[/red]\x1b[2J\u202ename"  # markup, a control sequence, and a turn of the direction of writing
# A call of every command with a name that is none.
BAD: dict[str, list[str]] = {
    "ls": ["ls", HOSTILE],
    "show": ["show", HOSTILE],
    "generate": ["generate", HOSTILE, "--out", "made"],
    "verify": ["verify", HOSTILE],
    "stats": ["stats", HOSTILE],
    "certify": ["certify", HOSTILE],
    "ladder": ["ladder", HOSTILE],
    "export": ["export", HOSTILE, "--out", "inputs.jsonl"],
    "evaluate": ["evaluate", HOSTILE, "--data", "test.tsv"],
    "compare": ["compare", HOSTILE, "answers.jsonl", "--data", "test.tsv"],
    "train": ["train", HOSTILE, "--out", "run"],
    "sweep": ["sweep", "show", HOSTILE],
    "parse": ["parse", HOSTILE, "[MAX 2 9 ]"],
    "tre": ["tre", HOSTILE, "derivations.jsonl"],
    "measure": ["measure", "topsim", HOSTILE, "messages.txt"],
    "report": ["report", HOSTILE, "--out", "page"],
    "represent": ["represent", HOSTILE, "--data", "test.tsv"],
    "reproduce": ["reproduce", HOSTILE],
    "demo": ["demo", "--out", f"test.tsv/{HOSTILE}", "--rows", "100"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of everything that a command may ask for."""
    here = tmp_path_factory.mktemp("commands")
    for split in ("train", "test"):
        pm.write(pm.generate("listops/d20s", split=split, seed=3, train=60, dev=10, test=20), here / f"{split}.tsv")
    test = pm.read(here / "test.tsv")
    rows = [{"id": one.id, "prediction": one.target[0]} for one in test]
    (here / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.save(here / "vectors.npy", np.random.default_rng(0).normal(size=(6, 4)))
    pairs = [[colour, shape] for colour in ("red", "blue", "green") for shape in ("square", "circle")]
    (here / "derivations.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (here / "meanings.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (here / "messages.txt").write_text("".join(f"{one[0]} {two[0]}\n" for one, two in pairs))
    return here


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["pomona", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return command


def spoken(verb: str) -> str:
    return verb.removesuffix("_").replace("_", "-")


def test_every_command_is_called_here() -> None:
    assert set(VERBS) <= set(CALLS) | LONG, "add a quick call of the new command to CALLS"
    assert set(VERBS) == set(BAD), "add a call of the new command with a name that is none to BAD"


@pytest.mark.parametrize("verb", VERBS)
def test_help_reads_well(verb: str, call: Call) -> None:
    ended = call(spoken(verb), "--help")
    assert ended.status == 0
    text = " ".join(ended.out.split())
    assert f"Example: pomona {spoken(verb)}" in text
    assert "--json" in text
    about = COMMANDS[spoken(verb)]
    for parameter in about.params:
        assert getattr(parameter, "help", None), f"{verb}: {parameter.name} is not explained"
        assert parameter.help.rstrip().endswith((".", "?")) or parameter.name in ("help",), (verb, parameter.help)
    first = Text.from_markup(about.help).plain.strip().split("\n")[0]
    assert first[0].isupper()
    assert first.rstrip()[-1] in ".?"


@pytest.mark.parametrize("verb", VERBS)
def test_examples_are_commands_that_exist(verb: str) -> None:
    """Every option of an example is an option of its command; nothing is run."""
    import shlex

    examples = re.findall(r"\[bold\]pomona (.*?)\[/bold\]", COMMANDS[spoken(verb)].help.replace("\\[", "["), re.S)
    assert examples
    for example in examples:
        name, *arguments = shlex.split(example)
        COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in LONG])
def test_json_is_one_document_and_nothing_else(verb: str, call: Call, folder: Path) -> None:
    if verb in ("parse", "report", "represent") and not (folder / "run" / "summary.json").exists():
        assert call(*CALLS["train"], "--json").status == 0
    ended = call(*CALLS[verb], "--json")
    assert ended.status in (0, 1)
    json.loads(ended.out)
    assert ended.out.isascii()


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_option_is_wrong_usage(verb: str, call: Call) -> None:
    ended = call(spoken(verb), "--no-such-option")
    assert (ended.status, ended.out) == (2, "")
    assert "No such option: --no-such-option" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("verb", VERBS)
def test_bad_input_is_one_sentence_that_names_it_as_text(verb: str, call: Call) -> None:
    ended = call(*BAD[verb])
    assert ended.status == 3, ended
    assert re.search(r"^\w+Error: ", ended.err, re.M), ended.err
    assert "Traceback" not in ended.err
    told = "".join(ended.err.split())
    assert "[red]no[/red]" in told, "markup was taken for markup, or the name is not told"
    for control in ("\x1b", "\u202e"):
        assert control not in ended.err + ended.out


LOADING = """
import io, sys, contextlib
from pomona.cli.verbs import Verbs
for verb, command in Verbs().items():
    with contextlib.redirect_stdout(io.StringIO()):
        command.main(["--help"], standalone_mode=False)
    heavy = {"torch", "scipy", "vl_convert", "numba", "pyarrow", "numpy", "jinja2"} & set(sys.modules)
    assert not heavy, (verb, heavy)
    print(verb)
"""


def test_the_help_of_a_command_loads_nothing_heavy() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(pm.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [spoken(verb) for verb in VERBS]


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_commands_says_what_each_command_says(verb: str, call: Call) -> None:
    first = COMMANDS[spoken(verb)].help.strip().split("\n")[0]
    assert first_line(spoken(verb)) == first
    assert Text.from_markup(first).plain in " ".join(call("--help").out.split())


def completed(words: str) -> str:
    code = "import sys; sys.argv = ['pomona']; from pomona.cli.main import main; main()"
    environment = os.environ | {
        "PYTHONPATH": str(Path(pm.__file__).parents[1]), "_POMONA_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    return ran.stdout


def test_the_shell_completes_commands_options_and_names() -> None:
    assert completed("pomona ev").split() == ["evaluate"]
    assert "--predictions" in completed("pomona evaluate --pre").split()
    assert completed("pomona show listops/leng").split()[0] == "listops/length-200-300"
    assert completed("pomona train treel").split() == ["treelstm"]


def test_completion_can_be_installed(call: Call) -> None:
    out = " ".join(call("--help").out.split())
    assert "--install-completion" in out
    assert "--show-completion" in out
