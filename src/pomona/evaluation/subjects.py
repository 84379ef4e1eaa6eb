"""Your own model, smallest effort first: a file of answers, a function, a module, a run.

    pm.evaluate("answers.jsonl", test)                     lines of {"id", "prediction"}; ids from `pomona export`
    pm.evaluate(lambda texts: ["7"] * len(texts), test)    a function from strings to strings
    pm.evaluate(module, test, vocabulary=words, outcomes=answers)
    pm.evaluate("runs/tree", test)                         what `pomona train` left behind
    pm.evaluate("package.module:answer", test)             imports and runs that module

A **module** is a `torch.nn.Module` of one of two kinds, told apart by what `forward` must be given:

    forward(ids, mask)     ids [batch, length], numbers of words in `vocabulary`; mask, True at words and False behind
                           their end; gives logits [batch, outcomes], or [batch, questions, outcomes]. A method
                           `parse(ids, mask)` may give trees in brackets, one text a row.
    forward(batch)         a `inputs.sentences.Batch`; gives a `models.model.Output`, as Pomona's own models do

Which word has which number, and which answer, only its owner knows: `vocabulary` and `outcomes` are attributes of the
module, or are given here. Torch is imported only where there is a module or a run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, RunError, SpecError
from pomona.base.files import kind_of
from pomona.base.registry import imported, is_import
from pomona.data.answers import Answers, answers_given, read_answers, trees_over
from pomona.data.corpus import Corpus
from pomona.data.sources import corpus_from, training_for
from pomona.evaluation.accuracy import check_same
from pomona.evaluation.evaluation import Evaluation, evaluated
from pomona.training.run import Predictions, Run
from pomona.trees.values import renumber

ROWS, AREA = 256, 1 << 14  # rows and positions of a batch


def evaluate(
    subject: Any,
    corpus: Corpus | str,
    *,
    name: str = "",
    train: Corpus | None = None,
    ladders: bool = True,
    train_depth: int | None = None,
    **how: Any,
) -> Evaluation:
    """Everything measured of a model on a corpus (`how`: see `answers_of`).

    The ladder and the effective depth are learnt from `train`, else from the train split of the task that made the
    corpus, else from one half of the corpus for the other; `ladders=False` leaves both out.
    """
    corpus = corpus_from(corpus) if isinstance(corpus, str) else corpus
    answers = answers_of(subject, corpus, name=name, **how)
    if ladders and train is None:
        train = training_for(corpus)
    return evaluated(corpus, answers, train=train, ladders=ladders, train_depth=train_depth)


def answers_of(
    subject: Any,
    corpus: Corpus,
    *,
    name: str = "",
    rows: int = ROWS,
    vocabulary: Sequence[str] | None = None,
    outcomes: Sequence[Any] | None = None,
    which: str = "best",
) -> Answers:
    """What a model answers: `rows` at a time to a function or module; `which` weights of a run, best or last."""
    if isinstance(subject, Answers):
        return subject
    if isinstance(subject, (str, Path)):
        subject, name = _found(subject, corpus, name)
        if isinstance(subject, Answers):
            return subject
    if isinstance(subject, Run):
        from pomona.training.loop import predict

        return of_predictions(predict(subject, corpus, which=which), corpus, name or str(subject.folder))
    if isinstance(subject, Predictions):
        return of_predictions(subject, corpus, name or "predictions")
    if isinstance(subject, type):
        subject = _made(subject)
    shown = name or getattr(subject, "__name__", type(subject).__name__)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(subject, torch.nn.Module):
        return _of_module(subject, corpus, shown, rows, vocabulary, outcomes)
    if callable(subject):
        return Answers(shown, answers_given(corpus, _asked_in_parts(subject, corpus.texts, rows, shown)))
    if isinstance(subject, (list, tuple, np.ndarray)):
        return Answers(name or "answers", answers_given(corpus, subject))
    raise MeasureError(
        f"{type(subject).__name__} cannot be evaluated; give a file of answers, a run's folder, a function from a list "
        "of strings to a list of strings, or a torch module"
    )


def _found(given: str | Path, corpus: Corpus, name: str) -> tuple[Any, str]:
    """What a path or `package.module:thing` stands for."""
    if kind_of(given) == "file":
        return read_answers(given, corpus, name or str(given)), name
    if kind_of(given) == "folder":
        return Run.read(given), name or str(given)
    if is_import(str(given)):
        return imported(str(given)), name or str(given)
    raise RunError(
        f"there is no run folder or file of answers {str(given)!r}; code of your own is named package.module:thing"
    )


def _made(kind: type) -> Any:
    """An instance of a class that needs nothing to be made."""
    if hasattr(kind, "build") and not callable(getattr(kind, "forward", None)):
        raise SpecError(f"{kind.__name__} is the settings of a model; train it (`pomona train`), then evaluate the run")
    try:
        return kind()
    except TypeError as error:
        raise SpecError(f"{kind.__name__}() could not be made: {error}; give an instance, or a class without arguments"
                        ) from error  # fmt: skip


def of_predictions(predictions: Predictions, corpus: Corpus, name: str) -> Answers:
    """A run's predictions as answers to this corpus."""
    check_same(corpus, predictions)
    answers = predictions.answers.reshape(len(corpus), -1)
    return Answers(name, _positions(predictions.outcomes, corpus)[answers], predictions.trees)


