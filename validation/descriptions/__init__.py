"""Means, proportions, averages of draws, and combined releases."""
