"""The parts of README.md and of the docs that are made from the code and from results/*.json.

    python docs/generated.py            writes the blocks of README.md and docs/*.md anew (a test says when to)

A block stands between `<!-- name -->` and `<!-- /name -->`, so that it can be read where the docs are not built. What
is long is made when the docs are built (`conf.py`): `<!-- made: name -->` becomes that part, and the page of a paper
ends with every number of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pomona
from pomona.base.files import replacing
from pomona.cli.catalogue import listing

ROOT = Path(__file__).resolve().parents[1]
FEW = 8  # rows of a paper in README.md
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.S)
MADE = re.compile(r"^<!-- made: (\w+) -->$", re.M)


def pages() -> list[Path]:
    """Every page that may hold blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """A page with its blocks made anew."""
    return BLOCK.sub(
        lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}" if found[2] in BLOCKS else found[0], text
    )


def built(text: str, page: str) -> str:
    """A page as the site shows it: long parts in their places and, if it is a paper's, all numbers at its end."""
    text = MADE.sub(lambda found: MADE_PARTS[found[1]](), text)
    results = ROOT / "results" / f"{page}.json"
    if results.exists():
        text += f"\n## Every number, printed and measured\n\n{everything(results)}\n"
    return text


# -- tables ----------------------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; what would end a cell or begin a tag is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


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


def headline(path: Path) -> list[dict[str, Any]]:
    """The first numbers that a paper printed; one that we measured in several ways stands there once, the first way."""
    found = cells(path)
    printed = [cell for cell in found if cell["printed"] is not None] or found
    once = {(cell["where"], cell["column"], cell["printed"]): cell for cell in reversed(printed)}
    return [cell for cell in printed if cell in once.values()][:FEW]


def _reproduced() -> str:
    rows = [
        (_linked(path.stem), cell["where"], cell["row"], cell["column"], *_values(cell))
        for path in results()
        for cell in headline(path)
    ]
    return table(["paper", "where", "row", "column", "printed", "measured", "runs"], rows)


def _linked(paper: str) -> str:
    return f"[{paper}](docs/{paper}.md)" if (ROOT / "docs" / f"{paper}.md").exists() else paper


def _values(cell: dict[str, Any]) -> tuple[str, str, str]:
    """What was printed, what was measured, and over how many runs; constants of the data need none."""
    measured = "not run yet" if cell["measured"] is None else _number(cell["measured"])
    return _number(cell["printed"]), measured, str(cell["runs"] or "")


def everything(path: Path) -> str:
    """Every cell of a paper, in the order of its tables and figures."""
    found = cells(path)
    parts = ["Lowest and highest are over runs; what needs no run, as a constant of the data, has none.\n"]
    for where in dict.fromkeys(cell["where"] for cell in found):
        rows = [
            (cell["row"], cell["column"], *_values(cell), _number(cell["low"]), _number(cell["high"]), cell["budget"])
            for cell in found
            if cell["where"] == where
        ]
        columns = ["row", "column", "printed", "measured", "runs", "lowest", "highest", "budget"]
        parts.append(f"### {where[:1].upper()}{where[1:]}\n\n{table(columns, rows)}\n")
    return "\n".join(parts)


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


def _api() -> str:
    """A directive for each public name, classes with their members."""
    parts = []
    for name in sorted(pomona._HOME, key=str.lower):
        kind = "class" if isinstance(getattr(pomona, name), type) else "function"
        if isinstance(getattr(pomona, name), type) and issubclass(getattr(pomona, name), Exception):
            kind = "exception"
        members = "   :members:\n" if kind == "class" else ""
        parts.append(f"```{{eval-rst}}\n.. auto{kind}:: pomona.{name}\n{members}```\n")
    return "\n".join(parts)


BLOCKS: dict[str, Callable[[], str]] = {
    "tasks": _tasks,
    "models": lambda: _short("models"),
    "models_with_tasks": _models_with_tasks,
    "measures": lambda: _short("measures"),
    "papers": lambda: _short("papers"),
    "map": _map,
    "reproduced": _reproduced,
}
MADE_PARTS: dict[str, Callable[[], str]] = {"catalogue": _catalogue, "api": _api}


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
