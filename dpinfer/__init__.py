"""Statistical inference under differential privacy."""

from dpinfer._version import __version__

__all__ = ["__version__"]
