"""Shortcuts: baselines that see only part of an example, to compare a model with.

    ladder            all baselines of a corpus in order, from nothing to everything
    lookups           predictors that look the answer to some information up, or weigh counts of tokens
    truncation        evaluators that open only the top k levels, exactly, for the built-in operators on digits
    enumeration       the same for operators and values of any kind, with a bound on the cost
    effective_depth   which of these evaluators a predictor resembles: how many levels it uses

This room may import `base`, `trees` and `data`.
"""
