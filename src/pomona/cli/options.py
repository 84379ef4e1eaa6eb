"""Options that several commands share: each has one spelling, one meaning and one help text, and stands here.

    def show(source: Source, split: Split = "", data_seed: DataSeed = None, settings: Settings = None, ...)

`--data-seed` is the draw of generated data; `--seed` is all other randomness (first weights, batch order, noise,
samples, shuffles). `--set` are settings of the task, `--model-set` of the model, `--measure-set` of the measure,
`--recipe` of the training. `--import` runs code of the user's own before anything else is read.

Spellings of earlier versions are in `OLD`. Those that still have one possible meaning work; the others are errors that
say what to write today. `tests/contracts/test_options.py` compares the options of all commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def task_names(incomplete: str) -> list[str]:
    """Tasks whose names begin like this; if there is none, the shell offers files."""
    from pomona.data.task import TASKS

    return [name for entry in TASKS.entries() for name in entry.names if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """Models whose names begin like this. They are the names of files, so torch is not loaded."""
    from pomona.base.registry import Registry
    from pomona.models import FOLDERS

    return [name for name in Registry[object]("model", *FOLDERS).modules() if name.startswith(incomplete)]


def _import(ctx: typer.Context, modules: list[str] | None) -> list[str]:
    """Import the user's own modules. This option is eager: it comes before all others."""
    from pomona.base.registry import trust

    if not ctx.resilient_parsing:  # not while the shell completes
        for module in modules or []:
            trust(module)
    return modules or []


# -- data ------------------------------------------------------------------------------------------------------------

_DATA = "A task, for example listops/d20s, a file, or a folder of generate (a dataset)."

Source = Annotated[str, typer.Argument(help=_DATA, autocompletion=task_names)]
Data = Annotated[str, typer.Option("--data", help=_DATA, autocompletion=task_names)]
ManyData = Annotated[list[str] | None, typer.Option("--data", help=_DATA, autocompletion=task_names)]
Split = Annotated[
    str, typer.Option("--split", help="Which split of a task or of a dataset's folder.", show_default="test")
]
DataSeed = Annotated[
    int | None,
    typer.Option("--data-seed", help="Random seed of a task's data: which examples are drawn.", show_default="0"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the task, for example branching=0.3 (pomona ls TASK); repeatable."),
]
Size = Annotated[int | None, typer.Option("--size", help="How many examples of each split: the first ones.", min=1)]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, show_default="one for each core; without shards, 1",
        help="How many processes share the work on shards, or threads without; the result does not depend on it.",
    ),
]  # fmt: skip
Train = Annotated[
    str,
    typer.Option("--train", help="What baselines learn from: a task, a file or a folder. Default: the train split."),
]
TrainDepth = Annotated[
    int | None,
    typer.Option("--train-depth", help="Depth of the model's deepest training trees: is it better beyond it?"),
]
Predictions = Annotated[
    Path | None,
    typer.Option("--predictions", help='Answers, as lines of {"id", "prediction"} and perhaps "tree".'),
]

# -- models, measures, training --------------------------------------------------------------------------------------

Seed = Annotated[
    int,
    typer.Option("--seed", min=0, help="Random seed of all but the data: weights, batch order, noise, samples."),
]
SeedOrNone = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Random seed of all but the data: weights, batch order, noise, samples."),
]
ModelSettings = Annotated[
    list[str] | None,
    typer.Option("--model-set", help="A setting of the model, for example width=48 (pomona ls MODEL); repeatable."),
]
MeasureSettings = Annotated[
    list[str] | None,
    typer.Option("--measure-set", help="A setting of the measure, as method=kendall (pomona ls MEASURE); repeatable."),
]
Training = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe", help="A setting of the training, as epochs=20 (pomona ls recipe), or a .toml or .json file."
    ),
]
On = Annotated[str, typer.Option("--on", help="Where: local or ray; of a sweep also slurm.")]
Address = Annotated[
    str, typer.Option("--address", help="Of a running Ray cluster; without it, Ray is started here.")
]
AtOnce = Annotated[
    int | None, typer.Option("--at-once", help="How many runs at a time. Default: one for each core.", min=1)
]
Track = Annotated[
    list[str] | None,
    typer.Option("--track", help="Also show learning curves elsewhere: tensorboard; repeatable."),
]
Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import", callback=_import, is_eager=True,
        help="A module of yours that adds a task, model, measure or paper; its code runs first; repeatable.",
    ),
]  # fmt: skip
Weights = Annotated[str, typer.Option("--weights", help="Which weights of a run: best (on dev) or last.")]
AllowOverlap = Annotated[
    bool, typer.Option("--allow-overlap", help="Go ahead if examples were in the run's training data, and count them.")
]

