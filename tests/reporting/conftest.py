"""Results without a release of their own, as tests of results have them."""

from tests.results.conftest import case

__all__ = ["case"]
