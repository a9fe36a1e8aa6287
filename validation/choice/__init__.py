"""Regressions of a response of several levels."""
