"""Exponential families."""
