"""Distributions: quantiles, distribution functions, densities, rank and Kolmogorov-Smirnov tests."""
