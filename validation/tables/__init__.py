"""Marginals of large tables."""
