"""Layers: networks that several models use. Every compiled loop has a slow twin that the tests compare it with.

    tree_lstm       the TreeLSTM cell over whole forests
    lstm            the LSTM over many sequences at once
    gumbel_merge    merging neighbours by straight-through Gumbel softmax (ST-Gumbel)
    soft_chart      all binary trees at once, weighted
    attention       Transformer layers and geometric attention
    decoder         answers as heads or as written tokens; greedy and beam search
    aligned_tree    composition along the aligned tree of a sentence pair
    pair_heads      word vectors and classifiers of the models of pairs
    classifier      the classifier of the models of sentences
    rows, dropout   functions that the layers above use

A layer may import inputs and the modules that define what models share, never a model.
"""
