"""Size and power of the tests of means: t tests of one sample, two samples and pairs, one-way analysis of variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.descriptions.mean_test_inference import GroupMeans, spread_pvalues
from dpinfer.descriptions.mean_tests import MeanComparison, f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.descriptions.results import UNEQUAL
from dpinfer.statistics.nulls import batch_pvalues
from validation.common.cells import kept_all
from validation.common.claims import Claim, largest_size
from validation.common.outputs import Options, write_figure, write_table

DRAWS = 199
LEVELS = (0.05, 0.01)
ALARM = 1e-4
"""Probability that the size rule fails anywhere although every size is nominal."""

PRICES = (dpi.ZCDP(0.0005), dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(0.1), dpi.PureDP(1.0))
POWER_PRICES = (dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5))
FLAGGED, RATIOS = ((200, 50), (1000, 300), (5000, 2000)), (2.0, 3.0)
FALSE_FLAGS = 0.01
"""Share of clean releases that may be flagged."""

EFFECTS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6])
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Law:
    """Values of a column with bounds [-1, 1]: mean and standard deviation before they are clamped."""

    name: str
    mean: float
    spread: float
    skewed: bool = False

    def values(self, normal: np.ndarray) -> np.ndarray:
        """Turn standard normal draws into clamped values."""
        if not self.skewed:
            return np.clip(self.mean + self.spread * normal, -1, 1)
        center, width = np.exp(0.125), np.sqrt(np.exp(0.25) * np.expm1(0.25))
        return np.clip(self.mean + self.spread * (np.exp(0.5 * normal) - center) / width, -1, 1)

    @property
    def truth(self) -> float:
        """Mean of the clamped values."""
        grid = (np.arange(400_000) + 0.5) / 400_000
        return float(self.values(stats.norm.ppf(grid)).mean())


LAWS = (
    Law("normal", 0.0, 0.3),
    Law("normal, bounds 50 sd wide", -0.5, 0.04),
    Law("lognormal", -0.6, 0.2, skewed=True),
)


@dataclass(frozen=True)
class Design:
    """One test on groups of given sizes; ``ratio`` is the spread of the smallest group over that of the others."""

    test: str
    sizes: tuple[int, ...]
    alternative: str = "two-sided"
    equal_var: bool = True
    ratio: float = 1.0


CELL = ["test", "alternative", "rows", "values", "sd ratio", "price", "neighbors"]
"""Columns that name a cell."""

DESIGNS = (
    *(Design("ttest_1samp", (n,)) for n in (20, 500, 10_000)),
    Design("ttest_1samp", (2000,), "greater"),
    Design("ttest_1samp", (2000,), "less"),
    *(Design("ttest_rel", (n,)) for n in (50, 2000)),
    *(Design("ttest_ind", sizes) for sizes in ((20, 20), (200, 50), (5000, 2000))),
    *(Design("ttest_ind", sizes, equal_var=False, ratio=2.0) for sizes in ((20, 200), (1000, 300))),
    *(Design("f_oneway", sizes) for sizes in ((20, 30, 40), (1000, 200, 300), (50,) * 8)),
    Design("f_oneway", (400, 100, 100), equal_var=False, ratio=2.0),
    *(Design("ttest_ind", sizes, equal_var=False, ratio=3.0) for sizes in ((50, 50), (200, 50), (5000, 500))),
    *(Design("ttest_ind", sizes, equal_var=False) for sizes in ((20, 20), (5000, 400))),
    *(Design("f_oneway", sizes, equal_var=False, ratio=3.0) for sizes in ((1000, 200, 300), (50,) * 8)),
    Design("f_oneway", (20, 30, 40), equal_var=False),
)
POWER = (
    Design("ttest_1samp", (500,)),
    Design("ttest_rel", (500,)),
    Design("ttest_ind", (500, 500)),
    Design("f_oneway", (400, 400, 400)),
)


def procedure(design: Design, popmean: float) -> MeanComparison:
    """The procedure that a user would write."""
    if design.test == "ttest_1samp":
        return ttest_1samp("x", popmean=popmean, alternative=design.alternative)
    if design.test == "ttest_rel":
        return ttest_rel("x", "y", alternative=design.alternative)
    ask = ttest_ind if design.test == "ttest_ind" else f_oneway
    return ask("x", "g", equal_var=design.equal_var)


@lru_cache
def null_model(design: Design, popmean: float, price: Any, neighbors: str) -> GroupMeans:
    """The null model with the noise that the price brings."""
    filled = {"missing": 0.0, "impossible": 0.0} if neighbors == "replace_one" else {}
    levels = [f"g{place}" for place in range(max(len(design.sizes), 2))]
    group = {"missing": "g0", "impossible": "g0"} if filled else {}
    schema = dpi.Schema(x=dpi.Real(-1, 1, **filled), y=dpi.Real(-1, 1, **filled), g=dpi.Category(levels, **group))
    ask = procedure(design, popmean)
    measured = ask.measurement(price, schema=schema, neighbors=neighbors)
    empty = np.zeros((1, len(measured.names)))
    return ask.model(ask.plan(schema), empty, law=measured.law, steps=np.asarray(measured.steps))[0]


def exact_sums(law: Law, size: int, replicates: int, rng: np.random.Generator, *, pairs: bool = False) -> np.ndarray:
    """Sums of 1, u and u^2 of clamped values, (R, 3); of pairs u is half the difference."""
    found = np.empty((replicates, 3))
    rows = max(_CHUNK // size, 1)
    for start in range(0, replicates, rows):
        shape = (min(rows, replicates - start), size)
        u = law.values(rng.standard_normal(shape))
        if pairs:
            u = (u - law.values(rng.standard_normal(shape))) / 2
        found[start : start + rows] = np.stack([np.full(shape[0], size), u.sum(axis=1), (u * u).sum(axis=1)], axis=1)
    return found


def exact_groups(design: Design, law: Law, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of all groups (R, G, 3) under the hypothesis."""
    widest = int(np.argmin(design.sizes))
    laws = [
        law if place == widest else Law(law.name, law.mean, law.spread / design.ratio, law.skewed)
        for place in range(len(design.sizes))
    ]
    pairs = design.test == "ttest_rel"
    parts = [exact_sums(one, n, replicates, rng, pairs=pairs) for one, n in zip(laws, design.sizes, strict=True)]
    return np.stack(parts, axis=1)


