"""Tables, figure and claims of the study of people with several dependent rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from dpinfer.studies import truncation
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import new_figure
from validation.people.people_bootstrap import PRICE
from validation.people.people_checks import Agreement
from validation.people.people_designs import DESIGNS, KEPT, ROWS

ALIKE, RELATED = DESIGNS[2].name, DESIGNS[3].name
MANY_PEOPLE = 2000
KEYS = ["design", "quantity", "term", "max_rows", "n", "neighbors", "price"]


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Attributes
    ----------
    table, slopes, kept : DataFrame
    agreed : Agreement
    people : int
        From whom truths are averaged.
    """

    table: pd.DataFrame
    slopes: pd.DataFrame
    kept: pd.DataFrame
    agreed: Agreement
    people: int

    @property
    def last(self) -> pd.DataFrame:
        """The run that decides in every cell: the rerun where there was one."""
        return self.table.drop_duplicates(KEYS, keep="last")

    @property
    def last_slopes(self) -> pd.DataFrame:
        """The same of the slopes with the bootstrap beside."""
        return self.slopes.drop_duplicates(["design", "max_rows", "n"], keep="last")


def kept_table(table: pd.DataFrame, uncut: Sequence[float]) -> pd.DataFrame:
    """What each max_rows keeps, what it moves and what noise it brings: the mean at the first price, largest n."""
    declared = truncation(ROWS, KEPT).frame
    means = table[(table["quantity"] == "mean") & (table["run"] == "first") & (table["n"] == table["n"].max())]
    means = means[(means["price"] == means["price"].iloc[0]) & (means["neighbors"] == "add_remove")]
    rows = []
    for row in means.to_dict("records"):
        share = declared.loc[row["max_rows"]]
        bias = row["truth"] - uncut[row["place"]]
        rows.append(
            {
                "design": row["design"], "max_rows": row["max_rows"], "rows kept": share["rows kept"],
                "people cut": share["people cut"], "relative noise of a sum": share["relative noise"],
                "mean of kept rows": row["truth"], "uncut mean": uncut[row["place"]], "bias": bias,
                "bias, share of the mean": bias / uncut[row["place"]], "n": row["n"],
                "sampling s.d.": row["sampling s.d."], "noise s.d.": row["noise s.d."],
                "total s.d.": float(np.hypot(row["sampling s.d."], row["noise s.d."])),
                "error, uncut": float(np.hypot(np.hypot(row["sampling s.d."], row["noise s.d."]), bias)),
                "coverage": row["coverage"], "covers the uncut mean": row["covers the uncut mean"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def notes(found: Outcome) -> list[str]:
    """What the tables mean, and by which rules they were judged."""
    first, again = (found.table[found.table["run"] == run] for run in ("first", "rerun"))
    counts = sorted(set(first["replicates"]), reverse=True)
    least = ", ".join(f"{RULES.least_coverage(one, 0.95):.4f} at {one:,}" for one in counts)
    one = int(found.last_slopes["replicates"].min())
    beyond = found.last[~found.last["within cap"]]
    return [
        "What is estimated: a person with N rows counts with min(N, max_rows) of them, chosen by a public hash. A mean "
        "is that of these rows over people, E[sum of kept rows] / E[number of kept rows], and so is a proportion; a "
        "slope is that of the kept rows; a total is that of the kept rows of so many people on average. Where numbers "
        "of rows are related to values, this is not the mean of all rows ('uncut'). Truths and sampling variances by "
        f"person: from {found.people:,} people a design, with a seed of their own; the slope is .5 whatever is kept.",
        f"Cells and quantities: {len(first)}; coverage short at first: {int((~first['covers']).sum())}; again at ten "
        f"times the replicates: {int((~again['covers']).sum())}. Least coverage allowed: {least} replicates, at the "
        f"fewest of which a true coverage of {_missed(counts[-1]):.3f} would pass in one run of ten.",
        f"Mean widths of means and proportions are judged where kappa, the number of kept people over its noise, is at "
        f"least {RULES.kappa:g}: above {RULES.width_cap:g} times the oracle's in {len(beyond)} cells, with n = "
        f"{', '.join(f'{n:,}' for n in sorted(set(beyond['n']))) or 'none'}, where noise is up to "
        f"{(beyond['noise s.d.'] / beyond['sampling s.d.']).max():.1f} times the sampling error.",
        "'coverage if independent' is what the same releases would give if rows were taken as independent, at the "
        "first price: slopes with the sampling variance of independent rows, the others with that variance known.",
        f"Sums and intervals are the library's: {found.agreed.sums:,} sums are the same whole numbers, "
        f"{found.agreed.intervals:,} intervals the same. Of a person with more rows the first ones stand for those "
        f"that the hash keeps; the spending in these differs by {found.agreed.chosen:+.2f} standard errors.",
        f"Slopes at {PRICE} under add_remove, the bootstrap with 50 replicates and least squares of the same rows: "
        f"{one:,} replicates, at which the rule asks for {RULES.least_coverage(one, 0.95):.4f}, and a true coverage of "
        f"{_missed(one):.3f} would pass in one run of ten. Mean widths are over data sets where both are bounded.",
        "'design effect' is the true sampling variance over that of independent rows; the intervals of least squares "
        "take it to be max_rows. Oracles know the true one, and the noise.",
    ]


def _missed(replicates: int) -> float:
    """Coverage that passes the rule with probability .1."""
    passing = round(RULES.least_coverage(replicates, 0.95) * replicates)
    grid = np.linspace(0.2, 0.95, 7501)
    return float(grid[np.searchsorted(stats.binom.sf(passing - 1, replicates, grid), 0.1)])


def figure_of(found: Outcome) -> Figure:
    """Coverage with and without people, widths, noise against bias, and slopes."""
    figure, ((coverage, width), (cost, slope)) = new_figure(11, 8, 2, 2)
    last, marks = found.last, "osD^vP"
    for place, (quantity, part) in enumerate(last.groupby("quantity", sort=False)):
        at = part["max_rows"] + 0.12 * (place - 2.5)
        coverage.plot(at, part["coverage"], marks[place], ms=3.5, color=f"C{place}", label=quantity)
        if quantity != "total of the data":
            several = part[part["max_rows"] > 1]
            coverage.plot(
                at[several.index], several["coverage if independent"], "x", ms=3.5, color=f"C{place}", alpha=0.6
            )
        width.plot(at, part["width / oracle"], marks[place], ms=3.5, color=f"C{place}", label=quantity)
    coverage.plot([], [], "x", color="grey", label="if rows were independent")
    coverage.axhline(0.95, color="black", lw=0.8)
    coverage.set(xlabel="max_rows", ylabel="coverage of 95% intervals", xticks=KEPT)
    coverage.legend(frameon=False, fontsize=7)
    width.axhline(RULES.width_cap, color="firebrick", lw=0.8, ls="--", label="cap (not for slopes)")
    width.set(xlabel="max_rows", ylabel="mean width over the oracle's", xticks=KEPT, yscale="log")
    width.set_yticks([0.75, 1, 1.5, 2, 4, 8], labels=["0.75", "1", "1.5", "2", "4", "8"], minor=False)
    width.minorticks_off()
    width.legend(frameon=False, fontsize=7)
    kept = found.kept[found.kept["design"] == RELATED]
    for label, style in (("sampling s.d.", "s--"), ("noise s.d.", "o-")):
        cost.plot(kept["max_rows"], kept[label], style, ms=4, label=label)
    cost.plot(kept["max_rows"], kept["bias"].abs(), "^-", ms=4, label="|mean of kept rows - mean of all|")
    cost.plot(kept["max_rows"], 1 - kept["rows kept"], "k:", label="share of rows that is cut")
    cost.set(xlabel="max_rows", xticks=KEPT, ylabel="of the mean of spending", yscale="log")
    cost.set_title(f"{RELATED}, n = {kept['n'].max():,}", fontsize=9)
    cost.legend(frameon=False, fontsize=7)
    largest = found.last_slopes[found.last_slopes["n"] == found.last_slopes["n"].max()]
    for place, (design, part) in enumerate(largest.groupby("design", sort=False)):
        slope.plot(part["max_rows"], part["ols width / oracle"], "o-", ms=4, color=f"C{place}", label=f"ols, {design}")
        slope.plot(part["max_rows"], part["bootstrap width / oracle"], "s--", ms=4, color=f"C{place}", mfc="none")
    slope.plot([], [], "s--", color="grey", mfc="none", label="bootstrap")
    slope.axhline(1, color="black", lw=0.8)
    slope.set(
        xlabel="max_rows",
        xticks=KEPT,
        ylabel="mean width over the oracle's",
    )
    slope.set_title(f"slopes, mu = 2, n = {largest['n'].max():,}", fontsize=9)
    slope.legend(frameon=False, fontsize=7)
    return figure


def claims(found: Outcome) -> list[Claim]:
    """What the tables show."""
    last, slopes = found.last, found.last_slopes
    ols = last[last["quantity"] == "slope"]
    kept = found.kept[found.kept["design"] == RELATED].set_index("max_rows")
    moved = ", ".join(f"{kept.loc[most, 'bias, share of the mean']:+.1%}" for most in KEPT)
    related = last[(last["design"] == RELATED) & (last["quantity"] == "mean")]
    error, rarer = (float(np.sqrt(0.05 * 0.95 / part["replicates"].max())) for part in (last, slopes))
    asked = ", ".join(map(str, KEPT))
    stated = [
        least_coverage("least coverage of 95% intervals: people with several dependent rows", found.table, by=KEYS,
                       held="covers"),
        Claim("mean of kept rows against that of all, where people with high values have more rows",
              f"max_rows = {asked}; {kept.loc[KEPT[0], 'uncut mean']:.3f} in all", moved,
              related["covers"].all() and (kept["bias"] < 0).all()),
        Claim("mean width of ols over the oracle's: people, sampling variance times max_rows", f"{len(ols)} cells",
              f"{ols['width / oracle'].min():.2f}-{ols['width / oracle'].max():.2f}; coverage "
              f"at least {ols['coverage'].min():.4f}", ols["covers"].all(), error=f"{error:.4f}"),
        Claim("least coverage of the bootstrap's slope by person, and of ols at the same price",
              f"{len(slopes)} cells, {PRICE}", f"{slopes['bootstrap coverage'].min():.4f}, "
              f"{slopes['ols coverage'].min():.4f}; mean width over that of ols "
              f"{slopes['bootstrap width / ols'].min():.2f}-{slopes['bootstrap width / ols'].max():.2f}",
              slopes["held"].all(), error=f"{rarer:.4f}"),
        Claim("sums and intervals of the study of people are the library's",
              f"{found.agreed.sums:,} sums, {found.agreed.intervals:,} intervals",
              "equal" if found.agreed.equal else "different", found.agreed.equal and abs(found.agreed.chosen) < 4),
    ]  # fmt: skip
    return stated if last["n"].max() < MANY_PEOPLE else [*stated, *_of_many(last)]


def _of_many(last: pd.DataFrame) -> list[Claim]:
    """What shows where people are many enough that noise does not hide it."""
    clear, last = last[last["clear"]], last[last["n"] >= MANY_PEOPLE]
    many = clear[clear["n"] >= MANY_PEOPLE]
    worst = last[(last["design"] == ALIKE) & (last["max_rows"] == max(KEPT))].dropna(subset="coverage if independent")
    worst = worst[worst["quantity"] != "total of the data"]
    naive = worst["coverage if independent"]
    return [
        Claim("largest mean width over the oracle's where kappa is at least 3: means and proportions by person",
              f"{len(clear)} cells, n = 200 and 2,000", f"{clear['width / oracle'].max():.3f} "
              f"({(~clear['within cap']).sum()} cells above); with n = 2,000 {many['width / oracle'].max():.3f} "
              f"(at most {RULES.width_cap:g})", clear["within cap"].all()),
        Claim("coverage of the same releases if rows were taken as independent",
              f"rows of a person alike, max_rows = {max(KEPT)}, n = 2,000",
              f"{naive.min():.3f}-{naive.max():.3f}; by person {worst['coverage'].min():.3f}-"
              f"{worst['coverage'].max():.3f}", naive.min() < 0.9 and worst["covers"].all()),
    ]  # fmt: skip
