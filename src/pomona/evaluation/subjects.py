"""What can be evaluated, smallest effort first: a file of answers, a function, a module, a run.

    pm.evaluate("answers.jsonl", test)                     lines of {"id", "prediction"}; ids from `pomona export`
    pm.evaluate(lambda texts: ["7"] * len(texts), test)    a function from strings to strings
    pm.evaluate(module, test, vocabulary=words, outcomes=answers)
    pm.evaluate("runs/tree", test)                         a folder that `pomona train` wrote
    pm.evaluate("package.module:answer", test)             imports and runs that module

A **module** is a `torch.nn.Module` of one of two kinds, told apart by the arguments of `forward`:

    forward(ids, mask)     ids [batch, length] are numbers of words in `vocabulary`; mask is True at words and False
                           behind the end of a row. Returns logits [batch, outcomes], or [batch, questions, outcomes].
                           An optional method `parse(ids, mask)` returns trees in brackets, one text for each row.
    forward(batch)         batch is an `inputs.sentences.Batch`; returns a `models.model.Output`, as Pomona's models do

Only the owner of a module knows which number means which word or answer: `vocabulary` and `outcomes` are attributes of
the module, or arguments of `evaluate`. Torch is imported only where there is a module or a run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, RunError, SpecError
from pomona.base.extras import extras_named
from pomona.base.files import kind_of
from pomona.base.registry import imported, is_import
from pomona.data.answers import Answers, answers_given, read_answers, trees_over
from pomona.data.corpus import Corpus
from pomona.data.sources import corpus_from
from pomona.evaluation.accuracy import answers_from, positions
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.evaluation.evaluation import Evaluation, Inside
from pomona.evaluation.measure import with_measures
from pomona.evaluation.overlap import overlap, overlap_notes, refuse_overlap
from pomona.training.predictions import Predictions
from pomona.training.run import Run
from pomona.trees.values import renumber

ROWS, AREA = 256, 1 << 14  # rows and positions of a batch


@dataclass(frozen=True)
class Reading:
    """How a model is asked: `rows` at a time; the words and outcomes of a module; `which` weights of a run, best or
    last, and how many threads torch uses for them. A run is not asked about examples that it was trained on, unless
    `allow_overlap` says so."""

    rows: int = ROWS
    vocabulary: Sequence[str] | None = None
    outcomes: Sequence[Any] | None = None
    which: str = "best"
    threads: int = 1
    allow_overlap: bool = False


def evaluate(
    subject: Any,
    corpus: Corpus | str,
    *,
    name: str = "",
    train: Corpus | None = None,
    ladders: bool = True,
    train_depth: int | None = None,
    measures: Sequence[str] = (),
    **how: Any,
) -> Evaluation:
    """Evaluate a model on a corpus; `how` are the fields of Reading.

    The ladder and the effective depth learn from `train`, else by the rule of `baselines.learning_examples`;
    `ladders=False` leaves both out. `measures` names further measures, for example "topsim" or "tre".
    """
    corpus = corpus_from(corpus) if isinstance(corpus, str) else corpus
    reading = Reading(**how)
    answered = answer(subject, corpus, name, reading)
    seen = None if answered.run is None else overlap(answered.run, corpus)
    if answered.run is not None and seen is not None and not reading.allow_overlap:
        refuse_overlap(seen, corpus, answered.run)
    evaluation = evaluate_answered(answered, corpus, ladders=ladders, train=train, train_depth=train_depth)
    if seen is not None:
        evaluation = replace(evaluation, notes=(*evaluation.notes, *overlap_notes(seen, evaluation)))
    return with_measures(evaluation, measures)


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of a subject and, of a run, its predictions and what is known of the inside of its model."""

    answers: Answers
    run: Run | None = None
    predictions: Predictions | None = None
    inside: Inside = field(default_factory=Inside)


def evaluate_answered(
    answered: Answered,
    corpus: Corpus,
    *,
    ladders: bool = True,
    train: Corpus | None = None,
    train_depth: int | None = None,
) -> Evaluation:
    """Evaluate answers that are there already; the options are those of `evaluate`."""
    baselines = None
    if ladders:
        if train is None:
            train = learning_examples(corpus, [answered.run.recipe] if answered.run else [])
        baselines = Baselines(corpus, train, train_depth)
    return Evaluation.of(corpus, answered.answers, baselines, answered.inside)


