"""Measured sections on tests, tables of counts and several intervals at once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from validation.common.pages import Column, first_run, grouped, output, picture, replicates, section, table, text
from validation.publish import speed

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
POWERS = ("counts", "noise on the statistic", "no privacy")
AT = ("size at 0.05", "size at 0.01")


def by_level(sizes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Put the sizes at both levels beside each other, a row for each cell."""
    parts = [sizes[sizes["level"] == level].drop(columns="level") for level in (0.05, 0.01)]
    left, right = (part.rename(columns={"size": name}) for part, name in zip(parts, AT, strict=True))
    return left.merge(right[[*by, AT[1]]], on=by)


def sizes_of(sizes: pd.DataFrame, by: str | list[str], name: str, what: str = "designs") -> str:
    """Return a table of the sizes at both levels, of what are called cells or designs."""
    columns: dict[str, Column] = {
        "test": name,
        what: "{cells}",
        "largest size at .05": "{most wide:.4f}",
        "at .01": "{most narrow:.4f}",
        "smallest at .05": "{least wide:.4f}",
        f"{what} below .04": lambda group: int((group["wide"] < 0.04).sum()),
    }
    return grouped(sizes.rename(columns=dict(zip(AT, ("wide", "narrow"), strict=True))), by, columns)


def least_of(name: str, by: str) -> str:
    """Return the least coverage of each quantity in a sentence."""
    covered = output(name).groupby(by, sort=False)["coverage"]
    return "; ".join(f"{one} {found.min():.4f} in {found.size} cells" for one, found in covered)


@section("tests", "tests")
def tests() -> str:
    """Largest sizes of all tests, then the powers that are known."""
    found = output("chisquare_size")
    keys = [*found.columns[:7]]
    last = by_level(found.drop_duplicates([*keys, "level"], keep="last"), keys)
    joint = output("regression_tests")
    parts = [
        sizes_of(last, ["test", "statistic"], "{test}, {statistic}"),
        sizes_of(output("mean_tests"), "test", "{test}").split("\n", 2)[2],
        sizes_of(joint.assign(test=0), "test", "regression, simulated null").split("\n", 2)[2],
    ]
    powers = ("projected", "pearson", "without privacy")
    return text(
        "\n".join(parts),
        f"Tables: {replicates(found)}; d = 2, 4, 10, 50; 2x2, 3x4 and 5x5; uniform cells, "
        "and one of expectation 2; n from 100 to 100,000; rho from .00125 to .5 and eps of .1 and 1; both relations. "
        f"Regression: {replicates(joint)}. 199 draws behind each p-value. Made by `python "
        "-m validation --only` with `chisquare_size`, `mean_tests` and `regression_tests`; every design, with "
        "the size that would be too large, is in `validation/output/`.",
        picture("P-values under the null hypothesis against uniform quantiles", "chisquare_pvalues"),
        table(output("chisquare_power"), {"design": "{design}", "n": "{n:,}", "rho": "{rho:g}"}
              | {one.replace("pearson", "Pearson"): f"{{{one}:.3f}}" for one in powers}),
        "Power at .05 under replace_one with a public n: `python -m validation --only chisquare_power`, which also "
        "draws what earlier statistics lose.",
        picture("Power that earlier statistics lose against the projected one", "chisquare_power_lost"),
        "Least coverage of 95% intervals (`python -m validation --only association`): "
        f"{least_of('association', 'quantity')}.",
        picture("Sizes and powers of the tests of means beside the ordinary ones", "mean_tests"),
    )  # fmt: skip


@section("loglinear", "loglinear")
def loglinear() -> str:
    """Coverage and width by population, sizes by test, power."""
    last = output("loglinear_coverage", ["design", "n", "price", "neighbors", "term"])
    sizes = output("loglinear_size")
    columns = {
        "population": "{design}",
        "coefficients": "{cells}",
        "least coverage": "{least coverage:.4f}",
        "not determined": "{mean not determined:.1%}",
        "least where determined": "{least coverage where determined:.4f}",
        "the same, Wald": "{least wald where determined:.3f}",
        "largest width / oracle": "{most width / oracle:.3f}",
    }
    return text(
        grouped(last.replace({"width / oracle": {np.inf: np.nan}}), "design", columns),
        f"{replicates(last)} of each cell; n from 200 to 10,000; rho of .005, .05 and .5, "
        "epsilon of 1, mu of .5; both relations. Coverage counts intervals of coefficients that are not determined; "
        "where determined, those of the others alone. In the empty cell the truth is infinite, and covered by an "
        "interval without end. Widths are judged where the smallest fitted count is five of its standard errors. Made "
        "by `python -m validation --only loglinear_coverage`.",
        picture("Coverage of score and Wald intervals, and widths", "loglinear_coverage"),
        sizes_of(sizes, "test", "{test}", "cells"),
        f"{replicates(sizes)}, 199 draws behind each p-value; 2 x 3 x 2 cells, even, with "
        "rare levels, and with nearly all rows in one; n from 100 to 10,000; both relations. Made by `python -m "
        "validation --only loglinear_size`.",
        picture("Sizes, and power beside the ordinary test", "loglinear_size"),
    )


