"""Fuzzing led by coverage: atheris changes a file so that the reader runs lines that it did not run before.

    python -m campaign.guided jsonl --seconds 600        # in an environment with atheris (not a dependency of ours)

What it finds is a raw exception, which ends the run; the input is then in the file `crash-*` of the working folder.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path


def main() -> None:
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["pomona"]):  # all that is imported, torch included, would take minutes
        from campaign.fuzzing import outcome, timed
        from campaign.material import make
        from campaign.readers import READERS
    name, *options = sys.argv[1:]
    seconds = options[options.index("--seconds") + 1] if "--seconds" in options else "60"
    reader = READERS[name]
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        home = make(Path(folder) / "home", experiments="game" in reader.file or "dynamics" in reader.file)
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        shutil.copyfile(home / reader.file, seeds / "seed")

        def one(data: bytes) -> None:
            (home / reader.file).write_bytes(data)
            what, detail = outcome(reader, home)
            if detail:
                raise RuntimeError(f"{what}: {detail}")

        timed()
        atheris.Setup([sys.argv[0], str(seeds), f"-max_total_time={seconds}", "-rss_limit_mb=4096"], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
