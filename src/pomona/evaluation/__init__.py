"""Evaluation: everything measured of a model's answers to one corpus, whoever trained the model.

    evaluation     Evaluation: accuracy, groups, trees, baselines; its dictionary is what scores.json keeps
    subjects       what can be evaluated: a file of answers, a function, a module, a run; `evaluate`
    chains         accuracy by the number of operators that decide the answer: does a model truncate?
    baselines      the ladder and the effective depth beside a score, and what both learn from
    records        evaluations kept in a run's scores.json, in today's shape and in earlier ones
    measure        Measure and the registry MEASURES; `measure`
    score, accuracy, parse_f1, random_trees    numbers with intervals
    significance, comparison                   is one model better than another?

Import from the modules above; nothing is exported here, so that what needs no torch never loads it.
"""
