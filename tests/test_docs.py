"""The docs tell the truth: what is made from the code is up to date, and what a reader would type runs."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import generated
import pomona
import reference
from doc_pages import run_page
from pomona.base.errors import SpecError
from pomona.cli import catalogue
from pomona.cli.main import app
from pomona.cli.verbs import Verbs
from pomona.data.task import TASKS
from pomona.evaluation.measure import MEASURES
from pomona.models.model import MODELS
from pomona.papers.reproduce import PAPERS

ROOT = Path(__file__).parents[1]
README, EXTENDING = ROOT / "README.md", ROOT / "docs" / "extending.md"
FOLDERS = {"tasks": TASKS, "models": MODELS, "measures": MEASURES, "papers": PAPERS}
PYTHON = re.compile(r"```python\n(.*?)```", re.S)

# -- what is made from the code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", generated.pages(), ids=lambda page: page.name)
def test_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generated.filled(text) == text, f"{page.name} is out of date: run `make tables`"


def test_the_readme_has_its_tables_and_the_catalogue_every_name() -> None:
    text = README.read_text(encoding="utf-8")
    assert {found[2] for found in generated.BLOCK.finditer(text)} == {"map", "reproduced"}
    page = generated.built("<!-- made: catalogue -->", "catalogue")
    for kind in catalogue.KINDS:
        part = page.partition(f"## {kind.capitalize()}\n")[2].partition("\n## ")[0]
        assert set(re.findall(r"^\| `([\w/-]+)` \|", part, re.M)) == set(catalogue.listing(kind)), kind
    models = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \| `[\w/-]+` \|", models, re.M)) == set(catalogue.listing("models"))


def test_a_block_is_made_anew_and_nothing_else_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generated.BLOCKS, "tasks", lambda: "new")
    before = "a\n<!-- tasks -->\nold\n<!-- /tasks -->\n<!-- other -->\nkept\n<!-- /other -->\n<!-- tasks -->"
    assert generated.filled(before) == before.replace("old", "new")


def test_results_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A number that is not there is not made up, and no text from a file ends a cell or begins a tag."""
    shared = {"where": "Table 1", "runs": 0, "low": None, "high": None, "budget": "cpu", "column": "accuracy"}
    trained = {"recipe": "0123456789abcdef", "seen": 150_000, "still_rising": 2}
    cells = [
        {**shared, "row": "unmeasured", "printed": 73.3, "measured": None, **trained, "still_rising": None},
        {**shared, "row": "a|b <i>", "printed": 98.7, "measured": 99.5, "runs": 4, "low": 99.1, **trained},
        {**shared, "row": "ours alone", "printed": None, "measured": 12.0},
        {**shared, "row": "kept", "printed": None, "measured": 1.0, "runs": 1, **trained, "older_recipe": True},
    ]
    (tmp_path / "results").mkdir()
    recipes = {"0123456789abcdef": "pomona train lstm"}
    (tmp_path / "results" / "some_2026.json").write_text(json.dumps({"cells": cells, "recipes": recipes}))
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    page = generated.built("# Some\n", "some_2026")
    assert page.startswith("# Some\n\n## Every number")
    assert "| unmeasured | accuracy | 73.3 | not run yet |  |  |  |  |  |  | cpu |" in page
    assert "| a\\|b &lt;i> | accuracy | 98.7 | 99.5 | 4 | 99.1 |  | `012345` | 150,000 | 2 of 4 | cpu |" in page
    assert "| ours alone | accuracy |  | 12.0 |  |" in page
    assert "| older recipe | 150,000 | 2 of 1 | cpu |" in page
    assert "| `012345` | `pomona train lstm` |" in page
    assert generated.built("# Other\n", "other_2026") == "# Other\n"


