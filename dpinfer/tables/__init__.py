"""Tables: chi-squared tests, log-linear models, marginals and linear queries of noisy counts."""
