"""One meaning for each option on every command, and the spellings of earlier versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from pomona.cli import main as cli
from pomona.cli.catalogue import described, listing
from pomona.cli.options import GONE, OLD, recipe_settings, todays
from pomona.cli.verbs import GROUPS, group_of

COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
WHERE = {"--out"}  # where a command writes; what it writes there differs from command to command
READS = {  # commands that name a task, a model, a measure or a paper
    "certify", "compare", "evaluate", "export", "generate", "ladder", "ls", "measure", "parse", "report", "represent",
    "reproduce", "show", "stats", "sweep", "train", "verify",
}  # fmt: skip


def options() -> list[tuple[str, str, Any]]:
    return [
        (spelling, verb, parameter)
        for verb, command in COMMANDS.items()
        for parameter in command.params
        if parameter.opts[0].startswith("-") and not getattr(parameter, "hidden", False)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    ]


def one_value(parameter: Any) -> Any:
    """The type of a value; an option that may be repeated has a list of them."""
    annotation = parameter.type_descriptor.annotation
    return annotation.__args__[0] if parameter.multiple else annotation


def test_an_option_has_one_meaning_and_one_type_everywhere() -> None:
    first: dict[str, tuple[str, Any]] = {}
    for spelling, verb, parameter in options():
        if spelling not in first:
            first[spelling] = verb, parameter
            continue
        other, known = first[spelling]
        where = f"{spelling} of {verb} and {other}"
        assert parameter.opts == known.opts, where
        assert one_value(parameter) == one_value(known), where
        if spelling not in WHERE and not set(parameter.opts) & WHERE:
            assert parameter.help == known.help, where


def test_a_setting_says_what_it_is_a_setting_of() -> None:
    told = {spelling: parameter.help for spelling, _, parameter in options()}
    said = {"--set": "task", "--model-set": "model", "--measure-set": "measure", "--recipe": "training"}
    for spelling, what in (said | {"--data-seed": "task's data", "--seed": "all but the data"}).items():
        assert what in told[spelling]


def test_a_user_can_bring_code_to_every_command_that_names_something() -> None:
    assert {verb for spelling, verb, _ in options() if spelling == "--import"} >= READS
    assert all(parameter.is_eager for spelling, _, parameter in options() if spelling == "--import")


def test_every_command_that_takes_a_task_takes_its_draw_its_settings_and_its_split() -> None:
    by_verb: dict[str, set[str]] = {}
    for spelling, verb, _ in options():
        by_verb.setdefault(verb, set()).add(spelling)
    draws = "certify compare evaluate export generate ladder measure represent show stats train"
    for verb in draws.split():
        assert {"--data-seed", "--set"} <= by_verb[verb], verb
        assert "--split" in by_verb[verb] or verb in ("certify", "train"), verb


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_is_listed_in_one_group(verb: str) -> None:
    assert group_of(verb) in GROUPS
    folder = Path(cli.__file__).parent / "commands"
    assert re.search(r'^GROUP = "\w+"$', (folder / f"{verb.replace('-', '_')}.py").read_text(encoding="utf-8"), re.M)


# -- earlier spellings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", OLD)
def test_an_old_spelling_is_read_as_todays(verb: str) -> None:
    known = {spelling for spelling, name, _ in options() if name == verb}
    for old, new in OLD[verb].items():
        assert new in known
        assert old not in known, "an option that exists is not to be read as another one"
        assert todays(verb, ["x", old, "7", f"{old}=7"]) == ["x", new, "7", f"{new}=7"]
        assert todays(verb, ["x", "--", old]) == ["x", "--", old]  # behind --, all words are arguments


@pytest.mark.parametrize("verb", GONE)
def test_a_spelling_that_would_mean_something_else_is_refused(verb: str) -> None:
    for old in GONE[verb]:
        with pytest.raises(typer.BadParameter, match="--data-seed"):
            todays(verb, ["x", f"{old}=7"])


def test_a_training_command_of_the_first_round_is_understood_as_a_whole() -> None:
    """--set was the model's then; in such a line it still is. A line of today keeps its own words."""
    old = ["lstm", "--set", "width=8", "--with", "epochs=1", "--data-set", "train=20"]
    assert todays("train", old) == ["lstm", "--model-set", "width=8", "--recipe", "epochs=1", "--set", "train=20"]
    new = ["lstm", "--set", "train=20", "--model-set", "width=8", "--recipe", "epochs=1"]
    assert todays("train", new) == new
    assert todays("train", ["lstm", "--set", "train=20", "--recipe", "epochs=1"])[1] == "--set"
    mixed = ["lstm", "--set", "train=20", "--model-set", "width=8", "--with", "epochs=1"]
    assert todays("train", mixed)[1] == "--set"


def test_a_recipe_comes_from_pairs_and_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('epochs = 3\nrate = 0.01\nschedule = "cosine"\n')
    (tmp_path / "b.json").write_text('{"epochs": 4, "betas": [0.9, 0.98]}')
    files = [str(tmp_path / "a.toml"), str(tmp_path / "b.json")]
    assert recipe_settings([*files, "rate=0.5"]) == {
        "epochs": 4, "rate": 0.5, "schedule": "cosine", "betas": [0.9, 0.98]
    }  # fmt: skip
    (tmp_path / "a.toml").write_text("epochs = \n")
    with pytest.raises(Exception, match=r"a\.toml: this is not TOML"):
        recipe_settings([files[0]])
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(Exception, match=r"b\.json: this is not an object of settings"):
        recipe_settings([files[1]])


# -- settings ----------------------------------------------------------------------------------------------------------


def test_every_setting_of_everything_has_a_line_of_help() -> None:
    """`pomona ls NAME` shows the comment behind the field; a new setting without one is found here."""
    known = [name for kind in ("tasks", "models", "measures") for name in listing(kind)]
    silent = [
        f"{name}: {setting}"
        for name in ["recipe", *dict.fromkeys(name.partition("/")[0] for name in known)]
        for setting, about in described(name)["settings"].items()
        if not about["help"] or not about["type"]
    ]
    assert silent == []


def test_a_description_is_plain_json() -> None:
    for name in ("listops", "orchard/hard/min-max", "treelstm", "topsim", "fair_nli_2019"):
        assert json.loads(json.dumps(described(name))) == described(name)
