"""Pages for publication, each one HTML file: results, guarantee, methods and releases; no row is ever read."""

from dpinfer.reporting.study import report

__all__ = ["report"]
