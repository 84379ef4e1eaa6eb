"""Training: a Recipe goes in, a Run comes out, and a run that was killed resumes to the same bits.

    recipe         Recipe: everything that decides the weights of a run
    run            Run: the folder that training fills, readable without torch
    predictions    Predictions: a run's answers on one corpus, readable without torch
    data           the corpora that a recipe names
    loop           train(recipe, folder): the training loop
    staging        a stage of a run at work: the rows of every step, the rate, the end
    checkpoints    the weights and the state of a run, to and from its folder
    predict        predict(run, corpus) and represent(run, corpus): answers and vectors of a trained run

Only loop, staging, checkpoints and predict import torch. Import from these modules directly, or take `Recipe`, `Run`,
`train`, `predict` and `represent` from `pomona`.
"""