def ordinary(design: Design, popmean: float, sums: np.ndarray) -> np.ndarray | None:
    """P-values of scipy's test on the same rows (R,), from their exact sums; None for Welch's analysis of variance."""
    groups = len(design.sizes)
    plain = GroupMeans(
        np.eye(3), np.zeros(3), 0, groups, popmean if groups == 1 else None, design.equal_var, design.alternative
    )
    values = sums.reshape(len(sums), -1)
    rows = float(sum(design.sizes))
    if design.test == "f_oneway":
        if not design.equal_var:
            return None
        return np.asarray(stats.f.sf(plain.statistic(values) / (groups - 1), groups - 1, rows - groups))
    degrees = np.full(len(sums), rows - groups)
    if not design.equal_var:
        parts = plain.estimates(values).within / np.square(design.sizes)
        degrees = parts.sum(axis=1) ** 2 / (parts**2 / (np.array(design.sizes) - 1)).sum(axis=1)
    signed = plain.signed(values)
    if design.alternative == "two-sided":
        return np.asarray(2 * stats.t.sf(np.abs(signed), degrees))
    return np.asarray(stats.t.sf(signed if design.alternative == "greater" else -signed, degrees))


def released(model: GroupMeans, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noisy releases (R, 3 G) of exact sums (R, G, 3)."""
    return np.asarray((sums + model.noise(sums.shape[:2], rng)).reshape(len(sums), -1))


def pvalues(model: GroupMeans, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P-values of noisy releases of exact sums (R, G, 3)."""
    return batch_pvalues(model, released(model, sums, rng), draws=DRAWS, rng=rng)


def sizes_of(arguments: Options) -> pd.DataFrame:
    """Rejection rates under the hypothesis, a row per design, law, price and relation."""
    rng = np.random.default_rng(arguments.seed)
    rows = []
    tasks = [(design, law) for law in LAWS for design in DESIGNS]
    for index, (design, law) in enumerate(tqdm(tasks, desc="size")):
        popmean = 0.0 if design.test == "ttest_rel" else law.truth
        sums = exact_groups(design, law, arguments.replicates, rng)
        plain = ordinary(design, popmean, sums)
        for turn, price in enumerate(PRICES[index % 3 :: 3]):
            neighbors = ("add_remove", "replace_one")[(index // 2 + turn) % 2]
            model = null_model(design, popmean, price, neighbors)
            noisy = released(model, sums, rng)
            found = batch_pvalues(model, noisy, draws=DRAWS, rng=rng)
            spread = model.estimates(sums.mean(axis=0).ravel())
            share = float((spread.noise / (spread.noise + spread.within.mean())).mean())
            row = {
                "test": design.test + ("" if design.equal_var else ", Welch"),
                "alternative": design.alternative,
                "rows": " ".join(map(str, design.sizes)),
                "values": law.name,
                "sd ratio": design.ratio,
                "price": str(price),
                "neighbors": neighbors,
                "noise share": share,
            }
            row |= {f"size at {level:g}": float((found <= level).mean()) for level in LEVELS}
            row |= {f"ordinary at {level:g}": np.nan if plain is None else (plain <= level).mean() for level in LEVELS}
            doubted = model.groups > 1 and design.equal_var
            row["flagged"] = float((spread_pvalues(model, noisy) < UNEQUAL).mean()) if doubted else np.nan
            rows.append(row)
    return pd.DataFrame(rows)


def flags_of(arguments: Options) -> pd.DataFrame:
    """Size of the test with one variance where variances differ, beside the default, and how often it is flagged."""
    rng = np.random.default_rng(arguments.seed + 2)
    replicates, law = max(arguments.replicates // 5, 100), Law("normal", 0.0, 0.3)
    rows = []
    for sizes, ratio in tqdm([(sizes, ratio) for sizes in FLAGGED for ratio in RATIOS], desc="flags"):
        design = Design("ttest_ind", sizes, ratio=ratio)
        sums = exact_groups(design, law, replicates, rng)
        for price in PRICES:
            pooled = null_model(design, 0.0, price, "add_remove")
            welch = null_model(Design("ttest_ind", sizes, equal_var=False, ratio=ratio), 0.0, price, "add_remove")
            noisy = released(pooled, sums, rng)
            sizes_at = {
                name: float((batch_pvalues(one, noisy, draws=DRAWS, rng=rng) <= LEVELS[0]).mean())
                for name, one in (("equal_var=True", pooled), ("equal_var=False", welch))
            }
            flagged = float((spread_pvalues(pooled, noisy) < UNEQUAL).mean())
            rows.append(
                {"rows": " ".join(map(str, sizes)), "variance ratio": ratio**2, "price": str(price)}
                | sizes_at
                | {"flagged": flagged}
            )
    return pd.DataFrame(rows)


def shifted(sums: np.ndarray, shift: float) -> np.ndarray:
    """Sums after every value of every second group, or of the only one, has moved."""
    moved = sums.copy()
    n, s, q = np.moveaxis(sums[:, -1:], -1, 0)
    moved[:, -1:] = np.stack([n, s + shift * n, q + 2 * shift * s + shift**2 * n], axis=-1)
    return moved


def power_of(arguments: Options) -> pd.DataFrame:
    """Rejection rates at the level .05 against the difference of the last group, in standard deviations."""
    rng = np.random.default_rng(arguments.seed + 1)
    replicates, law = max(arguments.replicates // 5, 100), Law("normal", 0.0, 0.2)
    rows = []
    for design in tqdm(POWER, desc="power"):
        sums = exact_groups(design, law, replicates, rng)
        spread = law.spread / np.sqrt(2) if design.test == "ttest_rel" else law.spread
        for effect in EFFECTS:
            moved = shifted(sums, effect * spread)
            plain = ordinary(design, 0.0, moved)
            if plain is not None:
                row = {"test": design.test, "price": "no noise (scipy)", "effect": effect}
                rows.append({**row, "power": float((plain <= LEVELS[0]).mean())})
            for price in POWER_PRICES:
                found = pvalues(null_model(design, 0.0, price, "add_remove"), moved, rng)
                row = {"test": design.test, "price": str(price), "effect": effect}
                rows.append({**row, "power": float((found <= LEVELS[0]).mean())})
    return pd.DataFrame(rows)


def limits(cells: int, replicates: int) -> dict[float, float]:
    """Largest rejection rate that a nominal size explains, at each level."""
    error = ALARM / (cells * len(LEVELS))
    return {level: float(stats.binom.isf(error, replicates, level)) / replicates for level in LEVELS}


def _draw_sizes(axes: Axes, table: pd.DataFrame, most: dict[float, float]) -> None:
    for level, color in zip(LEVELS, ("#03396c", "#f18f01"), strict=True):
        relative = table[f"size at {level:g}"] / level
        axes.plot(table["noise share"], relative, "o", ms=3.5, alpha=0.6, color=color, label=f"level {level:g}")
        axes.axhline(most[level] / level, color=color, lw=0.8, ls="--", label=f"largest allowed at {level:g}")
    axes.axhline(1.0, color="black", lw=0.8)
    axes.set(xlabel="noise share of the variance of a group's sum", ylabel="size / level", ylim=(0, None))
    axes.set_title(f"Size, {len(table)} designs", fontsize=10)
    axes.legend(fontsize=7, frameon=False)


def figure_of(table: pd.DataFrame, power: pd.DataFrame, most: dict[float, float]) -> Figure:
    """Sizes on the left, power curves on the right."""
    figure = Figure(figsize=(12.5, 5.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    _draw_sizes(left.subplots(), table, most)
    for axes, design in zip(right.subplots(2, 2, sharex=True, sharey=True).ravel(), POWER, strict=True):
        own = power[power["test"] == design.test]
        for (price, curve), color in zip(
            own.groupby("price", sort=False), ("black", "#b3cde0", "#6497b1", "#03396c"), strict=True
        ):
            axes.plot(curve["effect"], curve["power"], "o-", ms=3, lw=1.2, color=color, label=str(price))
        axes.axhline(LEVELS[0], color="grey", lw=0.6, ls=":")
        axes.set_title(f"Power of {design.test}, n = {' + '.join(map(str, design.sizes))}", fontsize=9)
        if axes.get_subplotspec().is_last_row():
            axes.set_xlabel("difference / sd")
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("power at .05")
    handles, labels = axes.get_legend_handles_labels()
    right.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure sizes and powers, write the tables and the figure, and judge the sizes."""
    parts = {one.__name__: partial(one, arguments) for one in (sizes_of, power_of, flags_of)}
    table, power, flags = kept_all("mean_tests", parts, arguments)
    most = limits(len(table), arguments.replicates)
    rule = ", ".join(f"{value:.4f} at level {level:g}" for level, value in most.items())
    wide = power.pivot_table(index=["test", "effect"], columns="price", values="power", sort=False).reset_index()
    write_table(table, "mean_tests", arguments, [
        f"Rule: size at most {rule}; exceeded once in {1 / ALARM:,.0f} runs where every size is nominal.",
        f"Every p-value is from {DRAWS} simulated releases; bounds are [-1, 1].",
    ])  # fmt: skip
    write_table(flags, "mean_tests_flags", arguments, [
        "Two groups, the smaller one of the larger variance; "
        f"{max(arguments.replicates // 5, 100):,} replicates a row. Sizes at .05.",
    ])  # fmt: skip
    write_table(wide, "mean_tests_power", arguments, [f"{max(arguments.replicates // 5, 100):,} replicates a point."])
    write_figure(figure_of(table, power, most), "mean_tests", arguments)
    claims = [
        largest_size(
            f"largest size of the tests of means at {level:g}",
            table.assign(replicates=arguments.replicates, held=table[f"size at {level:g}"] <= most[level]),
            f"size at {level:g}",
            by=CELL,
            level=level,
            held="held",
        )
        for level in LEVELS
    ]
    doubted = table.dropna(subset="flagged")
    most_flags = float(stats.binom.isf(ALARM / len(doubted), arguments.replicates, FALSE_FLAGS)) / arguments.replicates
    claims.append(
        Claim(
            f"largest share of releases with equal variances that are flagged as unequal (rule {most_flags:.4f})",
            f"{len(doubted)} designs with equal_var=True",
            f"{doubted['flagged'].max():.4f}",
            doubted["flagged"].max() <= most_flags,
            error=f"{np.sqrt(FALSE_FLAGS * (1 - FALSE_FLAGS) / arguments.replicates):.4f}",
        )
    )
    strong = power[(power["price"] == str(POWER_PRICES[-1])) & (power["effect"] == EFFECTS[3])]
    plain = power[(power["price"] == "no noise (scipy)") & (power["effect"] == EFFECTS[3])]
    lost = plain["power"].to_numpy() - strong["power"].to_numpy()
    claims.append(
        Claim(
            f"largest power lost to noise at {POWER_PRICES[-1]}",
            f"four tests, difference of {EFFECTS[3]:g} sd, level .05",
            f"{lost.max():.3f}",
            lost.max() <= 0.1,
            error=f"{np.sqrt(0.5 / max(arguments.replicates // 5, 100)):.3f}",
        )
    )
    return claims
