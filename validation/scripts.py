"""Which scripts there are, where each is, and how many replicates it takes."""

from __future__ import annotations

from typing import NamedTuple


class Script(NamedTuple):
    """Where a script is, and its replicates at most: in a quick run, in a full one, and in one with a fresh seed."""

    folder: str
    quick: int = 60
    full: int = 5000
    fresh: int = 500


_ORDER = {
    "common": "rule_errors",
    "regression": "ols_coverage robust_coverage row_norm rare_levels logit_coverage newton_people count_coverage "
    "newton_ols newton_weak panels absorbed clusters newton_peers newton_randhie real_data unseen narrow strangest "
    "neighbours naive_regression iv_coverage absorbed_cost",
    "entry": "newcomer quality_noise bounds_coverage",
    "families": "expfam_coverage expfam_published efficiency",
    "descriptions": "declarations naive_average descriptions_coverage second_moments proportion_exact laplace_average "
    "equipartition",
    "blocks": "aggregate_coverage aggregate_forecast aggregate_bias aggregate_efficiency",
    "bootstrap": "bootstrap_cost bootstrap_source bootstrap_coverage",
    "tables": "count_intervals marginals_error marginals_coverage marginals_tests marginals_real",
    "tests": "binomtest_exact association mean_tests rank_sizes rank_power regression_tests chisquare_size "
    "chisquare_pvalues chisquare_power loglinear_coverage loglinear_size simultaneous_coverage",
    "duration": "survival_coverage survival_tests survival_fine",
    "survey": "survey_coverage",
    "experiments": "experiment_coverage observational_coverage",
    "choice": "choice_coverage choice_blocks",
    "people": "people_coverage",
    "selection": "selection_laws threshold_error quantile_split good_instances quantile_error quantile_coverage "
    "density_error cdf_band",
    "audit": "audit_table audit_bugs",
    "planning": "plan_accuracy plan_real",
    "peers": "peers",
    "speed": "ratios growth engines_speed engines_memory engines_scale",
}
_ELSEWHERE = dict.fromkeys(("engines_speed", "engines_memory", "engines_scale"), "engines")
_COUNTS = {
    **dict.fromkeys(("rule_errors", "proportion_exact", "binomtest_exact"), (1, 1, 1)),
    **dict.fromkeys(("newcomer", "declarations", "count_intervals"), (1, 1, 0)),
    "newton_peers": (2, 250, 0), "newton_randhie": (2, 250, 0), "real_data": (20, 1000, 0),
    "unseen": (20, 1000, 0), "strangest": (60, 10_000, 0),
    "neighbours": (15, 150, 0), "naive_average": (1000, 20_000, 5000), "quality_noise": (200, 2000, 0),
    "logit_coverage": (10, 1000, 250), "count_coverage": (20, 1000, 250), "newton_ols": (20, 1000, 250),
    "newton_weak": (20, 1000, 250), "panels": (10, 1000, 250), "clusters": (10, 1000, 250), "narrow": (20, 1000, 0),
    "absorbed": (10, 250, 250), "absorbed_cost": (1, 250, 0),
    "newton_people": (20, 1000, 250), "robust_coverage": (20, 1000, 250),
    "aggregate_coverage": (20, 5000, 250), "aggregate_forecast": (10, 1000, 0), "aggregate_bias": (60, 400, 400),
    "aggregate_efficiency": (20, 250, 0), "bootstrap_cost": (20_000, 300_000, 0),
    "bootstrap_source": (100, 2000, 250),
    "bootstrap_coverage": (10, 5000, 250), "marginals_error": (200, 20_000, 0), "marginals_real": (60, 5000, 0),
    "iv_coverage": (20, 1000, 250),
    "rank_power": (60, 5000, 0), "selection_laws": (4000, 1_000_000, 0), "threshold_error": (60, 5000, 0),
    "quantile_split": (8, 400, 0), "good_instances": (20, 400, 0), "quantile_error": (3, 250, 0),
    "density_error": (20, 5000, 500),
    "cdf_band": (40, 5000, 500), "audit_table": (200, 20_000, 0), "audit_bugs": (600, 5000, 0),
    "plan_accuracy": (20, 1000, 0),
    "plan_real": (20, 400, 0), "peers": (3, 100, 0), "laplace_average": (200, 3000, 500),
    "people_coverage": (20, 5000, 250), "survival_coverage": (20, 2000, 250),
    "survival_fine": (20, 1000, 250),
    "survey_coverage": (20, 5000, 250),
    "experiment_coverage": (20, 5000, 250), "observational_coverage": (5, 250, 250),
    "choice_coverage": (20, 1000, 250), "choice_blocks": (2, 12, 0),
    "ratios": (1, 15, 0), "growth": (1, 5, 0), "engines_speed": (1, 5, 0),
    **dict.fromkeys(("engines_memory", "engines_scale"), (1, 3, 0)),
}  # fmt: skip

SCRIPTS = {
    name: Script(_ELSEWHERE.get(name, folder), *_COUNTS.get(name, ()))
    for folder, names in _ORDER.items()
    for name in names.split()
}
"""In the order in which they run. None with a fresh seed: what they show is no coverage or size."""

TIMED = tuple(_ORDER["speed"].split())
"""Scripts whose claims depend on the machine: reported, but no reason to fail a quick run."""


def module_of(name: str) -> str:
    """Return the module of a script."""
    return f"validation.{SCRIPTS[name].folder}.{name}"