@section("tests", "several")
def several() -> str:
    """Joint coverage of simultaneous intervals."""
    found = output("simultaneous_coverage")
    columns = {
        "intervals": "{quantity}",
        "at once": "{intervals}",
        "cells": "{cells}",
        "least joint coverage": "{least coverage:.4f}",
        "single ones, taken together": "{least single, together:.3f} to {most single, together:.3f}",
        "width / single": "{mean width / single:.2f}",
    }
    return text(
        grouped(found, "quantity", columns),
        f"{replicates(found)} of each cell: n of 500 and 5,000, rho of .05 and .5, "
        "epsilon of 1, both relations. Made by `python -m validation --only simultaneous_coverage`.",
        picture("Joint coverage of simultaneous intervals and of single ones", "simultaneous_coverage"),
    )


@section("ranks", "ranks")
def ranks() -> str:
    """Largest sizes of all tests, powers beside noise on the statistic, and coverage of effects."""
    found, powers = output("rank_sizes"), output("rank_power")
    keys = ["test", "rows", "values", "price", "neighbors"]
    last = by_level(found.drop_duplicates([*keys, "level"], keep="last"), keys)
    shown = {"test": "`{test}`", "epsilon": "{epsilon:g}", "rows": "{n:,}"} | {one: f"{{{one}:.3f}}" for one in POWERS}
    return text(
        sizes_of(last, "test", "`{test}`"),
        f"{replicates(found)}, 199 draws behind each p-value; n of 50, 1,000 and "
        "100,000; groups of equal sizes and of 1 to 20; even values, ties of nine rows in ten, skewed ones in "
        "loose bounds, Cauchy values; three measures, each at a large and a small budget; both relations (`python -m "
        "validation --only rank_sizes`).",
        picture("Sizes of the rank tests", "rank_sizes"),
        "Power at .05 against a shift of half a standard deviation of the last group, PureDP, replace_one, n "
        "public: from counts, from noise on the statistic at the same guarantee (Couch et al. 2019; their "
        "Mann-Whitney test has a delta of 1e-6 besides), and without privacy "
        "(`python -m validation --only rank_power`).",
        table(powers[powers["n"].isin((100, 400, 1600))], shown),
        "\n".join(_lost(test, group) for test, group in powers.groupby("test", sort=False)),
        picture("Power of rank tests from counts and from noise on the statistic", "rank_power"),
        f"Least coverage of 95% intervals of effects: {least_of('rank_effects', 'effect')}.",
    )


def _lost(test: object, group: pd.DataFrame) -> str:
    """Say of a test where either has more power, and the largest differences."""
    apart = group["counts"] - group["noise on the statistic"]
    worst, best = group.loc[apart.idxmin()], group.loc[apart.idxmax()]
    where = f"(epsilon {worst['epsilon']:g}, {worst['n']:,} rows)"
    said = f"- `{test}`: counts lose up to {-apart.min():.2f} of power {where}"
    if apart.max() > 0.05:
        said += f", and win up to {apart.max():.2f} (epsilon {best['epsilon']:g}, {best['n']:,} rows)"
    return f"{said}."


@section("tables", "count-intervals")
def count_intervals() -> str:
    """Exact coverage by price and number of cells."""
    found = output("count_intervals")
    columns = {
        "cells added up": "{cells:.0f}",
        "budget": "`PureDP({epsilon:g})`",
        "rows on either side": "{half width:.0f}",
        "coverage": "{coverage:.4f}",
        "with one row less": "{one step less:.4f}",
        "by a continuous law": "{continuous:.4f}",
    }
    return text(
        "Exact coverage of 95% intervals for the data's own counts (`python -m validation --only count_intervals`):",
        table(
            found[(found["level"] == 0.95) & found["epsilon"].isin(EPSILONS) & found["cells"].isin((1, 5, 100))],
            columns,
        ),
        picture("Exact coverage against epsilon", "count_intervals"),
    )


