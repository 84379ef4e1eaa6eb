"""Learned compositions: gradients compared with differences and torch; languages of the paper; planted languages."""

from __future__ import annotations

import numpy as np
import pytest

from oracles_tre import perfect_language, read_language, recursive_prediction
from pomona.base.errors import MeasureError
from pomona.representations.tre import Derivations, tre
from pomona.representations.tre.compositions import COMPOSITIONS, Position
from pomona.representations.tre.learned import lexicon_design
from pomona.representations.tre.recursion import compose_subtrees, gradients

TREES = [("a", "b"), (("a", "b"), "c"), ("c", ("b", "a", "c")), ("b", "c"), (("c", "a"), ("a", "b")), ("a", ("b", "c"))]
NAMES = ("weighted", "position", "diagonal", "linear", "bilinear", "mlp")


def planted(name: str, trees: list, shape: tuple[int, ...], seed: int) -> np.ndarray:
    made, composition, rng = Derivations.of(trees), COMPOSITIONS[name](), np.random.default_rng(seed)
    parameters = composition.initial(shape, made.arity, rng)
    lexicon = rng.normal(size=(len(made.names), int(np.prod(shape))))
    return compose_subtrees(composition, made, parameters, lexicon)[made.root].reshape(-1, *shape)


@pytest.mark.parametrize("name", ["add", *NAMES])
def test_gradients_equal_finite_differences(name: str) -> None:
    made, composition, rng = Derivations.of(TREES), COMPOSITIONS[name](), np.random.default_rng(0)
    parameters = composition.initial((2, 3), made.arity, rng)
    parameters = {key: value + 0.1 * rng.normal(size=value.shape) for key, value in parameters.items()}
    lexicon, weight = rng.normal(size=(3, 6)), rng.normal(size=(len(TREES), 6))
    values = compose_subtrees(composition, made, parameters, lexicon)
    down, inner = gradients(composition, made, parameters, values, weight)

    def objective(words: np.ndarray, own: dict) -> float:
        return float((compose_subtrees(composition, made, own, words)[made.root] * weight).sum())

    for key, slope in {"lexicon": down, **inner}.items():
        for entry in rng.choice(slope.size, size=min(slope.size, 12), replace=False):
            change = 0.0
            for sign in (1, -1):
                moved = (lexicon if key == "lexicon" else parameters[key]).copy()
                moved.flat[entry] += sign * 1e-6
                change += sign * (
                    objective(moved, parameters) if key == "lexicon" else objective(lexicon, parameters | {key: moved})
                )
            assert slope.flat[entry] == pytest.approx(change / 2e-6, abs=1e-6), (key, entry)


