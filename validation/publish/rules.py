"""The figures of the rules, for the guide that states them."""

from __future__ import annotations

from scipy import stats

from dpinfer.studies import Rules
from validation.publish.quantiles import lines_of

__all__ = ["rules"]

REPLICATES = (500, 1000, 2000, 5000, 10_000)
DESIGNS = 100


def rules() -> str:
    """Thresholds by the number of replicates."""
    judge, level = Rules(), 0.95
    rows = []
    for replicates in REPLICATES:
        least = judge.least_coverage(replicates, level)
        below = stats.binom.cdf(round(least * replicates) - 1, replicates, level)
        most = judge.largest_size(replicates, level, DESIGNS)
        rows.append((f"{replicates:,}", f"{least:.4f}", f"{below:.5f}", f"{most:.4f}"))
    heads = ["replicates of a cell", "least coverage of 95% intervals", "chance that an exact interval is below",
             f"largest size of tests at .05, of {DESIGNS} designs"]  # fmt: skip
    return "\n".join(
        [
            *lines_of(heads, rows),
            "",
            f"Mean widths are at most {judge.width_cap:.2f} times the oracle's, and at most {judge.unbounded_cap:.1%} "
            f"of the intervals are unbounded, where kappa is at least {judge.kappa:g}; tests that keep their level "
            f"fail with probability {judge.size_alarm:g} in a study.",
        ]
    )
