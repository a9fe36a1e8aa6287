"""Measured sections on regressions of several levels: coverage and width, and the comparison with blocks."""

from __future__ import annotations

import numpy as np

from validation.common.pages import Column, output, picture, ranged, section, table, text


@section("choice", "choice")
def choice() -> str:
    """Coverage and widths by population, number of rows and price."""
    found = output("choice_coverage")
    shown: dict[str, Column] = {
        "population": "{design}",
        "n": "{n:,}",
        "budget": "`{price}`",
        "coverage, least slope": "{coverage:.3f}",
        "coverage, mean": "{mean coverage:.3f}",
        "width / without privacy": "{width ratio:.2f}",
        "RMSE / without privacy": "{RMSE ratio:.2f}",
        "flagged": "{flagged:.0%}",
        "unbounded": "{unbounded:.0%}",
    }
    error = np.sqrt(0.05 * 0.95 / found["replicates"].max())
    return text(
        f"{ranged(found['replicates'], ',')} replicates of each cell (`python -m validation --only choice_coverage`); "
        f"the Monte Carlo error of one coverage is {error:.3f}. Truth: statsmodels' fit to the whole population, from "
        "which rows are drawn with replacement. Widths are medians over data sets and slopes, over those of robust "
        "intervals without privacy; flagged and unbounded are shares of slopes.",
        table(found.to_dict("records"), shown),
        f"Not held by the rule of [claims](claims.md): {int((~found['held']).sum())} of {len(found)} cells.",
        picture("Coverage and width of multinomial and ordered logits", "choice_coverage"),
    )


@section("choice", "choice-blocks")
def blocks() -> str:
    """Compare with statsmodels' fits on secret blocks."""
    found = output("choice_blocks")
    shown: dict[str, Column] = {
        "population": "{design}",
        "n": "{n:,}",
        "budget": "`{price}`",
        "width, iterations": "{iterations, width ratio:.2f}",
        "width, blocks": "{blocks, width ratio:.2f}",
        "RMSE, iterations": "{iterations, RMSE ratio:.2f}",
        "RMSE, blocks": "{blocks, RMSE ratio:.2f}",
        "coverage, iterations": "{iterations, coverage:.2f}",
        "coverage, blocks": "{blocks, coverage:.2f}",
    }
    return text(
        f"{ranged(found['replicates'], ',')} replicates (`python -m validation --only choice_blocks`), both from the "
        "same rows; over widths and standard errors without privacy:",
        table(found.to_dict("records"), shown),
    )
