"""Null distributions of noisy statistics: what is simulated, from which fit, and the p-value that follows."""
