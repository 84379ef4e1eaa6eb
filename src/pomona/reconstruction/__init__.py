"""Tree Reconstruction Error: exact where it can be, certified where it cannot, and what makes it mean something."""

from pomona.reconstruction.comparison import compare_fits, partial_correlation, tre_layers
from pomona.reconstruction.derivations import Derivations
from pomona.reconstruction.fit import Certificate, ReconstructionWarning, TreFit, tre
from pomona.reconstruction.latent import LatentFit, latent_tre
from pomona.reconstruction.meaning import bootstrap, heldout, normalized, shuffle_test

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
