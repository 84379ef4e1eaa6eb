"""Pomona: a laboratory for compositional generalisation.

    import pomona as pm

    corpus = pm.generate("listops/d20s", split="test", seed=7)
    print(corpus[0])                                   # tokens, answer, and the tree drawn with its values
    pm.write(corpus, "test.parquet")
    assert pm.verify("test.parquet").holds

The names below are the whole public face; each is loaded when it is first touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Certificate": "fairness",
    "Corpus": "data.corpus",
    "Answers": "data.answers",
    "Comparison": "evaluation.comparison",
    "Evaluation": "evaluation.evaluation",
    "Example": "data.corpus",
    "Forest": "trees.forest",
    "Operator": "trees.operators",
    "PomonaError": "base.errors",
    "Predictions": "training.run",
    "Recipe": "training.run",
    "Run": "training.run",
    "Score": "training.run",
    "Task": "data.task",
    "TreFit": "representations.tre",
    "certify": "fairness",
    "accuracy": "evaluation.accuracy",
    "best_accuracy": "shortcuts.ladder",
    "check": "fairness",
    "compose_values": "fairness",
    "fair_for": "fairness",
    "fold": "fairness",
    "learn": "fairness",
    "compare": "evaluation.comparison",
    "compare_fits": "representations.tre",
    "copy_arguments": "trees.links",
    "copy_ceiling": "shortcuts.ladder",
    "define_operator": "trees.operators",
    "denote": "trees.operators",
    "describe": "data.statistics",
    "draw": "trees.drawing",
    "effective_depth": "shortcuts.effective_depth",
    "evaluate": "evaluation.subjects",
    "generate": "data.task",
    "ladder": "shortcuts.ladder",
    "latent_tre": "representations.tre",
    "minimal": "fairness",
    "mirror": "fairness",
    "model": "models.model:MODELS.add",
    "parse_f1": "evaluation.parse_f1",
    "partial_correlation": "representations.tre",
    "predict": "training.loop",
    "read": "data.formats",
    "read_answers": "data.answers",
    "read_orchard": "tasks.orchard.text:read",
    "report": "reports",
    "represent": "training.loop",
    "reproduce": "papers.reproduce",
    "read_tree": "trees.brackets:read",
    "steps": "trees.operators",
    "stream": "data.task",
    "svg": "trees.drawing",
    "task": "data.task:TASKS.add",
    "topographic_similarity": "representations.topographic",
    "train": "training.loop",
    "tre": "representations.tre",
    "tre_layers": "representations.tre",
    "tree_edit_distance": "representations.edit_distance",
    "verify": "data.verification",
    "write": "data.formats",
    "write_answers": "data.answers",
    "write_inputs": "data.answers",
    "write_tree": "trees.brackets:write",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from pomona.base.errors import PomonaError
    from pomona.data.answers import Answers, read_answers, write_answers, write_inputs
    from pomona.data.corpus import Corpus, Example
    from pomona.data.formats import read, write
    from pomona.data.statistics import describe
    from pomona.data.task import TASKS, Task, generate, stream
    from pomona.data.verification import verify
    from pomona.evaluation.accuracy import accuracy
    from pomona.evaluation.comparison import Comparison, compare
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.parse_f1 import parse_f1
    from pomona.evaluation.subjects import evaluate
    from pomona.fairness import Certificate, certify, check, compose_values, fair_for, fold, learn, minimal, mirror
    from pomona.models.model import MODELS
    from pomona.papers.reproduce import reproduce
    from pomona.reports import report
    from pomona.representations.edit_distance import tree_edit_distance
    from pomona.representations.topographic import topographic_similarity
    from pomona.representations.tre import TreFit, compare_fits, latent_tre, partial_correlation, tre, tre_layers
    from pomona.shortcuts.effective_depth import effective_depth
    from pomona.shortcuts.ladder import best_accuracy, copy_ceiling, ladder
    from pomona.tasks.orchard.text import read as read_orchard
    from pomona.training.loop import predict, represent, train
    from pomona.training.run import Predictions, Recipe, Run, Score
    from pomona.trees.brackets import read as read_tree
    from pomona.trees.brackets import write as write_tree
    from pomona.trees.drawing import draw, svg
    from pomona.trees.forest import Forest
    from pomona.trees.links import copy_arguments
    from pomona.trees.operators import Operator, define_operator, denote, steps

    task = TASKS.add
    model = MODELS.add


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"pomona has no {name!r}; it offers {', '.join(sorted(_HOME))}")
    module, _, path = _HOME[name].partition(":")
    value: Any = importlib.import_module(f"pomona.{module}")
    for part in (path or name).split("."):
        value = getattr(value, part)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
