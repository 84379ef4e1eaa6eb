"""Every file that the package writes goes through `pomona.base.files`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pomona

PACKAGE = Path(pomona.__file__).parent
DOOR = "base/files.py"
WRITERS = {"write_text", "write_bytes", "savefig", "tofile", "to_csv", "to_parquet", "hardlink_to"}
FUNCTIONS = {"np.save", "np.savez", "np.savetxt", "torch.save", "pq.write_table", "json.dump", "pickle.dump",
             "os.replace", "os.rename", "shutil.copy", "shutil.copyfile", "shutil.move", "save_file",
             "pq.ParquetWriter"}  # fmt: skip
OURS = {"self", "run", "folder", "files", "self.run"}  # Run and Folder have methods of these names, which use the door
# A format's writer is given the temporary path by `formats.writing`, which has it from the door.
FORMATS = {
    "data/formats/csv.py", "data/formats/jsonl.py", "data/formats/parquet.py", "data/formats/ptb.py",
    "tasks/listops/files.py", "tasks/orchard/files.py", "tasks/fair_nli/files.py",
}  # fmt: skip
# Locks hold no content; the traceback of a bug must not depend on the code that may have the bug.
NOT_CONTENT = {("cli/main.py", "open"), ("base/locks.py", "os.open")}


def name_of(node: ast.expr) -> str:
    return ast.unparse(node)


def writes(call: ast.Call) -> bool:
    """Whether a call writes a file."""
    name = name_of(call.func)
    last = name.rpartition(".")[2]
    if last == "open":
        modes = [
            *call.args[: 1 + (name in ("open", "gzip.open"))],
            *(item.value for item in call.keywords if item.arg == "mode"),
        ]
        texts = [node.value for node in modes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        return any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
    if name in ("write_text", "write_bytes"):  # the door's own functions; those of a path have an owner
        return False
    return last in WRITERS or name in FUNCTIONS or (last == "replace" and len(call.args) == 1 and not call.keywords)


def beside(tree: ast.AST) -> Iterator[tuple[ast.With, set[str]]]:
    """Each block inside `with replacing(...) as name`, and its names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            names = {
                name_of(item.optional_vars)
                for item in node.items
                if item.optional_vars is not None
                and name_of(item.context_expr).startswith(("replacing(", "files.replacing("))
            }
            if names:
                yield node, names


def through_the_door(tree: ast.AST) -> set[int]:
    """The calls that write to a path that the door gave."""
    calls = set()
    for block, names in beside(tree):
        opened = {
            name_of(item.optional_vars)
            for item in block.items
            if item.optional_vars is not None and name_of(item.context_expr).split(".")[0] in names
        }
        for node in ast.walk(block):
            if isinstance(node, ast.Call):
                given = map(name_of, node.args)
                calls |= {id(node)} if {name_of(node.func).split(".")[0], *given} & (names | opened) else set()
    return calls


def outside(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    where, allowed = str(path.relative_to(PACKAGE)), through_the_door(tree)
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and writes(node) and id(node) not in allowed:
            owner = name_of(node.func).rpartition(".")[0]
            if owner in OURS or (where, name_of(node.func)) in NOT_CONTENT:
                continue
            wrong.append(f"{where}:{node.lineno}: {name_of(node)[:80]}")
    return wrong


def test_every_file_is_written_through_one_door() -> None:
    wrong = [
        line
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in {DOOR, *FORMATS}
        for line in outside(path)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "open('x', 'w')", "path.open('wb')", "path.write_text('x')", "figure.savefig(path)", "np.save(path, array)",
        "with replacing(path) as beside:\n    other.write_text('x')", "open(path, mode='a')", "part.replace(target)",
        "os.replace(part, target)", "path.open('r+b')",
    ],
)  # fmt: skip
def test_a_writer_that_goes_around_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr("test_one_door.PACKAGE", tmp_path)
    (tmp_path / "module.py").write_text(code)
    assert outside(tmp_path / "module.py")


def test_formats_write_nowhere_but_to_the_path_they_are_given() -> None:
    for name in FORMATS:
        text = (PACKAGE / name).read_text()
        assert "def __init__(self, path: Path, shown: Path" in text, name
        assert "shown.open" not in text, name
        assert "write_text" not in text, name


def test_numpy_writes_no_file_by_itself() -> None:
    """Into an open file NumPy writes through C, and does not say that a full disk took only some of it."""
    calls = {
        (str(path.relative_to(PACKAGE)), name_of(node.func))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and (name_of(node.func) == "np.save" or name_of(node.func).endswith(".tofile"))
    }
    assert calls == {(DOOR, "np.save")}, "`files.write_array` saves arrays"