def answers_of(subject: Any, corpus: Corpus, *, name: str = "", **how: Any) -> Answers:
    """What a model answers; `how` are the fields of Reading."""
    return answer(subject, corpus, name, Reading(**how)).answers


def answer(subject: Any, corpus: Corpus, name: str = "", how: Reading = Reading()) -> Answered:  # noqa: B008 - frozen
    """The answers of anything that can be evaluated."""
    if isinstance(subject, (str, Path)):
        subject, name = _named(subject, corpus, name)
    if isinstance(subject, Answers):
        return Answered(subject)
    if isinstance(subject, Run):
        return _of_run(subject, corpus, name or str(subject.folder), how)
    if isinstance(subject, Predictions):
        answers = answers_from(subject, corpus, name or "predictions")
        return Answered(answers, None, subject, Inside(subject.vocabulary))
    if isinstance(subject, type):
        subject = _instance(subject)
    shown = name or getattr(subject, "__name__", type(subject).__name__)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(subject, torch.nn.Module):
        return Answered(_of_module(subject, corpus, shown, how))
    if callable(subject):
        return Answered(Answers(shown, answers_given(corpus, _asked_in_parts(subject, corpus.texts, how.rows, shown))))
    if isinstance(subject, (list, tuple, np.ndarray)):
        return Answered(Answers(name or "answers", answers_given(corpus, subject)))
    raise MeasureError(
        f"{type(subject).__name__} cannot be evaluated; give a file of answers, a run's folder, a function from a list "
        "of strings to a list of strings, or a torch module"
    )


def _named(subject: str | Path, corpus: Corpus, name: str) -> tuple[Any, str]:
    """The answers, run or thing that a path or `package.module:thing` names."""
    if kind_of(subject) == "file":
        return read_answers(subject, corpus, name or str(subject)), name
    if kind_of(subject) == "folder":
        return Run.read(subject), name or str(subject)
    if is_import(str(subject)):
        return imported(str(subject)), name or str(subject)
    raise RunError(
        f"there is no run folder or file of answers {str(subject)!r}; code of your own is named package.module:thing"
    )


def _instance(kind: type) -> Any:
    """An instance of a class whose constructor needs no arguments."""
    if hasattr(kind, "build") and not callable(getattr(kind, "forward", None)):
        raise SpecError(f"{kind.__name__} is the settings of a model; train it (`pomona train`), then evaluate the run")
    try:
        return kind()
    except TypeError as error:
        raise SpecError(f"{kind.__name__}() could not be made: {error}; give an instance, or a class without arguments"
                        ) from error  # fmt: skip


def _of_run(run: Run, corpus: Corpus, name: str, how: Reading) -> Answered:
    with extras_named():
        from pomona.training.predict import predict, represent

    predictions = predict(run, corpus, which=how.which, threads=how.threads)
    inside = Inside(predictions.vocabulary, lambda: represent(run, corpus, which=how.which))
    return Answered(answers_from(predictions, corpus, name), run, predictions, inside)


def _asked_in_parts(function: Callable[[list[str]], Any], texts: list[str], rows: int, name: str) -> list[Any]:
    """The answers of a function, which is called with at most `rows` texts at a time."""
    answers: list[Any] = []
    for first in range(0, len(texts), rows):
        part = texts[first : first + rows]
        returned = function(part)
        counted = hasattr(returned, "__len__") and not isinstance(returned, str)
        if not counted or len(returned) != len(part):
            got = f"{len(returned)} answers" if counted else repr(returned)[:60]
            raise MeasureError(
                f"{name} was given a list of {len(part)} strings and must give as many answers; got {got}"
            )
        answers += returned.tolist() if isinstance(returned, np.ndarray) else list(returned)
    return answers


# -- modules -----------------------------------------------------------------------------------------------------------


