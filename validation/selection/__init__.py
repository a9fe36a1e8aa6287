"""Private choices, quantiles, distribution functions and densities."""
