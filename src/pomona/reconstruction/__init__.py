"""Tree Reconstruction Error: exact where it can be, certified where it cannot, and what makes it mean something."""

from pomona.reconstruction.comparison import compare, partial_correlation, tre_layers
from pomona.reconstruction.derivations import Derivations
from pomona.reconstruction.fit import Certificate, ReconstructionWarning, TreFit, tre
from pomona.reconstruction.meaning import bootstrap, heldout, normalized, shuffle_test

__all__ = [
    "Certificate",
    "Derivations",
    "ReconstructionWarning",
    "TreFit",
    "bootstrap",
    "compare",
    "heldout",
    "normalized",
    "partial_correlation",
    "shuffle_test",
    "tre",
    "tre_layers",
]
