"""What a newcomer sees in Python: short reprs, tables in a notebook whatever the data hold, and progress."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pomona as pm
from pomona.base import notebook, progress
from pomona.base.errors import TreeError
from pomona.training.predictions import Predictions

HOSTILE = "<script>alert(\"1\")</script><img src=x onerror='x'>&amp;\x1b[31m"
SIZES = {"train": 300, "dev": 20, "test": 1_000}
LONGEST = 500  # characters of a repr
SHOWN = {"Corpus", "Example", "Certificate", "Ladder", "Evaluation", "Comparison"}


def last_digit(texts: list[str]) -> list[str]:
    return [next(word for word in reversed(text.split()) if word.isdigit()) for text in texts]


@cache
def results() -> dict[str, Any]:
    """One of each kind of result that a user meets, of a corpus with a thousand examples."""
    train, test = (pm.generate("listops/d20s", split, seed=7, **SIZES) for split in ("train", "test"))
    found = pm.evaluate(last_digit, test, train=train)
    other = pm.evaluate(["7"] * len(test), test, ladders=False, name="seven")
    assert found.ladder is not None
    logits = pm.data.Answers("x", found.given).given  # the positions of the answers
    return {
        "Answers": found.answers,
        "Baselines": found.baselines,
        "Certificate": pm.certify(pm.fairness.fold(train), pm.fairness.fold(test)),
        "Comparison": pm.compare(found, other),
        "CompositionTree": pm.fairness.learn(train),
        "ComposedValues": pm.fairness.compose_values(pm.fairness.learn(train), test),
        "Corpus": test,
        "Description": pm.describe(test),
        "EffectiveDepth": found.depths[0],
        "Evaluation": found,
        "Example": max(test, key=lambda example: example.length),
        "FairSet": pm.fairness.minimal(pm.generate("propositional/paper", "train")),
        "Forest": test.forest,
        "Group": found.by("nesting")[0],
        "Ladder": found.ladder,
        "Predictions": Predictions("", tuple(range(3_000)), logits, None, tuple(map(str, range(3_000)))),
        "Recipe": pm.Recipe("lstm"),
        "Registry": pm.TASKS,
        "Rung": found.ladder.rungs[-1],
        "Score": found.accuracy,
        "Task": pm.TASKS.build("listops/d20s"),
    }


def test_reprs_are_short() -> None:
    for name, value in results().items():
        limit = 6_000 if name == "Example" else LONGEST  # an example draws its tree
        assert 0 < len(repr(value)) <= limit, name
        assert "array(" not in repr(value), name


def test_a_verification_of_many_faults_is_short(tmp_path: Path) -> None:
    (tmp_path / "wrong.tsv").write_text("1\t( ( ( [MAX 2 ) 9 ) ] )\n" * 500)
    result = pm.verify(tmp_path / "wrong.tsv")
    assert len(result.problems) >= 500
    assert len(repr(result)) <= LONGEST + len(str(tmp_path))


# -- notebooks -------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags, attributes and text of a piece of HTML; what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


KNOWN = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "svg", "title", "style", "path", "text", "tspan"}
ATTRIBUTES = {"style", "class", "xmlns", "role", "width", "height", "viewbox", "d", "x", "y", "dy", "dx"}


def test_results_are_tables_in_a_notebook() -> None:
    for name in SHOWN:
        found = Tags(results()[name]._repr_html_())
        assert found.tags <= KNOWN, name
        assert found.attributes <= ATTRIBUTES, name
        assert len(results()[name]._repr_html_()) < 60_000, name
    page = Tags(results()["Evaluation"]._repr_html_()).text
    assert f"{results()['Evaluation'].accuracy.value:.2%}" in page
    assert results()["EffectiveDepth"].sentence in page
    assert all(rung.name in page for rung in results()["Ladder"].rungs)


def hostile(folder: Path) -> dict[str, Any]:
    """Results of a corpus whose names, tokens, values and path are markup."""
    path = folder / "a<b>&c.jsonl"
    rows = []
    for row in range(40):
        leaves = [{"type": HOSTILE, "value": f"{HOSTILE}{row % 3}"}, {"value": f"<b>{row}"}]
        tree = {"type": f"</td>{HOSTILE}", "value": f"<i>{row % 2}", "children": leaves}
        rows.append({"tree": tree})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = pm.read(path)
    found = pm.evaluate(["<i>1"] * 40, corpus, name=HOSTILE, train=corpus[:20])
    found = dataclasses.replace(found, measures={HOSTILE: {"<u>": HOSTILE}}, notes=(HOSTILE,))
    other = pm.evaluate(["<i>0"] * 40, corpus, name="</table>", ladders=False)
    return {
        "Corpus": corpus,
        "Example": corpus[0],
        "Certificate": pm.certify(corpus[:1], corpus),
        "Ladder": found.ladder,
        "Evaluation": found,
        "Comparison": pm.compare(found, other),
    }


def test_text_from_outside_is_text_and_no_markup(tmp_path: Path) -> None:
    made = hostile(tmp_path)
    assert made.keys() == SHOWN
    for name, value in made.items():
        found = Tags(value._repr_html_())
        assert found.tags <= KNOWN, name
        assert found.attributes <= ATTRIBUTES, name
        assert "<" in found.text, name  # the markup is there to be read


def test_what_is_long_is_cut_and_a_bar_has_a_length() -> None:
    assert len(notebook.escaped("<" * 10_000)) <= 4 * notebook.LONGEST
    assert "width:0px" in notebook.bar(float("nan"))
    assert "width:160px" in notebook.bar(3.0)
    assert "width:40px" in notebook.bar(0.25)


# -- drawing ---------------------------------------------------------------------------------------------------------


def test_draw_takes_an_example() -> None:
    (example,) = pm.Corpus.of_trees(pm.trees.read("[MAX 2 [MIN 4 7 ] ]"))
    assert pm.draw(example) == pm.draw(example.trees, example.values) == "MAX = 4\n├─ 2\n└─ MIN = 4\n   └─ 4 7"
    assert pm.trees.svg(example) == pm.trees.svg(example.trees, example.values)
    with pytest.raises(TreeError, match="trees are a Forest or an Example; got str"):
        pm.draw("[MAX 2 9 ]")  # type: ignore[arg-type]


# -- progress --------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is shown at once, and nobody has silenced it."""
    monkeypatch.setattr(progress, "DELAY", -1.0)
    monkeypatch.setattr(progress, "EVERY", -1.0)
    monkeypatch.setattr(progress, "_silent", False)