def _of_module(module: Any, corpus: Corpus, name: str, how: Reading) -> Answers:
    import torch

    words = tuple(_needed(module, how.vocabulary, "vocabulary", name))
    outcomes = tuple(_needed(module, how.outcomes, "outcomes", name))
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            if _reads_batches(module):
                logits, trees = _by_batch(module, corpus, how.rows, words, outcomes)
            else:
                logits, trees = _by_tensors(module, corpus, how.rows, words)
    finally:
        module.train(was_training)
    logits = logits.reshape(len(corpus), 1, -1) if logits.ndim == 2 else logits
    if logits.shape[2] != len(outcomes):
        raise MeasureError(f"{name} gives {logits.shape[2]} logits a question, and has {len(outcomes)} outcomes")
    given = positions(outcomes, corpus)[logits.argmax(axis=2)]
    return Answers(name, given.reshape(len(corpus), -1), trees)


def _needed(module: Any, given: Sequence[Any] | None, attribute: str, name: str) -> Sequence[Any]:
    """The words or the outcomes of a module, as given or as its own attribute."""
    values = given if given is not None else getattr(module, attribute, None)
    if values is None or isinstance(values, str) or not hasattr(values, "__iter__"):
        raise MeasureError(
            f"{name} has no attribute {attribute!r}: which number means which is not known. Set it, or give "
            f"{attribute}=... (for example {attribute}=train.{attribute}, if its numbers are those of a corpus called "
            "train)"
        )
    return values


def _reads_batches(module: Any) -> bool:
    """Whether `forward` takes one argument, a Batch, and not ids and a mask."""
    needed = [
        parameter
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) == 1


def _by_batch(
    module: Any, corpus: Corpus, rows: int, words: tuple[str, ...], outcomes: tuple[Any, ...]
) -> tuple[npt.NDArray[Any], Any]:
    from pomona.models.inputs.batches import by_length
    from pomona.models.inputs.sentences import Batch, Sentences
    from pomona.training.predict import answer as answer_batches

    sentences = Sentences.of(corpus, words, outcomes)
    device = _device(module)
    batches = [Batch.of(sentences, part, device) for part in by_length(sentences.lengths, rows, AREA)]
    return answer_batches(module, batches)


def _by_tensors(module: Any, corpus: Corpus, rows: int, words: tuple[str, ...]) -> tuple[npt.NDArray[Any], Any]:
    import torch

    from pomona.models.inputs.batches import by_length

    device = _device(module)
    tokens = _word_numbers(corpus, words)
    logits: list[npt.NDArray[Any]] = []
    texts: list[str] = []
    order = []
    for part in by_length(corpus.lengths, rows, AREA):
        lengths = corpus.lengths[part]
        mask = np.arange(int(lengths.max())) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate([tokens[corpus.token_start[row] : corpus.token_start[row + 1]] for row in part])
        inputs = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
        output = module(*inputs)
        if not isinstance(output, torch.Tensor) or output.ndim not in (2, 3) or len(output) != len(part):
            shape = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
            wanted = f"[{len(part)}, outcomes] or [{len(part)}, questions, outcomes]"
            raise MeasureError(f"forward(ids, mask) must give logits {wanted}; got {shape}")
        logits.append(output.float().cpu().numpy())
        if hasattr(module, "parse"):
            texts += list(module.parse(*inputs))
        order.append(part)
    back = np.argsort(np.concatenate(order), kind="stable")
    trees = trees_over(corpus, [texts[row] for row in back.tolist()]) if texts else None
    return np.concatenate(logits)[back], trees


def _word_numbers(corpus: Corpus, words: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """The tokens of a corpus as numbers of words in a vocabulary."""
    tokens = renumber(corpus.tokens, corpus.vocabulary, words)
    if tokens.min(initial=0) < 0:
        unknown = sorted({corpus.vocabulary[token] for token in np.unique(corpus.tokens[tokens < 0]).tolist()})
        raise MeasureError(f"the corpus has words that are not in the vocabulary: {', '.join(unknown[:10])}")
    return tokens


def _device(module: Any) -> Any:
    return next((weight.device for weight in module.parameters()), "cpu")
