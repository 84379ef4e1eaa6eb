"""Pomona: a laboratory for compositional generalisation.

    import pomona as pm

    corpus = pm.generate("listops/d20s", split="test", seed=7)
    print(corpus[0])                                   # tokens, answer, and the tree drawn with its values
    pm.write(corpus, "test.parquet")
    assert pm.verify("test.parquet").holds

The names below are the public face: values, verbs, what a new entry is made of, and the registries. What is needed less
often is in `pm.trees`, `pm.data`, `pm.fairness`, `pm.shortcuts` and `pm.representations`. Everything is loaded when it
is first used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pomona.base.lazy_names import lazy_names, value_at

__version__ = "0.1.0"

_HOMES = {
    # values
    "Certificate": "fairness",
    "Corpus": "data.corpus",
    "Evaluation": "evaluation.evaluation",
    "Example": "data.corpus",
    "Forest": "trees.forest",
    "PomonaError": "base.errors",
    "Recipe": "training.recipe",
    "Run": "training.run",
    "Score": "evaluation.score",
    "TreFit": "representations.tre",
    # verbs
    "certify": "fairness",
    "compare": "evaluation.comparison",
    "describe": "data.statistics",
    "draw": "trees.drawing",
    "evaluate": "evaluation.subjects",
    "generate": "data.task",
    "ladder": "shortcuts.ladder",
    "measure": "evaluation.measure",
    "predict": "training.predict",
    "read": "data.sources",
    "report": "reports",
    "represent": "training.predict",
    "reproduce": "papers.reproduce",
    "sweep": "sweeps.sweep",
    "train": "training.loop",
    "tre": "representations.tre",
    "verify": "data.verification",
    "write": "data.formats",
    # a new entry: decorators, base classes, and what their methods take and return
    "model": "models.model:MODELS.add",
    "paper": "papers.reproduce:PAPERS.add",
    "task": "data.task:TASKS.add",
    "ItemMeasure": "evaluation.measure",
    "Measure": "evaluation.measure",
    "Model": "models.model",
    "Output": "models.model",
    "Paper": "papers.reproduce",
    "Shape": "models.model",
    "Task": "data.task",
    # registries
    "MEASURES": "evaluation.measure",
    "MODELS": "models.model",
    "PAPERS": "papers.reproduce",
    "TASKS": "data.task",
}

_ROOMS = ("data", "fairness", "representations", "shortcuts", "trees")

_MOVED = {  # names that were here before, and their place now; they still work, with a warning
    "Answers": "data",
    "Comparison": "evaluation.comparison",
    "Operator": "trees",
    "Predictions": "training.predictions",
    "accuracy": "evaluation.accuracy",
    "best_accuracy": "shortcuts",
    "check": "fairness",
    "compare_fits": "representations",
    "compose": "fairness:compose_values",
    "copy_arguments": "trees",
    "copy_ceiling": "shortcuts",
    "define_operator": "trees",
    "denote": "trees",
    "effective_depth": "shortcuts.effective_depth",
    "fair_for": "fairness",
    "fold": "fairness",
    "latent_tre": "representations",
    "learn": "fairness",
    "minimal": "fairness",
    "mirror": "fairness",
    "parse_f1": "evaluation.parse_f1",
    "partial_correlation": "representations",
    "read_answers": "data",
    "read_orchard": "tasks.orchard.text:read",
    "read_tree": "trees:read",
    "steps": "trees",
    "stream": "data",
    "svg": "trees",
    "topographic_similarity": "representations",
    "tre_layers": "representations",
    "tree_edit_distance": "representations",
    "write_answers": "data",
    "write_inputs": "data",
    "write_tree": "trees:write",
}

__all__ = [*_HOMES, *_ROOMS, "__version__"]

if TYPE_CHECKING:
    from pomona import data, fairness, representations, shortcuts, trees
    from pomona.base.errors import PomonaError
    from pomona.data.corpus import Corpus, Example
    from pomona.data.formats import write
    from pomona.data.sources import read
    from pomona.data.statistics import describe
    from pomona.data.task import TASKS, Task, generate
    from pomona.data.verification import verify
    from pomona.evaluation.comparison import compare
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.measure import MEASURES, ItemMeasure, Measure, measure
    from pomona.evaluation.score import Score
    from pomona.evaluation.subjects import evaluate
    from pomona.fairness import Certificate, certify
    from pomona.models.model import MODELS, Model, Output, Shape
    from pomona.papers.reproduce import PAPERS, Paper, reproduce
    from pomona.reports import report
    from pomona.representations.tre import TreFit, tre
    from pomona.shortcuts.ladder import ladder
    from pomona.sweeps.sweep import sweep
    from pomona.training.loop import train
    from pomona.training.predict import predict, represent
    from pomona.training.recipe import Recipe
    from pomona.training.run import Run
    from pomona.trees.drawing import draw
    from pomona.trees.forest import Forest

    task, model, paper = TASKS.add, MODELS.add, PAPERS.add

_get, _names = lazy_names(__name__, _HOMES | {room: f"{room}:" for room in _ROOMS})


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        return _get(name)
    module, _, path = _MOVED[name].partition(":")
    message = f"pomona.{name} is deprecated: use pomona.{module}.{path or name}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return value_at(__name__, _MOVED[name], name)


def __dir__() -> list[str]:
    return sorted(__all__)