def work(folder: Path, **how: Any) -> None:
    pm.generate("listops/d20s", "test", chunk=500, **SIZES, **how)
    pm.train(pm.Recipe("lstm", data_settings=SIZES, dev_rows=10, epochs=1, rows=64, longest=30), folder, **how)


@pytest.mark.usefixtures("quick")
def test_progress_is_a_bar_in_a_terminal_and_nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    cases = [(Terminal(), {}, True), (Terminal(), {"progress": False}, False), (io.StringIO(), {}, False)]
    for terminal, how, shown in cases:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            patch.setattr(sys, "stdout", out := io.StringIO())
            work(tmp_path / str(len(list(tmp_path.iterdir()))), **how)
        assert ("lstm on listops/d20s" in terminal.getvalue() and "listops test" in terminal.getvalue()) == shown
        assert shown or terminal.getvalue() == ""
        assert out.getvalue() == ""


@pytest.mark.usefixtures("quick")
def test_progress_is_a_line_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", type(sys)("ipykernel"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out := io.StringIO())
        work(tmp_path / "run")
    text = out.getvalue()
    assert "lstm on listops/d20s: 100%  epoch 1, loss " in text
    assert "\n" not in text
    assert text.split("\r")[-1] == ""
    assert text.split("\r")[-2].strip() == ""  # wiped at the end


@pytest.mark.usefixtures("quick")
def test_silence_is_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.silence()
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    work(tmp_path / "run")
    assert terminal.getvalue() == ""
