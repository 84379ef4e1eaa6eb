"""Measuring Compositionality in Representation Learning (Andreas 2019): the paper and its four experiments.

    paper         the declaration that the registry finds (no torch)       printed       the numbers of the paper
    experiments   runs the four experiments and turns them into cells

    dynamics      section 4: TRE while a classifier learns visual concepts; `concepts` draws its pictures, `published`
                  reads the paper's own
    compounds     section 5: TRE of noun compounds and human judgement; `vectors` reads or trains word vectors
    similarity    section 6: Proposition 1 and topographic similarity of the other experiments' representations
    languages     section 7: a hundred reference games are played and their languages measured;
                  `game_rules` defines the game, `agents` trains all speaker-listener pairs in one computation

    correlations, figures, folders         intervals by resampling runs; plots; experiment folders that can be resumed

Import the paper from the registry, PAPERS; the modules are for tests and benchmarks.
"""

import pomona.papers.tre_2019.paper  # noqa: F401
