"""Experiments: average treatment effects from noisy sums by arm."""
