"""The source of the notebook docs/first_hour.ipynb; see docs/notebook.py."""

# %% [markdown]
# # The first hour with Pomona
#
# Data you can prove things about, a model, what its score means, and whether its vectors are made of parts. Every cell
# takes seconds. What a cell ends with shows itself: an example as a tree, results as tables.

# %%
from pathlib import Path

import pomona as pm

size = {"train": 2_000, "dev": 200, "test": 400}  # small; the paper has 90,000 for training
train, test = (pm.generate("listops/d20s", split, seed=7, **size) for split in ("train", "test"))
test[4]

# %% [markdown]
# A ListOps expression is a nested list of digits; its answer is one digit. The whole test set:

# %%
test

# %% [markdown]
# ## Is the test fair?
#
# A test is fair if training shows every step that the test needs. `fold` reads lists argument by argument. Missing are
# steps of the median, MED, which has many.

# %%
pm.certify(pm.fairness.fold(train), pm.fairness.fold(test))

# %% [markdown]
# ## What is a score worth?
#
# Baselines that see only part of each expression. A model that beats "top 2 levels" must have opened more than two.

# %%
pm.ladder(test, train)

# %% [markdown]
# ## A model
#
# A TreeLSTM that is given the trees, for two epochs. In a notebook you see its progress; the same cell again resumes.

# %%
recipe = pm.Recipe("treelstm", {"width": 32}, data_settings=size, data_seed=7, dev_rows=200, epochs=2, longest=40)
run = pm.train(recipe, "runs/first_hour")
tree = pm.evaluate(run, test, train=train)
tree

# %% [markdown]
# ## Your own model
#
# Anything that answers: a function from texts to answers, a file of answers, a torch module.


# %%
def last_digit(texts):
    return [next(word for word in reversed(text.split()) if word.isdigit()) for text in texts]


pm.compare(tree, pm.evaluate(last_digit, test, ladders=False))

# %% [markdown]
# ## Your own data
#
# Trees in brackets, JSON lines or a table of attributes. `pm.draw` draws any example as text.

# %%
Path("reviews.ptb").write_text("(3 (2 quite) (3 good))\n(1 (2 rather) (1 (1 bad) (2 today)))\n")
print(pm.draw(pm.read("reviews.ptb")[1]))

# %% [markdown]
# ## Are vectors made of parts?
#
# TRE (tree reconstruction error) asks how well the model's vectors of flat lists are sums of vectors of their parts.

# %%
flat = test[(test.nesting == 1) & (test.lengths <= 6)]
pm.tre(pm.represent(run, flat), [tuple(text.split()) for text in flat.texts])

# %% [markdown]
# Next: one page with all of it, `pm.report(["runs/first_hour"], "report")`, and the
# pages on [your own models and data](bring_your_own.md) and on [fairness](fairness.md).
