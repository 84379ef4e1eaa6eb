"""What the fair NLI paper printed, and what is trained for each number: rows, recipes, trials."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import product
from typing import Any

from pomona.papers.reproduce import Budget, slug
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.training.recipe import Recipe

# row: train, dev, test of Table 3, each with its 95 % interval
PRINTED: dict[str, tuple[tuple[float, float], ...]] = {
    "CBoW": ((88.04, 0.68), (54.18, 0.17), (53.99, 0.27)),
    "TreeNN": ((67.01, 12.71), (54.01, 8.40), (53.73, 8.36)),
    "LSTM encoder": ((98.43, 0.41), (53.14, 2.45), (52.51, 2.78)),
    "Attention LSTM": ((73.66, 9.97), (47.52, 0.43), (47.28, 0.95)),
    "CompTreeNN": ((99.65, 0.42), (80.17, 7.53), (80.21, 7.71)),
    "CompTreeNTN": ((99.92, 0.08), (90.45, 2.48), (90.32, 2.71)),
}
STANDARD = ("CBoW", "TreeNN", "LSTM encoder", "Attention LSTM")
ALIGNED = ("CompTreeNN", "CompTreeNTN")
QUESTIONS = len(TARGETS)  # our loss is divided by them: an L2 of 1e-2 beside their sum is 1e-2 / 12 here
RATIOS = {"hardest": "0", "rho-1-8": "1/8", "rho-1-4": "1/4", "rho-1-2": "1/2", "rho-3-4": "3/4"}  # of Figure 5
EASIEST = list(RATIOS.values())[-1]
LONGER = 4  # times the pairs for standard models at EASIEST: three looks at dev do not tell whether it still rises
FIRST: dict[str, dict[str, Any]] = {  # how CompTreeNTN starts
    **{f"start {size}": {"start": size} for size in (0.1, 0.3, 1.0, 2.0)},
    "start 0.3, tensor 4": {"start": 0.3, "tensor": 4.0},  # small vectors, and products as large as those of size 1
    "start 1.0, tensor 0.1": {"start": 1.0, "tensor": 0.1},  # vectors of size 1, and hardly any products
    "start 0.3, without L2": {"start": 0.3, "l2": 0.0},  # small vectors that L2 does not take away
    "start 1.0, without L2": {"start": 1.0, "l2": 0.0},
    "start 1.0, 200,000 pairs": {"start": 1.0, "epochs": 8},  # L2 has twice the time
}
CHUNK = 50_000  # pairs between two looks at dev

_SHARED: dict[str, Any] = {
    "data": "fair_nli/hardest",
    "fresh": True,
    "dev_rows": 10_000,
    "batch": 256,
    "batching": "random",
    "schedule": "cosine",
    "warmup": 200,
    "stop": 1_000,
}


@dataclass(frozen=True)
class Row:
    """A model as the cpu budget trains it: its rate, how many chunks of pairs, on how many splits."""

    model: str
    rate: float
    chunks: int
    seeds: int
    settings: tuple[tuple[str, Any], ...] = ()
    l2: float = 0.0
    chunk: int = CHUNK
    more: tuple[tuple[str, Any], ...] = ()  # of the recipe
    rungs: tuple[int, ...] = (1, 3)  # of the search: chunks for every setting, then for the best

    @property
    def whole(self) -> dict[str, int]:
        """Settings of data whose training set is one chunk, with the core that makes it fair."""
        return {"train": self.chunk}

    def recipe(self, **more: Any) -> Recipe:
        """A recipe of this row; `more` overrides.

        A chunk is the first rows of 500,000 pairs, and the core of a split stands anywhere among those. At the hardest
        task any 50,000 show all there is; elsewhere `whole` asks for a training set that has its core.
        """
        basic = {"model": self.model, "settings": dict(self.settings), "rate": self.rate, "l2": self.l2}
        return Recipe(**{**_SHARED, **basic, "rows": self.chunk, "epochs": self.chunks, **dict(self.more), **more})


_SOCHER = (("inner", "softmax"), ("activation", "tanh"))  # "as in the sentiment models of Socher et al. (2013)"
_RELU, _TANH = (("activation", "relu"),), (("activation", "tanh"),)
RESTLESS = (("batch", 64), ("schedule", "constant"), ("warmup", 0))  # a falling rate undoes what it gains
_TENSOR = (("width", 32), *_SOCHER, ("start", 1.0))
_SETTLING = (("batch", 64), ("schedule", "cosine"), ("warmup", 0))

ROWS: dict[str, Row] = {
    "CBoW": Row("cbow", 1e-2, 3, 5, l2=1e-2 / QUESTIONS, more=RESTLESS, rungs=(3,)),
    "TreeNN": Row("treenn", 3e-3, 3, 5, settings=(("dropout", 0.1),), l2=3e-3, more=RESTLESS, rungs=(3,)),
    "LSTM encoder": Row("lstm_pair", 1e-2, 3, 5, settings=_TANH, l2=1e-2 / QUESTIONS, more=RESTLESS),
    "Attention LSTM": Row("attention_lstm", 3e-3, 3, 5, l2=1e-3, chunk=25_000, more=RESTLESS, rungs=(1, 3)),
    "CompTreeNN": Row("comptreenn", 1e-2, 16, 5, settings=_RELU, l2=3e-4, more=RESTLESS, rungs=(3,)),
    "CompTreeNTN": Row("comptreentn", 1e-3, 4, 5, settings=_TENSOR, l2=3e-3, chunk=25_000, more=_SETTLING),
}
BOTTLENECK = Row("relation_bottleneck", 4e-3, 2, 5, chunk=100_000)
CHANNEL = Row("noisy_channel", 6e-3, 7, 5, chunk=100_000, settings=(("noise", 1.25),))
LEARNED = Row("learned_tree", 4e-3, 12, 3)
FREE = ("noisy channel", "learned tree", "learned tree ablations")  # no label is passed to the parent
_ABOVE = ["object", "negated"]
ABLATIONS: dict[str, dict[str, Any]] = {  # all with half of the training; the first is what they are compared with
    "nothing left out": {},
    "hard": {"channel": "hard"},
    "soft": {"channel": "soft"},
    "gold": {"channel": "gold"},
    "hard at object and negated only": {"channel": "hard", "where": _ABOVE},
    "hard at object only": {"channel": "hard", "where": ["object"]},
    "hard at negated only": {"channel": "hard", "where": ["negated"]},
    "logits without a softmax": {"channel": "logit"},
    "soft, h added": {"channel": "soft", "skip": True},
    "soft, only the label asked": {"channel": "soft", "intermediate": False},
    "tied by arity": {"tying": "arity"},
    "nowhere": {"where": []},
}


@dataclass(frozen=True)
class Trial:
    """Runs that differ in nothing but their seed, and the number that their test accuracy stands for."""

    where: str
    row: str
    column: str
    recipe: Recipe
    seeds: int

    @property
    def pairs(self) -> int:
        """How many are seen in training."""
        return self.recipe.epochs * (self.recipe.rows or 500_000)

    @property
    def recipes(self) -> list[Recipe]:
        """One for each seed, which is also the number of its split."""
        return [self.with_seed(seed) for seed in range(self.seeds)]

    def with_seed(self, seed: int) -> Recipe:
        split = {**self.recipe.data_settings, "split_seed": seed}
        return dataclasses.replace(self.recipe, seed=seed, data_seed=seed, data_settings=split)

    def name(self, seed: int) -> str:
        return slug(f"{self.row} {self.column}".replace("/", "-").replace(",", ""), seed)


def trials(budget: Budget) -> list[Trial]:
    """All that is trained. `smoke` shows that all works; `paper` has 10 epochs of 500,000 fixed pairs and 5 seeds."""
    planned: list[Trial] = []
    for row, chosen in ROWS.items():
        planned.append(Trial("Table 3", row, "test", chosen.recipe(), chosen.seeds))
        for data, ratio in RATIOS.items():
            if data != "hardest":  # whose runs are those of Table 3
                recipe = chosen.recipe(data=f"fair_nli/{data}", data_settings=chosen.whole)
                planned.append(Trial("Figure 5", row, f"test at rho {ratio}", recipe, 2))
                if ratio == EASIEST and row in STANDARD:
                    longer = dataclasses.replace(recipe, epochs=LONGER * recipe.epochs)
                    planned.append(Trial("Figure 5", row, longer_column(), longer, 2))
        for data, name in (("hardest", "0"), ("rho-3-4", "3/4")):
            settings = {**dict(chosen.settings), "intermediate": False}
            whole = chosen.whole if name != "0" else {}
            recipe = chosen.recipe(data=f"fair_nli/{data}", settings=settings, data_settings=whole)
            planned.append(Trial("intermediate", row, f"test at rho {name}, label alone", recipe, 1))
    for row, chunks in (("CompTreeNN", 8), ("CompTreeNTN", 4)):
        for inner, activation in product(("hidden", "softmax"), ("relu", "tanh")):
            settings = {**dict(ROWS[row].settings), "inner": inner, "activation": activation}
            recipe = ROWS[row].recipe(settings=settings, epochs=chunks)
            planned.append(Trial("inner questions", row, f"test, {inner}, {activation}", recipe, 1))
    for column, change in FIRST.items():
        more = {name: value for name, value in change.items() if name in ("l2", "epochs")}  # of the recipe
        own = {name: value for name, value in change.items() if name not in more}
        recipe = ROWS["CompTreeNTN"].recipe(settings={**dict(_TENSOR), **own}, **more)
        planned.append(Trial("first vectors", "CompTreeNTN", f"test, {column}", recipe, 1))
    planned += _solvers()
    return [at_budget(trial, budget) for trial in planned]


def longer_column() -> str:
    return f"test at rho {EASIEST}, {LONGER} times the pairs"


def _solvers() -> list[Trial]:
    """What goes beyond the paper, on 100,000 test pairs, and what happens when a part is left out."""
    large = {"test": 100_000}
    planned = []
    readings: dict[str, dict[str, Any]] = {
        "test": {},
        "test, whole classes": {"whole_classes": True},
        "test, strict": {"lexical": "strict", **BOTTLENECK.whole},
    }
    for column, data in readings.items():
        recipe = BOTTLENECK.recipe(data_settings={**large, **data})
        planned.append(Trial("bottleneck", "Relation bottleneck", column, recipe, 5))
    for column, settings in ABLATIONS.items():
        recipe = BOTTLENECK.recipe(settings=settings, epochs=1)
        planned.append(Trial("bottleneck ablations", "Relation bottleneck", f"test, {column}", recipe, 1))
    planned.append(Trial("noisy channel", "Noisy channel", "test", CHANNEL.recipe(data_settings=large), 5))
    less = CHANNEL.recipe(data_settings=large, rate=4e-3, settings={"noise": 1.0})  # the first choice: one seed fails
    planned.append(Trial("noisy channel", "Noisy channel", "test, noise 1", less, 5))
    without: dict[str, dict[str, Any]] = {  # all with 3 chunks of 7
        "nothing left out": {}, "without noise": {"noise": 0.0}, "without LayerNorm": {"norm": False},
    }  # fmt: skip
    for column, change in without.items():
        recipe = CHANNEL.recipe(settings={**dict(CHANNEL.settings), **change}, epochs=3)
        planned.append(Trial("noisy channel ablations", "Noisy channel", f"test, {column}", recipe, 1))
    planned.append(Trial("learned tree", "Learned tree", "test", LEARNED.recipe(), LEARNED.seeds))
    free: dict[str, dict[str, Any]] = {  # all with half of the training
        "nothing left out": {}, "without noise": {"noise": 0.0}, "without a price": {"price": 0.0},
    }  # fmt: skip
    for column, settings in free.items():
        recipe = LEARNED.recipe(settings=settings, epochs=LEARNED.chunks // 2)
        planned.append(Trial("learned tree ablations", "Learned tree", f"test, {column}", recipe, 1))
    return planned


def at_budget(trial: Trial, budget: Budget) -> Trial:
    recipe = trial.recipe
    if budget == "cpu":
        return trial
    if budget == "paper":
        settings = {name: value for name, value in recipe.settings.items() if name != "width"}
        data = {name: value for name, value in recipe.data_settings.items() if name != "train"}
        recipe = dataclasses.replace(recipe, rows=None, fresh=False, epochs=10, settings=settings, data_settings=data)
        return dataclasses.replace(trial, recipe=recipe, seeds=5)
    strict = recipe.data_settings.get("lexical") == "strict"
    few = {**recipe.data_settings, "train": 1_500, "dev": 200, "test": 300, "vocabulary": 5 if strict else 100}
    settings = {**recipe.settings, "width": 16, "hidden": 16}
    small = dataclasses.replace(
        recipe, data_settings=few, settings=settings, rows=1_500, dev_rows=200, epochs=1, warmup=2
    )
    return dataclasses.replace(trial, recipe=small, seeds=1)
