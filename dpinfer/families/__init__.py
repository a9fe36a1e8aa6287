"""Exponential families: distributions fitted to noisy sums of clipped sufficient statistics."""
