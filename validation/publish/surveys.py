"""Measured section on complex surveys: coverage by estimate, and width by size, price and design."""

from __future__ import annotations

import numpy as np

from validation.common.pages import Column, grouped, output, picture, ranged, section, text


@section("surveys", "survey")
def survey() -> str:
    """Coverage with privacy and without, widths over the ordinary ones, and what is not determined."""
    found = output("survey_coverage")
    share: Column = lambda group: f"{group['flagged'].mean():.1%}"  # noqa: E731
    kinds: dict[str, Column] = {
        "estimate": "{kind}",
        "cells": "{cells}",
        "mean coverage": "{mean coverage:.3f}",
        "least coverage": "{least coverage:.3f}",
        "mean without privacy": "{mean coverage without noise:.3f}",
        "least without privacy": "{least coverage without noise:.3f}",
        "not determined": share,
    }
    widths: dict[str, Column] = {
        "n": "{n:,}",
        "budget": "`{price}`",
        "mean": lambda group: _width(group, "mean"),
        "total": lambda group: _width(group, "total"),
        "ratio": lambda group: _width(group, "ratio"),
        "mean of a domain": lambda group: _width(group, "mean of a domain"),
        "regression": lambda group: _width(group, "regression"),
    }
    designs: dict[str, Column] = {
        "population": "{design}, {outcome}",
        "mean coverage": "{mean coverage:.3f}",
        "mean without privacy": "{mean coverage without noise:.3f}",
        "not determined": share,
        "largest mean width / oracle": "{most width / oracle:.2f}",
    }
    return text(
        "3 made-up designs (30 strata with 2 units, 10 with 5, 2 with 30), with symmetric and skewed outcomes and "
        "weights from 1 to 5 that are related to them; and two real populations, of which units and then rows are "
        "drawn: 29,501 weekly wages by PUMA of the US census of 2000 (9 groups of states with 6 units; `census2000`), "
        "and scores of 1,823 schools by district (4 groups of districts with 12 units; `meap01`). n of 1,000, 5,000 "
        f"and 50,000, ZCDP(.5), ZCDP(.05) and PureDP(1), add_remove; {ranged(found['replicates'], ',')} replicates of "
        "each cell (`python -m validation --only survey_coverage`). Coverage of 95% intervals, also of what is not "
        "determined:",
        grouped(found, "kind", kinds),
        "Judged by 95%, or by what the ordinary interval covers of the same samples where that is less; the Monte "
        f"Carlo error of a cell is {np.sqrt(0.05 * 0.95 / found['replicates'].max()):.3f}. Not held by the rule of "
        f"[claims](claims.md), coverage and widths together: {int((~found['held']).sum())} of {len(found):,}. Widths "
        "are judged, by 1.1 times that of an oracle, where the denominator is ten standard deviations of its noise.",
        "Median over designs of the mean width over that of the ordinary interval, of what is determined, and in "
        "brackets the share that is not:",
        grouped(found.sort_values(["n", "price"], kind="stable"), ["n", "price"], widths),
        grouped(found, ["design", "outcome"], designs),
        picture("Coverage and width of survey intervals by the ratio of noise to sampling", "survey_coverage"),
    )


def _width(group, kind: str) -> str:
    mine = group[group["kind"] == kind]
    return f"{mine['width / without noise'].median():.2f} ({mine['flagged'].mean():.0%})"
