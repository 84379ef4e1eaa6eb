"""The parts of README.md and of the docs that are made from the code and from results/*.json.

    python docs/generated.py            writes the blocks of README.md and docs/*.md anew (a test says when to)

A block stands between `<!-- name -->` and `<!-- /name -->`, so that it can be read where the docs are not built. What
is long is made when the docs are built (`conf.py`): `<!-- made: name -->` becomes that part, and the page of a paper
ends with every number of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paper_tables
import reference
from pomona.base.files import replacing
from pomona.cli.catalogue import listing
from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, counts, judged
from pomona.papers.reproduce import PAPERS
from tables import table

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.S)
VERDICTS = "verdicts_"  # begins the name of the block with a paper's claims: verdicts_listops_2018
MADE = re.compile(r"^<!-- made: (\w+) -->$", re.M)


def pages() -> list[Path]:
    """Every page that may hold blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """A page with its blocks made anew."""
    return BLOCK.sub(_refilled, text)


def _refilled(block: re.Match[str]) -> str:
    begin, name, end = block.groups()
    if name.startswith(VERDICTS):
        return f"{begin}{_verdicts(name.removeprefix(VERDICTS))}\n{end}"
    return f"{begin}{BLOCKS[name]()}\n{end}" if name in BLOCKS else block[0]


def built(text: str, page: str) -> str:
    """A page as the site shows it: long parts in their places and, if it is a paper's, all numbers at its end."""
    text = MADE.sub(lambda found: MADE_PARTS[found[1]](), text)
    results = ROOT / "results" / f"{page}.json"
    if results.exists():
        text += f"\n## Every number, printed and measured\n\n{everything(results)}\n"
    return text


# -- tables ----------------------------------------------------------------------------------------------------------


def _number(value: float | str | None) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.1f}" if value == round(value, 1) else f"{value:g}"


def _tasks() -> str:
    families: dict[str, tuple[str, list[str]]] = {}
    for name, one in listing("tasks").items():
        family, _, preset = name.partition("/")
        families.setdefault(family, (one["about"], []))[1].append(f"`{preset}`")
    rows = [(f"`{name}`", about, _some(presets)) for name, (about, presets) in families.items()]
    return table(["task", "what it is", "presets"], rows)


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _short(kind: str) -> str:
    rows = [(f"`{name}`", one["about"]) for name, one in listing(kind).items()]
    return table([kind.removesuffix("s"), "what it is"], rows)


def _models_with_tasks() -> str:
    rows = [(f"`{name}`", f"`{one['example']}`", one["about"]) for name, one in listing("models").items()]
    return table(["name", "made for, among others", "what it is"], rows)


def _map() -> str:
    """The listing of docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"```\nbase .*?```", page, re.S)[0]


# -- what was measured -----------------------------------------------------------------------------------------------


def results() -> list[Path]:
    return sorted((ROOT / "results").glob("*.json"))


def cells(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def claims(path: Path) -> list[dict[str, str]]:
    """The claims of a paper with their verdicts, computed from its results."""
    return judged(PAPERS.entry(path.stem)[0].kind, json.loads(path.read_text(encoding="utf-8")))


def _reproduced() -> str:
    """One line for each paper: how many of its claims hold here, and which do not or are not decided."""
    rows = []
    for path in results():
        by_verdict = counts(claims(path))
        number = sum(map(len, by_verdict.values()))
        of_all = f"{len(by_verdict[REPRODUCED])} of {number}" if number else "none declared"
        rows.append((_linked(path.stem), of_all, *(_listed(by_verdict[kind]) for kind in (NOT_REPRODUCED, UNDECIDED))))
    return table(["paper", "claims reproduced", NOT_REPRODUCED, UNDECIDED], rows)


def _listed(claims: list[str]) -> str:
    """Up to three by their words, so that a line stays a line; the paper's page has all."""
    more = [f"and {len(claims) - 3} more"] if len(claims) > 3 else []
    return "; ".join(claims[:3] + more) or "none"


def _verdicts(paper: str) -> str:
    """The table that opens a paper's page."""
    rows = [
        (row["claim"], row["printed"], row["ours"], f"**{row['verdict']}**", row["reason"], f"`{row['command']}`")
        for row in claims(ROOT / "results" / f"{paper}.json")
    ]
    return table(["claim", "printed", "ours", "verdict", "why", "command"], rows)