def test_the_reference_has_every_public_name_once_and_every_option() -> None:
    listed = [name for names in reference.TOPICS.values() for name in names]
    assert sorted(listed) == sorted(set(pomona.__all__) - set(reference.ROOMS) - {"__version__"})
    page = generated.built("<!-- made: api -->", "api")
    assert all(f"pomona.{name}\n" in page or f"`pm.{name}`" in page for name in listed)
    commands = generated.built("<!-- made: commands -->", "commands")
    for verb, command in Verbs().items():
        part = commands.partition(f"## pomona {verb}\n")[2].partition("\n## ")[0]
        shown = [option for one in command.params if not getattr(one, "hidden", False) for option in one.opts]
        assert all(f"`{option}`" in part or f"`{option.upper()}`" in part for option in shown), verb


def test_a_directive_of_the_api_names_what_can_be_imported() -> None:
    for path in re.findall(r"auto\w+:: pomona\.(\w+)", reference.api()):
        assert callable(getattr(pomona, path))


def test_a_papers_page_and_its_line_in_the_readme_come_from_one_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both are made from the paper's claims and its results; a changed number changes both."""
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / "fair_nli_2019.json"
    results = json.loads((ROOT / "results" / "fair_nli_2019.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    for cell in results["cells"]:
        if (cell["where"], cell["row"], cell["column"]) == ("Table 3", "CBoW", "test"):
            cell |= {"measured": 12.0, "interval": None, "still_rising": 0}
    path.write_text(json.dumps(results))
    line = generated.BLOCKS["reproduced"]()
    opening = generated.filled("<!-- verdicts_fair_nli_2019 -->\n<!-- /verdicts_fair_nli_2019 -->")
    assert "| CBoW fails on the hardest task | 54.0 ± 0.27 | 12.0, 5 runs | **not reproduced" in opening
    assert "CBoW fails on the hardest task" in line.splitlines()[2].split(" | ")[2]


def test_the_page_of_every_paper_opens_with_its_verdicts() -> None:
    for path in generated.results():
        page = (ROOT / "docs" / f"{path.stem}.md").read_text(encoding="utf-8")
        if generated.claims(path):
            assert f"<!-- verdicts_{path.stem} -->" in page[:1_500], f"{page[:40]} does not open with its verdicts"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {name for block in re.findall(r"```{toctree}\n.*?\n\n(.*?)```", index, re.S) for name in block.split()}
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem in listed | {"index"} or any(page.match(f"{name}.md") for name in listed), page.name


# -- what a reader would type ----------------------------------------------------------------------------------------


TUTORIALS = [ROOT / "docs" / f"own_{what}.md" for what in ("model", "split", "task", "vectors")]


@pytest.mark.parametrize("page", [README, *TUTORIALS], ids=lambda page: page.stem)
def test_a_page_runs_as_it_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block: files are written, Python is executed, commands are called, and their output is compared."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(ROOT / "examples", "examples")
    for registry in (TASKS, MODELS):  # what the page adds is gone afterwards
        entries = {entry.name: entry for entry in registry.entries()}
        monkeypatch.setattr(registry, "_entries", entries)
    known = set(sys.modules)
    assert run_page(page) > 3
    for name in set(sys.modules) - known:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def test_a_page_with_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```sh\npomona ls papers\n```\n\n```text\nlistops_2018\n...\nfair_nli_2019\n```\n")
    with pytest.raises(
        AssertionError, match=r"page\.md, line 5: 'fair_nli_2019' is not in what was printed, or not in this"
    ):
        run_page(page)
    page.write_text("```sh\npomona lss\n```\n")
    with pytest.raises(AssertionError, match="'pomona lss' ended with 2"):
        run_page(page)


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if ">>> " in page.read_text(encoding="utf-8")]
ELSEWHERE = ("fairness.md", "parse_f1.md")  # run by the tests of what they are about


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=lambda page: page.name)
def test_a_page_of_examples_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert done.attempted > 3
    assert done.failed == 0


