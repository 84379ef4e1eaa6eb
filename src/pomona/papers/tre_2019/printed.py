"""The numbers that the TRE paper printed, by experiment and column."""

from __future__ import annotations

# The paper has one solver, which it calls TRE; here each number is measured with several.
PRINTED: dict[tuple[str, str], float] = {
    ("dynamics", "validation accuracy"): 75.2,
    ("dynamics", "r with entropy, before the best epoch"): 0.70,
    ("dynamics", "r with entropy, from most entropy to the best"): 0.71,
    ("compounds", "Spearman with judgement"): -0.34,
    ("game", "r with generalisation error, all runs"): 0.50,
    ("game", "r with test reward, all runs"): 0.57,
    ("game", "r with generalisation error, successful runs"): 0.60,
    ("game", "r with test reward, successful runs"): 0.38,
}
