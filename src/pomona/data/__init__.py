"""Data: examples, the tasks that draw them, and everything that is known of them before a model comes in.

    corpus          Corpus and Example, column by column; `Corpus.of_trees`, content keys, fingerprints
    task, pool      what a task declares; generate; the distinct draws that splits are dealt from
    formats/        files of a corpus: a registry, one module for each format; nested_objects: trees as JSON objects
    sources         a corpus by its file or by the name of a task
    answers         answers to the examples of a corpus, from files or models
    groups          rows that belong together: by depth, length, operator
    shards/         a split in many files, for any number of rows: generate_shards, Shards
    statistics      a corpus in numbers; verification: every row evaluated again (label_report: by a prover)

For users: `pm.data.read_answers`, `write_answers`, `write_inputs`, `stream`, `Answers`, `generate_shards`, `Shards` and
`workers`, beside what `pm` itself has.
Modules of Pomona import from the files themselves. This room imports only `base` and `trees`; what belongs to one task
is in `pomona.tasks`, and data asks for it through the methods of `Task`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pomona.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pomona.base.workers import workers
    from pomona.data.answers import Answers, read_answers, write_answers, write_inputs
    from pomona.data.shards.folder import Shards
    from pomona.data.shards.generation import generate_shards
    from pomona.data.task import stream

__all__ = [
    "Answers",
    "Shards",
    "generate_shards",
    "read_answers",
    "stream",
    "workers",
    "write_answers",
    "write_inputs",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Answers": "answers",
        "Shards": "shards.folder",
        "generate_shards": "shards.generation",
        "read_answers": "answers",
        "stream": "task",
        "workers": "shards.generation",
        "write_answers": "answers",
        "write_inputs": "answers",
    },
)
