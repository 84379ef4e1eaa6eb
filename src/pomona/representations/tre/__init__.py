"""Tree Reconstruction Error (TRE, Andreas 2019): how compositional is a set of representations?

Import from here: `tre` and its result `TreFit` (with `Bound`), `tre_layers`, `compare_fits`, `partial_correlation`,
`latent_tre`, the tests `shuffle_test`, `normalized`, `heldout`, `bootstrap`, and `Derivations`.

    inputs, derivation_text             what people have, as arrays and nested tuples
    nested, derivations, design         trees as flat arrays; the counts matrix and its normal equations
    distances, compositions, autograd   what can be chosen by name, or written by the user in torch
    recursion                           applies a composition function to whole derivations
    additive, cosine, descent, least_deviations, learned   the solvers; `solver` chooses among them
    cells, projection                   `weighted` and `diagonal`: their few free numbers searched, and certified
    problem, solver, spectral, bounds, fitted, fit         from the user's input to a `TreFit`
    nulls, significance, verdict        what a score means: chance, unseen combinations, plain words
    pictures, comparison, layers        a fit as a plot and as JSON; two fits compared; the layers of a network
    latent, bracketings                 TRE when the derivations are not known
    legacy, readers                     the published solver; files
"""

from pomona.representations.tre.bounds import Bound
from pomona.representations.tre.comparison import compare_fits, partial_correlation
from pomona.representations.tre.derivations import Derivations, node_derivations
from pomona.representations.tre.fit import ReconstructionWarning, TreFit, tre
from pomona.representations.tre.latent import LatentFit, latent_tre
from pomona.representations.tre.layers import LayerFits, tre_layers
from pomona.representations.tre.significance import bootstrap, heldout, normalized, shuffle_test
from pomona.representations.tre.verdict import Verdict

__all__ = [
    "Bound",
    "Derivations",
    "LatentFit",
    "LayerFits",
    "ReconstructionWarning",
    "TreFit",
    "Verdict",
    "bootstrap",
    "compare_fits",
    "heldout",
    "latent_tre",
    "node_derivations",
    "normalized",
    "partial_correlation",
    "shuffle_test",
    "tre",
    "tre_layers",
]
