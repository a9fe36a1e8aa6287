"""Private means and standard deviations beside the best published intervals, at the published designs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from validation.common.claims import RULES, Claim
from validation.common.outputs import Options, new_figure, options, write_table


@dataclass(frozen=True)
class Drawn:
    """Normal or exponential values."""

    law: str
    first: float
    second: float = 1.0

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n values."""
        if self.law == "exponential":
            return {"x": rng.exponential(self.first, n)}
        return {"x": rng.normal(self.first, self.second, n)}


@dataclass(frozen=True)
class Comparison:
    """One published design: what was measured there, and what is asked of ours."""

    name: str
    drawn: Drawn
    procedure: object
    bounds: tuple[float, float]
    n: int
    price: object
    truth: dict[str, float]
    published: dict[str, str]
    widest: dict[str, float]
    level: float = 0.95
    ratios: tuple[float, ...] = ()


def comparisons() -> list[Comparison]:
    """The designs: under replace_one, with a public number of rows."""
    # The published normal design releases mean and second moment at 1-GDP each: together sqrt(2)-GDP.
    found = [
        Comparison(
            "N(1, 1), clamp [0, 3], two statistics at 1-GDP each",
            Drawn("normal", 1.0),
            dpi.expfam("x", family="normal"),
            (0.0, 3.0),
            100,
            dpi.GDP(2**0.5),
            {"mean": 1.0, "sd": 1.0},
            {"mean": ".959 / .463", "sd": ".951 / .580"},
            {"mean": 0.45, "sd": 0.40},
        ),
        Comparison(
            "N(1, 1), clamp [-4, 6], eps = 1",
            Drawn("normal", 1.0),
            dpi.expfam("x", family="normal"),
            (-4.0, 6.0),
            1000,
            dpi.PureDP(1.0),
            {"mean": 1.0},
            {"mean": ".989 / .200"},
            {"mean": 0.200},
        ),
    ]
    for upper, width in ((10.0, 6.07), (20.0, 4.96), (50.0, 5.12), (100.0, 7.31)):
        found.append(
            Comparison(
                f"Exponential, mean 10, clamp [0, {upper:g}], eps = 1",
                Drawn("exponential", 10.0),
                dpi.expfam("x", family="exponential"),
                (0.0, upper),
                100,
                dpi.PureDP(1.0),
                {"mean": 10.0},
                {"mean": f"width {width}"},
                {"mean": width},
            )
        )
    for mu, cap in ((0.1, 1.08), (0.3, 1.02), (1.0, 1.01)):
        found.append(
            Comparison(
                f"mean of N(.5, 1) clamped to [0, 1], {mu:g}-GDP, 90%",
                Drawn("normal", 0.5),
                dpi.mean("x"),
                (0.0, 1.0),
                10_000,
                dpi.GDP(mu),
                {"x": 0.5},
                {"x": "within .89-.91"},
                {"x": cap},
                level=0.90,
                ratios=(cap,),
            )
        )
    return found


def measure(one: Comparison, arguments: Options) -> list[dict]:
    """Study one design."""
    middle = sum(one.bounds) / 2
    study = dpi.coverage_study(
        one.drawn,
        one.procedure,
        schema=dpi.Schema(x=dpi.Real(*one.bounds, missing=middle, impossible=middle)),
        truth=one.truth,
        n=one.n,
        privacy=one.price,
        neighbors="replace_one",
        replicates=arguments.replicates,
        level=one.level,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=False,
    )
    rows = []
    for cell in study.cells[np.isfinite(study.cells["truth"])].to_dict("records"):
        term, error = cell["term"], cell["MCSE of coverage"]
        width = cell["width / ordinary"] if one.ratios else cell["width"]
        least = RULES.least_coverage(arguments.replicates, one.level)
        held = cell["coverage"] >= least and width <= one.widest[term]
        if one.ratios:
            held = held and cell["coverage"] - 3 * error <= 0.91
        rows.append(
            {
                "design": one.name,
                "n": one.n,
                "parameter": term,
                "coverage": cell["coverage"],
                "error": error,
                "width": cell["width"],
                "width / ordinary": cell["width / ordinary"],
                "width / oracle": cell["width / oracle"],
                "published": one.published[term],
                "at most": one.widest[term],
                "below": 1 - width / one.widest[term],
                "least": least,
                "replicates": arguments.replicates,
                "held": held,
            }
        )
    return rows


def figure_of(table: pd.DataFrame) -> Figure:
    """Width against the required width."""
    figure, axes = new_figure(8.5, 4.2)
    place = np.arange(len(table))[::-1]
    asked = np.where(table["design"].str.contains("90%"), table["width / ordinary"], table["width"])
    axes.barh(place, asked / table["at most"], color="#4477aa", height=0.6)
    axes.axvline(1.0, color="firebrick", lw=1, ls="--")
    axes.set_yticks(place, [f"{row.design}: {row.parameter}" for row in table.itertuples()], fontsize=8)
    for y, row in zip(place, table.itertuples(), strict=True):
        axes.text(0.02, y, f"coverage {row.coverage:.3f}", va="center", color="white", fontsize=8)
    axes.set_xlabel("mean width over the best published (or over what is allowed)")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every design, write the table and the figure."""
    table = pd.DataFrame([row for one in comparisons() for row in measure(one, arguments)])
    notes = [
        "All under replace_one with a public number of rows. The column at most is the best published width; for the "
        "90% rows a ratio to the interval without privacy.",
        "Prior knowledge in the third row: that values lie in [-4, 6], ten standard deviations wide; nothing about "
        "mean or standard deviation.",
    ]
    write_table(table, "expfam_published", arguments, notes, figure_of(table))
    return [
        Claim(
            f"coverage / width of the interval for {row.parameter}",
            f"{row.design}, n = {row.n:,}",
            f"{row.coverage:.3f} / {row.width:.3f}"
            + (f" ({row._7:.3f} times ordinary)" if "90%" in row.design else ""),
            row.held,
            published=row.published,
            error=f"{row.error:.4f}",
            kind="coverage",
            threshold=f"at least {row.least:.4f}",
            replicates=row.replicates,
            failed=int(not row.held),
            worst=f"n = {row.n:,}",
        )
        for row in table.itertuples()
    ]


if __name__ == "__main__":
    run(options("families.expfam_published", __doc__, replicates=5000))
