"""The folder of an experiment: whatever its settings have become, the answer is one line and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pomona.base.errors import RunError
from pomona.papers.tre_2019.folders import Folder

SETTINGS = {"seed": 0, "pairs": 2}


def test_a_folder_is_opened_again_with_the_same_settings(tmp_path: Path) -> None:
    Folder.open(tmp_path / "game", SETTINGS).write("scores.json", {"a": 1})
    assert Folder.open(tmp_path / "game", dict(reversed(SETTINGS.items()))).read("scores.json", None) == {"a": 1}


@pytest.mark.parametrize(
    "content",
    ["0", '""', "null", "[]", "[" * 3_000, "{", '{"seed": 0}', '{"seed": 0, "pairs": 2, "more": null}', "\ud800", ""],
)
def test_settings_that_are_others_or_none_are_an_error(tmp_path: Path, content: str) -> None:
    folder = Folder.open(tmp_path / "game", SETTINGS)
    (folder.path / "settings.json").write_text(content, errors="surrogatepass")
    with pytest.raises(RunError, match="game"):
        Folder.open(folder.path, SETTINGS)
    assert [path.name for path in folder.path.iterdir()] == ["settings.json"]
