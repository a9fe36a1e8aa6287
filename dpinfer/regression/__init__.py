"""Regression: cross-products and noisy Newton iterations, for every model in one way."""
