"""Private means and standard deviations beside the best published intervals, at the published designs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from validation.common import simulated
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.simulated import Case
from validation.common.study import Drawn, Study


def drawn(rng: np.random.Generator, n: int, *, law: str, mean: float) -> dict[str, np.ndarray]:
    """Draw exponential values, or normal ones with standard deviation 1."""
    return {"x": rng.exponential(mean, n) if law == "exponential" else rng.normal(mean, 1.0, n)}


def design(name: str, law: str, mean: float, asked: Any, bounds: tuple[float, float], n: int, price: Any,
           published: dict[str, tuple[float, str, float]], level: float = 0.95) -> Case:  # fmt: skip
    """Return a published design: of each parameter its truth, what was measured there, and the widest that is allowed.

    All are under replace_one with a public number of rows. At 90% widths are over those without privacy.
    """
    middle = sum(bounds) / 2
    schema = dpi.Schema(x=dpi.Real(*bounds, missing=middle, impossible=middle))
    truth = {term: true for term, (true, _, _) in published.items()}
    return Case(name, "", partial(drawn, law=law, mean=mean), asked, truth, lambda _: schema, n, (price,),
                "replace_one",
                level=level, extra={"published": published})  # fmt: skip


def cases() -> list[Case]:
    """The designs; the published normal one releases mean and second moment at 1-GDP each: together sqrt(2)-GDP."""
    normal = dpi.expfam("x", family="normal")
    found = [
        design("N(1, 1), clamp [0, 3], two statistics at 1-GDP each", "normal", 1.0, normal, (0.0, 3.0), 100,
               dpi.GDP(2**0.5), {"mean": (1.0, ".959 / .463", 0.45), "sd": (1.0, ".951 / .580", 0.40)}),
        design("N(1, 1), clamp [-4, 6], eps = 1", "normal", 1.0, normal, (-4.0, 6.0), 1000, dpi.PureDP(1.0),
               {"mean": (1.0, ".989 / .200", 0.200)}),
    ]  # fmt: skip
    for upper, width in ((10.0, 6.07), (20.0, 4.96), (50.0, 5.12), (100.0, 7.31)):
        found.append(
            design(f"Exponential, mean 10, clamp [0, {upper:g}], eps = 1", "exponential", 10.0,
                   dpi.expfam("x", family="exponential"), (0.0, upper), 100, dpi.PureDP(1.0),
                   {"mean": (10.0, f"width {width}", width)})
        )  # fmt: skip
    for mu, cap in ((0.1, 1.08), (0.3, 1.02), (1.0, 1.01)):
        found.append(
            design(f"mean of N(.5, 1) clamped to [0, 1], {mu:g}-GDP, 90%", "normal", 0.5, dpi.mean("x"), (0.0, 1.0),
                   10_000, dpi.GDP(mu), {"x": (0.5, "within .89-.91", cap)}, 0.90)
        )  # fmt: skip
    return found


def summary(case: Case, values: Drawn) -> list[dict]:
    """Put what was published beside coverage and width."""
    found = []
    for row in simulated.rows(case, values):
        if np.isfinite(row["truth"]):
            _, published, most = case.extra["published"][row["term"]]
            asked = row["width / ordinary"] if case.level == 0.9 else row["width"]
            high = row["coverage"] if case.level == 0.9 else np.nan
            error = row["error of width"] / row["width"]
            if case.level == 0.9:  # the width without privacy is estimated, too
                error = np.hypot(error, row["error of width / oracle"] / row["width / oracle"])
            found.append({"parameter": row["term"], **row, "published": published, "at most": most, "asked": asked,
                          "asked / at most": asked / most,
                          "error of asked / at most": asked / most * error,
                          "coverage of 90%": high})  # fmt: skip
    return found


def claims(table: pd.DataFrame, _: Options) -> Iterator[Claim]:
    """State coverage and width of each design."""
    for row in table.to_dict("records"):
        over = f" ({row['width / ordinary']:.3f} times ordinary)" if row["nominal"] == 0.9 else ""
        error = np.sqrt(row["nominal"] * (1 - row["nominal"]) / row["replicates"])
        yield Claim(
            f"coverage / width of the interval for {row['parameter']}", f"{row['design']}, n = {row['n']:,}",
            f"{row['coverage']:.3f} / {row['width']:.3f}{over}", row["held"], published=row["published"],
            error=f"{error:.4f}", kind="coverage", threshold=f"at least {row['nominal']:g}",
            replicates=row["replicates"], failed=int(not row["held"]), worst=f"n = {row['n']:,}",
        )  # fmt: skip


STUDY = Study(
    "expfam_published", cases, simulated.draw, summary,
    (
        Rule("", "coverage", limit="nominal"),
        Rule("", "asked / at most", "value", 1.0),
        Rule("", "coverage of 90%", "size", 0.91),
    ),
    axes=lambda case: {"design": case.name, "n": case.n}, by=("parameter",), also=claims,
    figure=scatter("design", {"coverage": 0.95, "asked / at most": 1.0}, "parameter"),
    notes=(
        "All under replace_one with a public number of rows. The column at most is the best published width; for the "
        "90% rows a ratio to the interval without privacy.",
        "Prior knowledge in the third row: that values lie in [-4, 6], ten standard deviations wide; nothing about "
        "mean or standard deviation.",
    ),
)  # fmt: skip
