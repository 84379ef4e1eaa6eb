"""Tree Reconstruction Error: exact where it can be, certified where it cannot, and what makes it mean something."""

from pomona.reconstruction.fit import Certificate, ReconstructionWarning, TreFit, tre

__all__ = ["Certificate", "ReconstructionWarning", "TreFit", "tre"]
