"""Models: what every model is, what models read, the layers they share, and one file for each model.

    model             Model, Shape, Output, Feed and the registry MODELS
    stages            Stage: a part of a training run; readable without torch
    sentence_model, pair_model, sequence_model      what the models of one folder share
    inputs/           corpora in the numbers of a model: sentences, pairs, sequences; batches and tree schedules
    layers/           networks that several models use
    sentence/         models that read one sentence with one tree and give one answer
    pair/             models that read two sentences and give their relation
    sequence/         models that read a text of several trees and give an answer for each

A new model is one new file in sentence/, pair/ or sequence/; it may import everything here but another model. Users
import `MODELS`, `Model`, `Output` and `Shape` from `pomona.models.model`.
"""

FOLDERS = ("pomona.models.sentence", "pomona.models.pair", "pomona.models.sequence")
