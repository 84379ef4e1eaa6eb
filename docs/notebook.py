"""Makes the notebook docs/first_hour.ipynb from docs/first_hour.py, which is easier to read and to compare.

    python docs/notebook.py

In the script `# %% [markdown]` begins a cell of text and `# %%` one of code. Outputs are not stored; every cell is run
by tests/test_notebook.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPT, NOTEBOOK = HERE / "first_hour.py", HERE / "first_hour.ipynb"
MARK = "# %%"


def cells(script: str) -> list[tuple[str, str]]:
    """The kind (markdown or code) and the content of each cell."""
    found = []
    for part in script.split(f"\n{MARK}")[1:]:
        kind, _, body = part.partition("\n")
        lines = body.strip("\n").split("\n")
        if "[markdown]" in kind:
            found.append(("markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)))
        else:
            found.append(("code", "\n".join(lines)))
    return found


def built() -> str:
    """The notebook as text."""
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells(SCRIPT.read_text(encoding="utf-8"))):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = [f"{line}\n" for line in text.split("\n")[:-1]] + [text.split("\n")[-1]]
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(built(), encoding="utf-8")
