"""Regressions of a response of several levels: choices, and levels in order."""