def _linked(paper: str) -> str:
    return f"[{paper}](docs/{paper}.md)" if (ROOT / "docs" / f"{paper}.md").exists() else paper


def _values(cell: dict[str, Any]) -> tuple[str, str, str]:
    """What was printed, what was measured, and over how many runs; constants of the data need none."""
    measured = "not run yet" if cell["measured"] is None else _number(cell["measured"])
    return _number(cell["printed"]), measured, str(cell["runs"] or "")


def everything(path: Path) -> str:
    """Every cell of a paper, in the order of its tables and figures, then the recipes behind them."""
    found = cells(path)
    parts = [
        "Lowest and highest are over runs; what needs no run, as a constant of the data, has none. Seen: examples that "
        "each run was trained on. Rising: in how many runs dev accuracy gained over a point in the last quarter of "
        "training. A number from an older recipe than today's is marked.\n"
    ]
    for where in dict.fromkeys(cell["where"] for cell in found):
        rows = [
            (cell["row"], cell["column"], *_values(cell), _number(cell["low"]), _number(cell["high"]), *_training(cell))
            for cell in found
            if cell["where"] == where
        ]
        columns = ["row", "column", "printed", "measured", "runs", "lowest", "highest", "recipe", "seen", "rising"]
        parts.append(f"### {where[:1].upper()}{where[1:]}\n\n{table([*columns, 'budget'], rows)}\n")
    commands = json.loads(path.read_text(encoding="utf-8")).get("recipes", {})
    if commands:
        rows = [(f"`{key[:6]}`", f"`{command}`") for key, command in commands.items()]
        parts.append(
            "### Recipes\n\nSeeds are left out. Weights are those of the look at dev with the highest accuracy, unless "
            f"a recipe says `select_on=test`.\n\n{table(['recipe', 'command'], rows)}\n"
        )
    return "\n".join(parts)


def _training(cell: dict[str, Any]) -> tuple[str, str, str, str]:
    """How a number was trained: recipe, examples seen, runs still rising, budget."""
    recipe = f"`{cell['recipe'][:6]}`" if cell.get("recipe") and cell["runs"] else ""
    seen = f"{cell['seen']:,}" if cell.get("seen") and cell["runs"] else ""
    rising = "" if cell.get("still_rising") is None else f"{cell['still_rising']} of {cell['runs']}"
    return "older recipe" if cell.get("older_recipe") else recipe, seen, rising, cell["budget"]


# -- long parts, made when the docs are built ------------------------------------------------------------------------


def _catalogue() -> str:
    """Every name with its settings, its splits or what it reads."""
    parts = []
    for kind, shown in _ABOUT.items():
        rows = [(f"`{name}`", one["about"], shown(one)) for name, one in listing(kind).items()]
        parts.append(f"## {kind.capitalize()}\n\n{table(['name', 'what it is', _HEADS[kind]], rows)}\n")
    return "\n".join(parts)


def _settings(one: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={json.dumps(value)}`" for name, value in one["settings"].items())


_ABOUT: dict[str, Callable[[dict[str, Any]], str]] = {
    "tasks": lambda one: ", ".join(f"{split} {count:,}" for split, count in reversed(one["splits"].items())),
    "models": _settings,
    "measures": lambda one: f"{' and '.join(one['reads'])}; {_settings(one)}".removesuffix("; "),
    "papers": lambda one: ", ".join(one["places"]),
}
_HEADS = {
    "tasks": "rows of each split",
    "models": "settings",
    "measures": "reads; settings",
    "papers": "tables and figures",
}


BLOCKS: dict[str, Callable[[], str]] = {
    "tasks": _tasks,
    "models": lambda: _short("models"),
    "models_with_tasks": _models_with_tasks,
    "measures": lambda: _short("measures"),
    "papers": lambda: _short("papers"),
    "map": _map,
    "reproduced": _reproduced,
    **paper_tables.BLOCKS,
}
MADE_PARTS: dict[str, Callable[[], str]] = {
    "catalogue": _catalogue,
    "api": reference.api,
    "commands": reference.commands,
}


def main() -> None:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            with replacing(page) as beside:
                beside.write_text(after, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