@pytest.fixture
def new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of the page in their folders, as far as Python can tell, and gone afterwards."""
    text = EXTENDING.read_text(encoding="utf-8")
    files = re.findall(r"`src/pomona/([\w/]+)/(\w+)\.py`:\n\n```python\n(.*?)```", text, re.S)
    for folder, name, code in files:
        package = importlib.import_module(f"pomona.{folder}".replace("/", "."))
        home = tmp_path / folder
        home.mkdir(parents=True, exist_ok=True)
        (home / f"{name}.py").write_text(code, encoding="utf-8")
        if str(home) not in package.__path__:
            monkeypatch.setattr(package, "__path__", [*package.__path__, str(home)])
    importlib.invalidate_caches()
    known = {folder: set(registry._entries) for folder, registry in FOLDERS.items()}
    modules = set(sys.modules)
    yield [folder for folder, _, _ in files]
    for folder, registry in FOLDERS.items():
        for name in set(registry._entries) - known[folder]:
            if name in ("coins", "mean", "digit-distance", "coins_2026"):
                del registry._entries[name]
    for module in set(sys.modules) - modules:
        if re.fullmatch(r"pomona\.[a-z.]+\.(coins|mean|digit_distance|coins_2026)", module):
            del sys.modules[module]


def test_four_new_files_are_a_laboratory(
    new_files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_files == ["tasks", "models/sentence", "measures", "papers"]
    monkeypatch.chdir(tmp_path)
    world: dict[str, Any] = {}
    uses = [code for code in PYTHON.findall(EXTENDING.read_text(encoding="utf-8")) if not code.startswith('"""')]
    assert len(uses) == 4
    for code in uses:
        exec(compile(code, "extending.md", "exec"), world)
    assert "Score(" in capsys.readouterr().out
    commands = re.findall(r"^pomona (.*)$", EXTENDING.read_text(encoding="utf-8"), re.M)
    assert len(commands) == 4
    for command in commands:
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 0, done.output
        assert "digit-distance" in done.output or command.startswith("report")
    assert "digit-distance" in Path("report", "index.html").read_text(encoding="utf-8")
    cell = json.loads((tmp_path / "results" / "coins_2026.json").read_text())["cells"][0]
    assert cell["printed"] == 21.0
    assert 0 <= cell["measured"] <= 100
    assert {"coins/fair", "coins/three-sided"} <= set(catalogue.tasks(family="coins"))


# -- what there is ---------------------------------------------------------------------------------------------------


def test_the_catalogue_has_what_the_folders_have() -> None:
    for kind in catalogue.KINDS:
        found = catalogue.listing(kind)
        assert all(one["about"] for one in found.values()), kind
        assert json.loads(json.dumps(found)) == found
    assert catalogue.listing("measures")["topsim"]["reads"] == ["meanings", "messages"]
    assert catalogue.listing("measures")["parse-f1"]["settings"] == {"average": "macro", "root": True, "leaves": False}
    assert "Table 1" in catalogue.listing("papers")["listops_2018"]["places"]
    with pytest.raises(SpecError, match=r"there are no 'modles'\. Did you mean 'models'\?"):
        catalogue.listing("modles")


# -- commands that are shown and not run -----------------------------------------------------------------------------


def shown_commands() -> Iterator[tuple[str, str]]:
    """Every line of code that begins with `pomona`, with its page; what stands behind two blanks is a note."""
    for page in [*generated.pages(), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M):
            one_line = re.sub(r"'[^'\n]*\n[^']*'", lambda quoted: " ".join(quoted[0].split()), block)
            for line in one_line.replace("\\\n", " ").splitlines():
                if re.match(r"(\$ )?pomona [a-z]", line.strip()):
                    yield page.name, re.split(r" {2,}(?! *--)", line.strip())[0].removeprefix("$ ")


def test_every_command_that_is_shown_exists_with_its_options() -> None:
    """Also where a block is not run because it takes hours: no option of it is misspelt or gone."""
    verbs, wrong, seen = Verbs(), [], 0
    for page, line in shown_commands():
        try:
            words = shlex.split(line, comments=True)[1:]
            command = verbs[words[0]]
            command.make_parser(command.context_class(command, info_name=words[0])).parse_args(words[1:])
            seen += 1
        except Exception as error:
            wrong.append(f"{page}: {line}: {error or type(error).__name__}")
    assert not wrong, "\n".join(wrong)
    assert seen > 60
