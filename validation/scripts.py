"""Which scripts there are, where each is, and how many replicates it takes."""

from __future__ import annotations

from typing import NamedTuple


class Script(NamedTuple):
    """Where a script is, and its replicates: in a quick run, in a full one, and in one with a fresh seed."""

    folder: str
    quick: int
    full: int
    fresh: int


SCRIPTS = {
    "ols_coverage": Script("regression", 50, 5000, 500),
    "robust_coverage": Script("regression", 4, 5000, 40),
    "row_norm": Script("regression", 10, 5000, 200),
    "rare_levels": Script("regression", 50, 5000, 200),
    "logit_coverage": Script("regression", 4, 5000, 20),
    "newton_people": Script("regression", 20, 5000, 200),
    "count_coverage": Script("regression", 10, 5000, 40),
    "newton_ols": Script("regression", 4, 5000, 40),
    "newton_weak": Script("regression", 4, 1000, 40),
    "newton_peers": Script("regression", 2, 40, 0),
    "newton_randhie": Script("regression", 2, 50, 0),
    "real_data": Script("regression", 20, 1000, 40),
    "strangest": Script("regression", 60, 10_000, 0),
    "neighbours": Script("regression", 15, 150, 0),
    "declarations": Script("descriptions", 1, 1, 0),
    "newcomer": Script("entry", 1, 1, 0),
    "quality_noise": Script("entry", 400, 2000, 0),
    "bounds_coverage": Script("entry", 4, 2000, 100),
    "naive_regression": Script("regression", 200, 5000, 1000),
    "naive_average": Script("descriptions", 5000, 20_000, 5000),
    "expfam_coverage": Script("families", 10, 5000, 200),
    "expfam_published": Script("families", 400, 5000, 1000),
    "efficiency": Script("families", 100, 1000, 100),
    "descriptions_coverage": Script("descriptions", 40, 5000, 500),
    "second_moments": Script("descriptions", 10, 5000, 200),
    "proportion_exact": Script("descriptions", 1, 1, 1),
    "laplace_average": Script("descriptions", 200, 3000, 500),
    "equipartition": Script("descriptions", 500, 5000, 1000),
    "aggregate_coverage": Script("blocks", 10, 5000, 500),
    "aggregate_forecast": Script("blocks", 10, 2000, 0),
    "aggregate_bias": Script("blocks", 2000, 40_000, 40_000),
    "aggregate_efficiency": Script("blocks", 20, 200, 0),
    "bootstrap_cost": Script("bootstrap", 20_000, 1_000_000, 0),
    "bootstrap_source": Script("bootstrap", 100, 5000, 200),
    "bootstrap_coverage": Script("bootstrap", 4, 5000, 100),
    "count_intervals": Script("tables", 1, 1, 0),
    "marginals_error": Script("tables", 200, 20_000, 0),
    "marginals_coverage": Script("tables", 40, 5000, 100),
    "marginals_tests": Script("tables", 100, 2000, 400),
    "marginals_real": Script("tables", 400, 5000, 0),
    "binomtest_exact": Script("tests", 1, 1, 1),
    "association": Script("tests", 40, 5000, 1000),
    "mean_tests": Script("tests", 200, 10_000, 1000),
    "rank_sizes": Script("tests", 40, 5000, 500),
    "rank_power": Script("tests", 40, 1000, 0),
    "regression_tests": Script("tests", 50, 5000, 500),
    "chisquare_size": Script("tests", 100, 10_000, 1000),
    "chisquare_pvalues": Script("tests", 300, 10_000, 1000),
    "chisquare_power": Script("tests", 2000, 20_000, 2000),
    "loglinear_coverage": Script("tests", 20, 5000, 200),
    "loglinear_size": Script("tests", 20, 5000, 200),
    "simultaneous_coverage": Script("tests", 20, 5000, 500),
    "people_coverage": Script("people", 10, 5000, 500),
    "selection_laws": Script("selection", 4000, 1_000_000, 0),
    "threshold_error": Script("selection", 200, 5000, 0),
    "quantile_split": Script("selection", 8, 400, 0),
    "good_instances": Script("selection", 10, 400, 0),
    "quantile_error": Script("selection", 3, 100, 0),
    "quantile_coverage": Script("selection", 8, 5000, 200),
    "density_error": Script("selection", 40, 5000, 200),
    "cdf_band": Script("selection", 20, 5000, 500),
    "audit_table": Script("audit", 200, 20_000, 0),
    "audit_bugs": Script("audit", 600, 20_000, 0),
    "plan_accuracy": Script("planning", 10, 1000, 0),
    "plan_real": Script("planning", 10, 400, 0),
    "peers": Script("peers", 3, 100, 0),
    "aggregate_speed": Script("speed", 1, 5, 0),
    "bootstrap_speed": Script("speed", 1, 5, 0),
    "null_speed": Script("speed", 2, 15, 0),
    "rank_speed": Script("speed", 1, 3, 0),
    "histogram_speed": Script("speed", 1, 15, 0),
    "cells_speed": Script("speed", 1, 9, 0),
    "ols_speed": Script("speed", 1, 15, 0),
    "newton_speed": Script("speed", 1, 15, 0),
    "selection_speed": Script("speed", 1, 3, 0),
    "marginals_speed": Script("tables", 1, 5, 0),
    "study_speed": Script("speed", 300, 10_000, 0),
    "engines_speed": Script("engines", 1, 5, 0),
    "engines_memory": Script("engines", 1, 3, 0),
    "engines_scale": Script("engines", 1, 3, 0),
}
"""In the order in which they run. None with a fresh seed: what they show is no coverage or size."""

TIMED = tuple(
    name for name, script in SCRIPTS.items() if script.folder in ("speed", "engines") or name.endswith("_speed")
)
"""Scripts whose claims depend on the machine: reported, but no reason to fail a quick run."""


def module_of(name: str) -> str:
    """Return the module of a script: ``python -m`` runs it alone."""
    return f"validation.{SCRIPTS[name].folder}.{name}"
