"""Survival analysis: Kaplan-Meier, its quantiles, restricted means and log-rank tests, from one noisy life table."""
