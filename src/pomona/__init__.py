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
    "Corpus": "corpus",
    "Answers": "answers",
    "Comparison": "comparing",
    "Evaluation": "evaluation",
    "Example": "corpus",
    "Forest": "trees",
    "Operator": "algebra",
    "PomonaError": "errors",
    "Predictions": "runs",
    "Recipe": "runs",
    "Run": "runs",
    "Score": "runs",
    "Task": "sampling",
    "TreFit": "reconstruction",
    "certify": "fairness",
    "accuracy": "measures.accuracy",
    "best_accuracy": "shortcuts",
    "check": "fairness",
    "compose": "fairness",
    "fair_for": "fairness",
    "fold": "fairness",
    "learn": "fairness",
    "compare": "comparing",
    "compare_fits": "reconstruction",
    "copy_arguments": "orchard_text",
    "copy_ceiling": "shortcuts",
    "define_operator": "algebra",
    "denote": "algebra",
    "describe": "describing",
    "draw": "drawing",
    "effective_depth": "measures.effective_depth",
    "evaluate": "evaluating",
    "generate": "sampling",
    "ladder": "shortcuts",
    "latent_tre": "reconstruction",
    "minimal": "fairness",
    "mirror": "fairness",
    "model": "modelling:MODELS.add",
    "parse_f1": "measures.parse_f1",
    "partial_correlation": "reconstruction",
    "predict": "training",
    "read": "formats",
    "read_answers": "answers",
    "read_orchard": "orchard_text:read",
    "report": "reporting",
    "represent": "training",
    "reproduce": "reproducing",
    "read_tree": "brackets:read",
    "steps": "algebra",
    "stream": "sampling",
    "svg": "drawing",
    "task": "sampling:TASKS.add",
    "topographic_similarity": "measures.topographic",
    "train": "training",
    "tre": "reconstruction",
    "tre_layers": "reconstruction",
    "tree_edit_distance": "measures.edit_distance",
    "verify": "verifying",
    "write": "formats",
    "write_answers": "answers",
    "write_inputs": "answers",
    "write_tree": "brackets:write",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from pomona.algebra import Operator, define_operator, denote, steps
    from pomona.answers import Answers, read_answers, write_answers, write_inputs
    from pomona.brackets import read as read_tree
    from pomona.brackets import write as write_tree
    from pomona.comparing import Comparison, compare
    from pomona.corpus import Corpus, Example
    from pomona.describing import describe
    from pomona.drawing import draw, svg
    from pomona.errors import PomonaError
    from pomona.evaluating import evaluate
    from pomona.evaluation import Evaluation
    from pomona.fairness import Certificate, certify, check, compose, fair_for, fold, learn, minimal, mirror
    from pomona.formats import read, write
    from pomona.measures.accuracy import accuracy
    from pomona.measures.edit_distance import tree_edit_distance
    from pomona.measures.effective_depth import effective_depth
    from pomona.measures.parse_f1 import parse_f1
    from pomona.measures.topographic import topographic_similarity
    from pomona.modelling import MODELS
    from pomona.orchard_text import copy_arguments
    from pomona.orchard_text import read as read_orchard
    from pomona.reconstruction import TreFit, compare_fits, latent_tre, partial_correlation, tre, tre_layers
    from pomona.reporting import report
    from pomona.reproducing import reproduce
    from pomona.runs import Predictions, Recipe, Run, Score
    from pomona.sampling import TASKS, Task, generate, stream
    from pomona.shortcuts import best_accuracy, copy_ceiling, ladder
    from pomona.training import predict, represent, train
    from pomona.trees import Forest
    from pomona.verifying import verify

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