# -- output ----------------------------------------------------------------------------------------------------------

Plot = Annotated[Path | None, typer.Option("--plot", help="Also draw a plot to this file: .png, .svg or .pdf.")]
Most = Annotated[int, typer.Option("--most", help="How many problems to print; 0 for all.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the details: the tests behind a verdict.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


# -- spellings of earlier versions -----------------------------------------------------------------------------------

_SEED = {"--seed": "--data-seed"}  # these commands have no other randomness, so there is only one seed it can mean
OLD: dict[str, dict[str, str]] = {  # by command: what still works, and what it is called today
    **dict.fromkeys(("generate", "show", "stats", "certify", "ladder", "export"), _SEED),
    "train": {"--with": "--recipe"},
}
GONE: dict[str, dict[str, str]] = {  # by command: what would mean something else today, and what to write
    verb: {"--seed": "the draw of the data is --data-seed now; the weights are those of the run"}
    for verb in ("evaluate", "compare")
}


def need_ray(on: str, address: str) -> None:
    """An error for the address of a Ray cluster that would not be used."""
    if address and on != "ray":
        raise typer.BadParameter(f"the cluster at {address} is used with --on ray; add it", param_hint="--address")


def todays(verb: str, words: list[str]) -> list[str]:
    """The words of a command line with today's names of options; an error where a name would mean something else.

    >>> todays("show", ["listops/d20s", "--seed", "1", "-n", "3"])
    ['listops/d20s', '--data-seed', '1', '-n', '3']
    >>> todays("train", ["lstm", "--set", "width=8", "--with", "epochs=1", "--data-set", "train=20"])
    ['lstm', '--model-set', 'width=8', '--recipe', 'epochs=1', '--set', 'train=20']
    """
    names = {word.partition("=")[0] for word in words if word.startswith("--")}
    renamed = dict(OLD.get(verb, {}))
    if verb == "train" and "--model-set" not in names:
        if names & {"--with", "--data-set"}:  # the whole line is of an earlier version, where --set was the model's
            renamed |= {"--set": "--model-set", "--data-set": "--set"}
    elif verb == "train" and "--data-set" in names:
        renamed |= {"--data-set": "--set"}
    for name, message in GONE.get(verb, {}).items():
        if name in names:
            raise typer.BadParameter(message, param_hint=name)
    end = words.index("--") if "--" in words else len(words)
    return [_renamed(word, renamed) for word in words[:end]] + words[end:]


def _renamed(word: str, renamed: dict[str, str]) -> str:
    name, equals, value = word.partition("=")
    return f"{renamed.get(name, name)}{equals}{value}"


def pair_text(name: str, value: Any) -> str:
    """A setting as it is typed.

    >>> pair_text("root", False), pair_text("operators", ["MIN", "MAX"]), pair_text("by", "operator")
    ('root=false', 'operators=["MIN", "MAX"]', 'by=operator')
    """
    import json

    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def settings_file(path: str) -> dict[str, Any]:
    """The settings in a TOML or JSON file."""
    from pomona.base.errors import FormatError
    from pomona.base.files import read_json, read_toml

    if path.lower().endswith(".json"):
        content = read_json(path)
        if not isinstance(content, dict):
            raise FormatError("this is not an object of settings", path=path)
        return content
    return read_toml(path)


def is_settings_file(text: str) -> bool:
    """Whether what stands where name=value could stand is the name of a file of settings."""
    return "=" not in text and text.lower().endswith((".toml", ".json"))


def recipe_settings(pairs: list[str]) -> dict[str, Any]:
    """The settings of `--recipe`: name=value, or whole files; later ones replace earlier ones."""
    from pomona.base.registry import parse_settings

    settings: dict[str, Any] = {}
    for pair in pairs:
        settings |= settings_file(pair) if is_settings_file(pair) else parse_settings([pair])
    return settings