@section("marginals", "marginals")
def marginals() -> str:
    """What independent marginals would cost, the lower bound, coverage and width, size, real rows, and time."""
    error, coverage, sizes, real = (output(f"marginals_{part}") for part in ("error", "coverage", "tests", "real"))

    def others(price: str, objective: str, column: str) -> Column:
        return lambda group: f"{group.set_index(['price', 'objective']).loc[(price, objective), column]:.2f}"

    noise: dict[str, Column] = {
        "workload": "{design}",
        "independent marginals": others("zcdp", "sum", "independent marginals"),
        "the same, averaged": others("zcdp", "sum", "independent, averaged"),
        "lower bound": lambda group: (
            f"{1 / group.set_index(['price', 'objective']).loc[('zcdp', 'sum'), 'over the lower bound']:.4f}"
        ),
        "largest: independent": others("zcdp", "max", "independent marginals"),
        "pure: independent": others("pure", "sum", "independent marginals"),
        "pure: contrasts": others("pure", "sum", "contrasts"),
    }
    replaced = error[error["price"] == "zcdp"]["replace_one over add_remove"]
    coverage, sizes = (first_run(one) for one in (coverage, sizes))
    covered = {
        "of what": "{quantity}",
        "designs": "{cells}",
        "estimates": "{total estimates:,}",
        "least coverage": "{least coverage:.4f}",
        "means of designs": "{least mean coverage:.3f} to {most mean coverage:.3f}",
        "largest width over the oracle's": "{most width / oracle:.3f}",
    }
    tested = {
        "test": "{test}",
        "designs": "{cells}",
        "least": "{least size:.3f}",
        "mean": "{mean size:.3f}",
        "largest": "{most size:.3f}",
    }
    rows: dict[str, Column] = {
        "budget": "{price}",
        "neighbours": "`{neighbors}`",
        "standard errors of cells": "{least standard error:.1f} to {most standard error:.1f}",
        "least coverage of a cell": "{least coverage:.4f}",
        "error off its formula, at most": lambda group: f"{(group['error / formula'] - 1).abs().max():.4f}",
    }
    return text(
        "*Noise.* Sums of the variances of all cells over ours at the same budget, under `add_remove`; and the largest "
        'variance over that of `objective="max"`. Independent marginals have the budget split as is best for them; '
        "averaged ones share what they know of common margins. The lower bound is that of all Gaussian matrix "
        "mechanisms (`python -m validation --only marginals_error`):",
        grouped(error, "design", noise),
        f"Under `replace_one` variances are {replaced.min():.2f} to {replaced.max():.2f} times those under "
        "`add_remove`, and 4 times under pure DP.",
        picture("Sums of variances of others over ours, by workload", "marginals_error"),
        f"*Coverage* of 95% intervals, {replicates(coverage)} of each of "
        f"{coverage.groupby(['design', 'amount', 'measure', 'neighbors', 'n']).ngroups} designs: even, rare and empty "
        "cells, strong dependence, binary columns, unequal numbers of levels, one marginal of three columns; 60 to "
        "20,000 rows; little and much budget in four measures (Laplace noise in two designs, and on the real rows "
        "below); both relations. At least .9376 is asked for in each single cell "
        "(`python -m validation --only marginals_coverage`):",
        grouped(coverage, "quantity", covered),
        picture("Least coverage among the cells of each design", "marginals_coverage"),
        f"*Size* of chi-squared tests at level .05, {replicates(sizes)} of each design "
        "(`python -m validation --only marginals_tests`):",
        grouped(sizes, "test", tested),
        "*Real rows.* All 28 pairs of eight coded columns of anes96: 944 rows, a whole table of 6.5 million cells, "
        f"{replicates(real)} (`python -m validation --only marginals_real`):",
        grouped(real, ["price", "neighbors"], rows),
        picture("Share of votes by column, from one release of all pairs, and in the rows", "marginals_real"),
        "*Time* on ten million rows of Parquet, two cores, beside a bare pyarrow scan of the same columns, timed in "
        f"turn; price, ledger and noise included ({speed.COMMAND}). Columns are counted in blocks of several at once, "
        "and marginals are sums of the counters:",
        speed.times(speed.ratios("marginals")),
    )