def _positions(outcomes: Sequence[Any], corpus: Corpus) -> npt.NDArray[np.int64]:
    """Where each outcome of a model stands among those of a corpus; -1 where the corpus has no such outcome."""
    return renumber(np.arange(len(outcomes)), outcomes, corpus.outcomes)


def _asked_in_parts(answer: Callable[[list[str]], Any], texts: list[str], rows: int, name: str) -> list[Any]:
    said: list[Any] = []
    for first in range(0, len(texts), rows):
        part = texts[first : first + rows]
        found = answer(part)
        if isinstance(found, str) or not hasattr(found, "__len__") or len(found) != len(part):
            got = (
                f"{len(found)} answers"
                if hasattr(found, "__len__") and not isinstance(found, str)
                else repr(found)[:60]
            )
            raise MeasureError(
                f"{name} was given a list of {len(part)} strings and must give as many answers; got {got}"
            )
        said += found.tolist() if isinstance(found, np.ndarray) else list(found)
    return said


# -- modules -----------------------------------------------------------------------------------------------------------


def _of_module(
    module: Any,
    corpus: Corpus,
    name: str,
    rows: int,
    vocabulary: Sequence[str] | None,
    outcomes: Sequence[Any] | None,
) -> Answers:
    import torch

    words, answers = (
        tuple(_needed(module, given, what, name))
        for given, what in ((vocabulary, "vocabulary"), (outcomes, "outcomes"))
    )
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            if _reads_batches(module):
                logits, trees = _by_batch(module, corpus, rows, words, answers)
            else:
                logits, trees = _by_tensors(module, corpus, rows, words)
    finally:
        module.train(was_training)
    logits = logits.reshape(len(corpus), 1, -1) if logits.ndim == 2 else logits
    questions = logits.shape[1]
    if logits.shape[2] != len(answers):
        raise MeasureError(f"{name} gives {logits.shape[2]} logits a question, and has {len(answers)} outcomes")
    given = _positions(answers, corpus)[logits.argmax(axis=2)].reshape(len(corpus), questions)
    return Answers(name, given, trees)


def _needed(module: Any, given: Sequence[Any] | None, what: str, name: str) -> Sequence[Any]:
    found = given if given is not None else getattr(module, what, None)
    if found is None or isinstance(found, str) or not hasattr(found, "__iter__"):
        raise MeasureError(
            f"{name} has no attribute {what!r}: which number means which is not known. Set it, or give "
            f"{what}=... (as {what}=train.{what}, if its numbers are those of a corpus called train)"
        )
    return found


def _reads_batches(module: Any) -> bool:
    """Whether `forward` must be given one thing, a Batch, and not ids and a mask."""
    needed = [
        one
        for one in inspect.signature(module.forward).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) == 1


def _by_batch(
    module: Any, corpus: Corpus, rows: int, words: tuple[str, ...], answers: tuple[Any, ...]
) -> tuple[npt.NDArray[Any], Any]:
    from pomona.models.inputs.sentences import Batch, Sentences, by_length
    from pomona.training.loop import answer

    sentences = Sentences.of(corpus, words, answers)
    device = _device(module)
    return answer(module, [Batch.of(sentences, part, device) for part in by_length(sentences.lengths, rows, AREA)])


def _by_tensors(module: Any, corpus: Corpus, rows: int, words: tuple[str, ...]) -> tuple[npt.NDArray[Any], Any]:
    import torch

    from pomona.models.inputs.sentences import by_length

    device = _device(module)
    tokens = _in_numbers(corpus, words)
    logits: list[npt.NDArray[Any]] = []
    texts: list[str] = []
    order = []
    for part in by_length(corpus.lengths, rows, AREA):
        lengths = corpus.lengths[part]
        mask = np.arange(int(lengths.max())) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate([tokens[corpus.token_start[row] : corpus.token_start[row + 1]] for row in part])
        inputs = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
        found = module(*inputs)
        if not isinstance(found, torch.Tensor) or found.ndim not in (2, 3) or len(found) != len(part):
            shape = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            wanted = f"[{len(part)}, outcomes] or [{len(part)}, questions, outcomes]"
            raise MeasureError(f"forward(ids, mask) must give logits {wanted}; got {shape}")
        logits.append(found.float().cpu().numpy())
        if hasattr(module, "parse"):
            texts += list(module.parse(*inputs))
        order.append(part)
    back = np.argsort(np.concatenate(order), kind="stable")
    trees = trees_over(corpus, [texts[place] for place in back.tolist()]) if texts else None
    return np.concatenate(logits)[back], trees


def _in_numbers(corpus: Corpus, words: tuple[str, ...]) -> npt.NDArray[np.int64]:
    tokens = renumber(corpus.tokens, corpus.vocabulary, words)
    if tokens.min(initial=0) < 0:
        unknown = sorted({corpus.vocabulary[token] for token in np.unique(corpus.tokens[tokens < 0]).tolist()})
        raise MeasureError(f"the corpus has words that are not in the vocabulary: {', '.join(unknown[:10])}")
    return tokens


def _device(module: Any) -> Any:
    return next((weight.device for weight in module.parameters()), "cpu")
