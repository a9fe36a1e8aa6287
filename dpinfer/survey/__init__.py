"""Complex surveys: means, totals, shares, ratios and regressions from strata, primary sampling units and weights."""
