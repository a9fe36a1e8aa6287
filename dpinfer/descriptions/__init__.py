"""Descriptions: counts, means, totals, variances, correlations, proportions; t tests, F test, binomial test."""
