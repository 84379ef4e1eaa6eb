"""Data: corpora of examples, the tasks that draw them, and what is known about them.

    corpus    Corpus and Example: tokens, trees, values, targets     task          Task, its splits, generate
    answers   what a model answered, and files of it                 groups        examples that belong together
    pool      distinct draws, dealt out to splits                    sources       a corpus by file or task name
    formats   files of a corpus, one module for each format          nested_objects  trees as JSON objects
    statistics  lengths, depths and labels of a corpus               verification  every row evaluated again

For users: `pm.data.read_answers`, `write_answers`, `write_inputs`, `stream` and `Answers`, beside what `pm` itself has.
Modules of Pomona import from the files themselves. This room imports only `base` and `trees`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pomona.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pomona.data.answers import Answers, read_answers, write_answers, write_inputs
    from pomona.data.task import stream

__all__ = ["Answers", "read_answers", "stream", "write_answers", "write_inputs"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Answers": "answers",
        "read_answers": "answers",
        "stream": "task",
        "write_answers": "answers",
        "write_inputs": "answers",
    },
)
