"""Size and power of the tests of means: t tests of one sample, two samples and pairs, one-way analysis of variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.descriptions.mean_test_inference import GroupMeans, spread_pvalues
from dpinfer.descriptions.mean_tests import MeanComparison, f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.descriptions.results import UNEQUAL
from dpinfer.privacy import NEIGHBORS
from dpinfer.statistics.nulls import batch_pvalues
from validation.common.leaves import DRAWS, LEVELS, size_rules, sizes_of
from validation.common.outputs import Options, lines, scatter
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study

UNTOUCHED = "no noise (scipy)"

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


@dataclass(frozen=True)
class Cell:
    """A test of a law, at some prices and relations."""

    design: Design
    law: Law
    at: tuple[tuple[Any, str], ...]

    @property
    def popmean(self) -> float:
        """The mean that one sample is tested for."""
        return 0.0 if self.design.test == "ttest_rel" else self.law.truth

    @property
    def axes(self) -> dict[str, Any]:
        """Columns that name the design."""
        design = self.design
        return {"test": design.test + ("" if design.equal_var else ", Welch"), "alternative": design.alternative,
                "rows": " ".join(map(str, design.sizes)), "values": self.law.name,
                "sd ratio": design.ratio}  # fmt: skip


def cells() -> list[Cell]:
    """Every design and law, at prices and relations in turns."""
    return [
        Cell(design, law, tuple((price, NEIGHBORS[(index // 2 + turn) % 2]) for turn,
                                price in enumerate(PRICES[index % 3 :: 3])))
        for index, (law, design) in enumerate(product(LAWS, DESIGNS))
    ]  # fmt: skip


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of each price and of scipy's test on the same rows, shares of noise, and p-values of equal variances."""
    sums = exact_groups(cell.design, cell.law, replicates, rng)
    plain = ordinary(cell.design, cell.popmean, sums)
    found = {"plain": np.full(replicates, np.nan) if plain is None else plain}
    for price, neighbors in cell.at:
        model = null_model(cell.design, cell.popmean, price, neighbors)
        noisy = released(model, sums, rng)
        spread = model.estimates(sums.mean(axis=0).ravel())
        share = float((spread.noise / (spread.noise + spread.within.mean())).mean())
        doubted = model.groups > 1 and cell.design.equal_var
        unequal = spread_pvalues(model, noisy) if doubted else np.full(replicates, np.nan)
        pvalues = batch_pvalues(model, noisy, draws=DRAWS, rng=rng)
        found[f"{price}|{neighbors}"] = np.column_stack([pvalues, unequal, np.full(replicates, share)])
    return found


def summary(_: Cell, drawn: Drawn) -> list[dict]:
    """Sizes, beside those of the ordinary test, and the share of releases that are flagged."""
    rows, plain = [], drawn["plain"]
    for key, found in drawn.items():
        if key != "plain":
            price, neighbors = key.split("|")
            known = {f"ordinary at {level:g}": np.nan if np.isnan(plain).all() else float((plain <= level).mean())
                     for level in LEVELS}  # fmt: skip
            flagged = np.nan if np.isnan(found[:, 1]).all() else float((found[:, 1] < UNEQUAL).mean())
            rows.append({"price": price, "neighbors": neighbors, "noise share": found[0, 2], **sizes_of(found[:, 0]),
                         **known,
                         "flagged": flagged})  # fmt: skip
    return rows


def draw_flags(cell: tuple[tuple[int, ...], float], rng: np.random.Generator, replicates: int) -> Drawn:
    """The test with one variance where variances differ, beside the default, and whether it is flagged."""
    sizes, ratio = cell
    sums, found = exact_groups(Design("ttest_ind", sizes, ratio=ratio), Law("normal", 0.0, 0.3), replicates, rng), {}
    for price in PRICES:
        models = [null_model(Design("ttest_ind", sizes, equal_var=equal, ratio=ratio), 0.0, price, "add_remove")
                  for equal in (True, False)]  # fmt: skip
        noisy = released(models[0], sums, rng)
        pvalues = [batch_pvalues(one, noisy, draws=DRAWS, rng=rng) <= LEVELS[0] for one in models]
        found[str(price)] = np.column_stack([*pvalues, spread_pvalues(models[0], noisy) < UNEQUAL])
    return found


