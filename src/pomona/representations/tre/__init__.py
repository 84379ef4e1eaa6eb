"""Tree Reconstruction Error: exact where it can be, certified where it cannot, and what makes it mean something."""

from pomona.representations.tre.comparison import compare_fits, partial_correlation, tre_layers
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.fit import Certificate, ReconstructionWarning, TreFit, tre
from pomona.representations.tre.latent import LatentFit, latent_tre
from pomona.representations.tre.significance import bootstrap, heldout, normalized, shuffle_test

__all__ = [
    "Certificate",
    "Derivations",
    "LatentFit",
    "ReconstructionWarning",
    "TreFit",
    "bootstrap",
    "compare_fits",
    "heldout",
    "latent_tre",
    "normalized",
    "partial_correlation",
    "shuffle_test",
    "tre",
    "tre_layers",
]