def test_position_equals_torch_with_gradients() -> None:
    """Equation 6 as released: Linear layers over the position axis, identically for each symbol."""
    torch = pytest.importorskip("torch")
    trees = [(("a", "b"), ("c", "d")), (("c", "b"), ("a", "a"))]
    made, rng = Derivations.of(trees), np.random.default_rng(1)
    parameters = {"maps": rng.normal(size=(2, 3, 3)), "bias": rng.normal(size=(2, 3))}
    lexicon, weight = rng.normal(size=(4, 3, 5)), rng.normal(size=(2, 3, 5))
    maps = torch.tensor(parameters["maps"], requires_grad=True)
    bias = torch.tensor(parameters["bias"], requires_grad=True)
    words = torch.tensor(lexicon, requires_grad=True)

    def combine(x, y):  # type: ignore[no-untyped-def]
        linear = torch.nn.functional.linear
        return (linear(x.T, maps[0], bias[0]) + linear(y.T, maps[1], bias[1])).T

    slow = torch.stack([recursive_prediction(tree, dict(zip("abcd", words, strict=True)), combine) for tree in trees])
    (slow * torch.tensor(weight)).sum().backward()
    values = compose_subtrees(Position(), made, parameters, lexicon.reshape(4, -1))
    np.testing.assert_allclose(values[made.root].reshape(2, 3, 5), slow.detach().numpy(), atol=1e-12)
    down, inner = gradients(Position(), made, parameters, values, weight.reshape(2, -1))
    np.testing.assert_allclose(down.reshape(4, 3, 5), words.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(inner["maps"], maps.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(inner["bias"], bias.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(("number", "at_most", "bound"), [(17, 2.51, 2.5), (63, 3.40, 3.375)])
def test_the_papers_languages_meet_their_lower_bounds(number: int, at_most: float, bound: float) -> None:
    trees, messages = read_language(number)
    fit = tre(messages, trees, compose="position", distance="l1")
    assert bound - 1e-6 <= fit.score <= at_most
    assert fit.bound.lower_bound == pytest.approx(bound, abs=1e-6)
    assert fit.bound.source == "slot tables"
    assert fit.bound.zero == 4.0
    # composing the returned lexicon item by item gives the same score
    maps, bias = fit.parameters["maps"], fit.parameters["bias"].sum(axis=0)[:, None]
    guesses = [recursive_prediction(tree, fit.lexicon, lambda x, y: maps[0] @ x + maps[1] @ y + bias) for tree in trees]
    assert np.abs(np.array(guesses) - messages).sum(axis=(1, 2)).mean() == pytest.approx(fit.score, abs=1e-6)


def test_the_perfect_language_scores_zero() -> None:
    trees, messages = perfect_language()
    fit = tre(messages, trees, compose="position", distance="l1")
    assert fit.score < 1e-6
    assert fit.bound.status == "optimal"


@pytest.mark.parametrize("distance", ["l1", "sql2"])
def test_planted_position_languages_score_zero(distance: str) -> None:
    trees = [
        ((f"p{a}", f"c{b}"), (f"p{c}", f"c{d}")) for a in range(3) for b in range(2) for c in range(3) for d in range(2)
    ]
    for seed in (0, 1):
        rows = planted("position", trees, (3, 5), seed)
        assert tre(rows, trees, compose="position", distance=distance, seed=4).score < 1e-6


@pytest.mark.parametrize("name", ["weighted", "diagonal", "linear"])
def test_planted_compositions_are_found(name: str) -> None:
    rng = np.random.default_rng(2)
    trees = [tuple(pair) for pair in rng.choice(list("abcdef"), size=(80, 2)).tolist()]
    trees += [((a, b), c) for a, b, c in rng.choice(list("abcdef"), size=(40, 3)).tolist()]
    rows = planted(name, trees, (4,), seed=3)
    assert tre(rows, trees, compose=name, distance="sql2").score < 1e-6 * (rows**2).sum(axis=1).mean()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mlp"])  # an MLP does not contain addition
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_richer_compositions_never_score_above_addition(name: str) -> None:
    rng = np.random.default_rng(4)
    trees = [(a, (b, c)) for a, b, c in rng.choice(list("abcd"), size=(30, 3)).tolist()]
    rows = rng.normal(size=(30, 2, 2))
    for distance in ("sql2", "l1"):
        plain = tre(rows.reshape(30, -1), trees, distance=distance)
        shaped = rows if name == "position" else rows.reshape(30, -1)
        richer = tre(shaped, trees, compose=name, distance=distance, restarts=1)
        assert richer.score <= plain.score + 1e-9
        assert richer.bound.lower_bound <= richer.score + 1e-12


@pytest.mark.parametrize("name", ["position", "mlp"])
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_the_order_of_the_data_and_earlier_fits_change_nothing(name: str) -> None:
    rng = np.random.default_rng(5)
    trees = [(a, (b, c)) for a, b, c in rng.choice(list("abcd"), size=(24, 3)).tolist()]
    rows = rng.normal(size=(24, 2, 3) if name == "position" else (24, 6))
    first = tre(rows, trees, compose=name, distance="sql2", restarts=1, seed=7)
    tre(rows * 2, trees, compose=name, distance="sql2", restarts=1, seed=9)
    order = rng.permutation(24)
    moved = tre(rows[order], [trees[k] for k in order], compose=name, distance="sql2", restarts=1, seed=7)
    assert np.array_equal(moved.per_item, first.per_item[order])


def test_relabelling_changes_nothing_on_a_language() -> None:
    trees, messages = read_language(63)
    names = {"fill": "Q", "stroke": "A", "shadow": "M", "red": 4, "green": 1, "blue": 3, "black": 2}
    renamed = [tuple(tuple(names[word] for word in pair) for pair in tree) for tree in trees]
    fit = tre(messages, renamed, compose="position", distance="l1", restarts=2)
    assert 3.375 - 1e-6 <= fit.score <= 3.40


def test_at_fixed_maps_the_prediction_is_the_design_times_the_lexicon() -> None:
    trees = [("a", ("b", "c")), (("a", "b"), "c")]
    made, rng = Derivations.of(trees), np.random.default_rng(6)
    parameters = {"maps": rng.normal(size=(2, 3, 3))}
    lexicon = rng.normal(size=(3, 3, 4))
    design = lexicon_design(Position(bias=False), made, parameters)
    assert design is not None
    direct = compose_subtrees(Position(bias=False), made, parameters, lexicon.reshape(3, 12))[made.root]
    np.testing.assert_allclose(design.times(lexicon.reshape(9, 4)).reshape(2, 12), direct, atol=1e-12)


def test_crossentropy_with_learned_maps() -> None:
    trees, messages = perfect_language()
    fit = tre(messages, trees, compose="position", distance="crossentropy", restarts=1)
    assert fit.score < 0.2
    guess = fit.predict(trees)
    assert (guess.argmax(axis=2) == messages.argmax(axis=2)).mean() > 0.97


def test_a_users_composition_without_parameters() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    trees = [tuple(pair) for pair in rng.choice(list("abcd"), size=(30, 2)).tolist()]
    lexicon = {word: rng.uniform(0.5, 2.0, size=3) for word in "abcd"}
    rows = np.array([lexicon[a] * lexicon[b] for a, b in trees])

    def product(x, y):  # type: ignore[no-untyped-def]
        return x * y

    assert tre(rows, trees, compose=product, distance="sql2").score < 1e-8
    with pytest.raises(MeasureError, match=r"must return a tensor of shape"):
        tre(rows, trees, compose=lambda x, y: torch.cat([x, y], dim=1), distance="sql2")


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_a_users_module_is_copied_and_started_afresh() -> None:
    torch = pytest.importorskip("torch")

    class Mixer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x, y):  # type: ignore[no-untyped-def]
            return self.left(x) + self.right(y)

    trees = [(a, b) for a in "abcd" for b in "wxyz"]
    rows = planted("linear", trees, (3,), seed=9)
    module = Mixer()
    before = [value.detach().clone() for value in module.parameters()]
    first = tre(rows, trees, compose=module, distance="sql2", restarts=2)
    again = tre(rows, trees, compose=module, distance="sql2", restarts=2)
    assert first.score < 1e-6 * (rows**2).sum(axis=1).mean()
    assert np.array_equal(first.per_item, again.per_item)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_starts_of_a_function_without_parameters_differ() -> None:
    """Nothing but the lexicon can be drawn for them; they used to start, and end, at one point."""
    rng = np.random.default_rng(0)
    trees = [(f"a{i}", f"b{j}") for i in range(4) for j in range(5)]
    fit = tre(rng.normal(size=(20, 3)), trees, compose=lambda x, y: (x * y).sin(), distance="sql2", restarts=4)
    assert fit.bound.spread is not None
    assert fit.bound.spread > 1e-3
    assert fit.score <= tre(fit.rows, trees, compose=fit.compose, distance="sql2", restarts=1).score


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_a_start_where_the_function_has_no_value_does_not_win() -> None:
    """NaN is neither more nor less than a score; the starts that have a value decide."""
    trees, rows = [("a", "b"), ("a", "c"), ("d", "b"), ("d", "c")], [[-1.0], [-1.1], [-0.9], [-1.0]]
    fit = tre(np.array(rows), trees, compose=lambda x, y: y - (x + 0.3).sqrt(), distance="sql2", restarts=12)
    assert np.isfinite(fit.score)  # the first start has x = -0.5