def flags(_: tuple, drawn: Drawn) -> list[dict]:
    """A row for each price."""
    names = ("equal_var=True", "equal_var=False", "flagged")
    return [{"price": price, **dict(zip(names, found.mean(axis=0), strict=True))} for price, found in drawn.items()]


def shifted(sums: np.ndarray, shift: float) -> np.ndarray:
    """Sums after every value of every second group, or of the only one, has moved."""
    moved = sums.copy()
    n, s, q = np.moveaxis(sums[:, -1:], -1, 0)
    moved[:, -1:] = np.stack([n, s + shift * n, q + 2 * shift * s + shift**2 * n], axis=-1)
    return moved


def draw_power(cell: tuple[Design, float], rng: np.random.Generator, replicates: int) -> Drawn:
    """Whether tests reject at .05 where the last group differs by an effect in standard deviations."""
    design, effect = cell
    law = Law("normal", 0.0, 0.2)
    spread = law.spread / np.sqrt(2) if design.test == "ttest_rel" else law.spread
    moved = shifted(exact_groups(design, law, replicates, rng), effect * spread)
    found = {UNTOUCHED: ordinary(design, 0.0, moved)}
    for price in POWER_PRICES:
        model = null_model(design, 0.0, price, "add_remove")
        found[str(price)] = batch_pvalues(model, released(model, moved, rng), draws=DRAWS, rng=rng)
    return {name: pvalues <= LEVELS[0] for name, pvalues in found.items() if pvalues is not None}


def power_claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """State what noise takes of the power against a middling effect."""
    at = table[np.isclose(table["effect"], EFFECTS[3])]
    lost = (at[UNTOUCHED] - at[str(POWER_PRICES[-1])]).max()
    error = np.sqrt(0.5 / table["replicates"].iloc[0])
    return [Claim(f"largest power lost to noise at {POWER_PRICES[-1]}",
                  f"four tests, difference of {EFFECTS[3]:g} sd, level .05", f"{lost:.3f}",
                  lost <= 0.1 + (3 * error if options.quick else 0),
                  error=f"{error:.3f}")]  # fmt: skip


STUDY = (
    Study(
        "mean_tests", cells, draw, summary,
        (
            *size_rules("largest size of the tests of means at {level:g}"),
            Rule("largest share of releases with equal variances that are flagged as unequal", "flagged", "share",
                 FALSE_FLAGS,
                 design="36 designs with equal_var=True"),
        ),
        axes=lambda cell: cell.axes, by=("price", "neighbors"),
        figure=scatter("noise share", {f"size at {level:g}": level for level in LEVELS}, "test", log=False),
        notes=(f"Every p-value is from {DRAWS} simulated releases; bounds are [-1, 1].",),
    ),
    Study("mean_tests_flags", [*product(FLAGGED, RATIOS)], draw_flags, flags, by=("price",), most=2000,
          axes=lambda cell: {"rows": " ".join(map(str, cell[0])), "variance ratio": cell[1] ** 2},
          notes=("Two groups, the smaller one of the larger variance. Sizes at .05.",)),
    Study("mean_tests_power", [*product(POWER, EFFECTS)], draw_power, most=2000, quick=28, also=power_claims,
          axes=lambda cell: {"test": cell[0].test, "effect": float(cell[1])},
          figure=lambda table: lines(table, "test", "effect",
                                     {UNTOUCHED: "k-", **{str(one): "o-" for one in POWER_PRICES}},
                                     ylabel="power at .05")),
)  # fmt: skip
