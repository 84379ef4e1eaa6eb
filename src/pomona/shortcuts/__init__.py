"""Shortcuts: what a predictor scores that sees only part of the input. Compare a model with these baselines.

    ladder            the rungs: from always the same answer up to the whole tree
    lookups           the best answer that tables of partial information can give
    truncation        evaluators that open only the top levels of a tree
    enumeration       the same for operators and values of any kind, with a bound on the cost
    effective_depth   how many levels a model's answers make use of
    mixture           shares of evaluators, a shortcut and noise that explain the answers together
    verdicts          both in one plain sentence

For users: `pm.shortcuts.best_accuracy` and `copy_ceiling`, beside `pm.ladder`. Modules of Pomona import from the files
themselves. This room imports `base`, `trees` and `data`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pomona.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pomona.shortcuts.ladder import best_accuracy, copy_ceiling

__all__ = ["best_accuracy", "copy_ceiling"]

__getattr__, __dir__ = lazy_names(__name__, {"best_accuracy": "ladder", "copy_ceiling": "ladder"})
