"""Exponential families: distributions fitted to noisy sums of clamped sufficient statistics."""
