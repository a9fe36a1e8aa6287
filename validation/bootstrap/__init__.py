"""Bootstraps of noisy sums: their cost and coverage."""
