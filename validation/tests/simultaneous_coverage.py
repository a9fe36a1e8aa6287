"""Joint coverage of simultaneous intervals: cells, means of groups, residuals, coefficients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.privacy import NEIGHBORS
from dpinfer.procedures.cell_sums import describe
from dpinfer.statistics.inference import Released, joint_level
from dpinfer.statistics.moment_inference import MomentInference
from dpinfer.tables.chi_squared_inference import Independence, residual_table
from dpinfer.tables.loglinear_fit import fit_loglinear
from dpinfer.tables.loglinear_inference import LogLinearInference
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.tests.loglinear_designs import EVEN, THREE, Design

PRICES = (dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0))
SIZES = (500, 5000)
QUANTITIES = ("cells of a table", "means of groups", "residuals", "log-linear coefficients")
TABLE = Design("table", (3, 4), np.outer([0.5, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1]).ravel(), "a + b")
GROUPS = (0.35, 0.3, 0.2, 0.1, 0.05)
ALPHA = 0.05


def covers(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether all intervals (R, p, 2) hold their truths (p,), one by one (R, p)."""
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])


def of_moments(ask: Any, schema: Any, price: Any, neighbors: str, exact: np.ndarray, n: int, seed: Any) -> tuple:
    """Joint and single intervals (R, p, 2) of a description, from exact sums (R, m)."""
    measured_at = ask.measurement(price, schema=schema, neighbors=neighbors)
    rng = np.random.default_rng(seed)
    noise = measured_at.law.rvs(len(exact), rng) * np.asarray(measured_at.steps)
    context = Context(schema, neighbors, price, n if neighbors == "replace_one" else None, True)  # type: ignore[arg-type]
    released = Released(
        context, measured_at.rows, measured_at.names, measured_at.law, np.asarray(measured_at.steps), exact + noise
    )
    estimates, told = describe(ask.plan(schema), released, target="population")
    count = len(told.names)  # errors of different cells are taken as independent: every release has the same level
    level = joint_level(np.eye(count), ALPHA)
    inference = MomentInference(told.names, estimates, told.shift, told.factor)
    return tuple(inference.batch(alpha).intervals for alpha in (level, ALPHA))


def table_cells(n: int, price: Any, neighbors: str, replicates: int, seed: list[int]) -> tuple:
    """Counts of the cells of a table, of a population."""
    counts = np.random.default_rng(seed).multinomial(n, TABLE.shares, size=replicates).astype(float)
    ask = dpi.table(["a", "b"], target="population")
    found = of_moments(ask, TABLE.schema(neighbors), price, neighbors, counts, n, [*seed, 1])
    return *found, n * TABLE.shares


def group_means(n: int, price: Any, neighbors: str, replicates: int, seed: list[int]) -> tuple:
    """Means of five groups of different sizes, one of them rare: values are beta(2, 3)."""
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(n, GROUPS, size=replicates)
    filled = {"missing": 0.0, "impossible": 0.0} if neighbors == "replace_one" else {}
    group = {"missing": "g0", "impossible": "g0"} if filled else {}
    schema = dpi.Schema(x=dpi.Real(0, 1, **filled), g=dpi.Category([f"g{k}" for k in range(5)], **group))
    sums = np.empty((replicates, 5, 3))
    for row in range(replicates):
        u = 2 * rng.beta(2, 3, n) - 1
        place = np.repeat(np.arange(5), sizes[row])
        for k, part in enumerate((np.ones(n), u, u * u)):
            sums[row, :, k] = np.bincount(place, part, minlength=5)
    ask = dpi.mean("x", by="g")
    exact = sums.reshape(replicates, -1)
    features = exact.reshape(replicates, 5, 3).copy()
    features[..., 2] = 2 * features[..., 2] - features[..., 0]  # the square is measured from the middle of its bounds
    found = of_moments(ask, schema, price, neighbors, features.reshape(replicates, -1), n, [*seed, 1])
    return *found, np.full(5, 0.4)


def residuals(n: int, price: Any, neighbors: str, replicates: int, seed: list[int]) -> tuple:
    """Standardised residuals of a test of independence, in a population that departs from it."""
    departs = np.array([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 0, 0]]).ravel() * 0.02
    shares = TABLE.shares + departs
    counts = np.random.default_rng(seed).multinomial(n, shares, size=replicates)
    cells = TABLE.cells(n, price, neighbors, counts, [*seed, 1])
    model = Independence((3, 4), cells.noise.law, cells.nobs)  # type: ignore[arg-type]
    parts = [residual_table(model, one, alpha=ALPHA, simultaneous=True) for one in cells.values]
    joint = np.stack([np.stack([part.lower, part.upper], axis=-1) for part in parts])
    single = residual_table(model, cells.values, alpha=ALPHA)
    truth = residual_table(model, n * shares).standardised
    return joint, np.stack([single.lower, single.upper], axis=-1), truth


def coefficients(n: int, price: Any, neighbors: str, replicates: int, seed: list[int]) -> tuple:
    """Coefficients of a log-linear model but the constant."""
    design = Design("three", THREE, EVEN, "a * b + b * c")
    counts = np.random.default_rng(seed).multinomial(n, EVEN, size=replicates)
    model, values, names = design.model(design.cells(n, price, neighbors, counts, [*seed, 1]))
    truth = fit_loglinear(model, n * EVEN[None]).params[0]
    rows = np.eye(len(names))[1:]
    joint, single = np.empty((replicates, len(rows), 2)), np.empty((replicates, len(rows), 2))
    for place, one in enumerate(values):
        found = LogLinearInference(names, model, one)
        joint[place] = found.intervals(rows, joint_level(found.combinations(rows)[3], ALPHA))
        single[place] = found.intervals(rows, ALPHA)
    return joint, single, truth[1:]


STUDIES = dict(zip(QUANTITIES, (table_cells, group_means, residuals, coefficients), strict=True))


def draw(cell: tuple[str, int, Any, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Whether all joint intervals hold, whether all single ones do, their widths, and how many they are."""
    quantity, n, price, neighbors = cell
    joint, single, truth = STUDIES[quantity](
        n, price, neighbors, replicates, [int(one) for one in rng.integers(2**31, size=2)]
    )
    width = np.diff(joint, axis=-1)[..., 0], np.diff(single, axis=-1)[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isfinite(width[0]) & np.isfinite(width[1]) & (width[1] > 0), width[0] / width[1], np.nan)
    return {"joint": covers(joint, truth).all(axis=1), "single": covers(single, truth).all(axis=1), "ratio": ratio}


def summary(_: tuple, drawn: Drawn) -> dict:
    """Joint coverage, that of single intervals taken together, and how much wider joint ones are."""
    return {"intervals": drawn["ratio"].shape[1], "coverage": drawn["joint"].mean(),
            "single, together": drawn["single"].mean(), "width / single": np.nanmean(drawn["ratio"])}  # fmt: skip


STUDY = Study(
    "simultaneous_coverage",
    [(*one, NEIGHBORS[(place + place // 3) % 2]) for place, one in enumerate(product(QUANTITIES, SIZES, PRICES))],
    draw, summary,
    (Rule("least joint coverage of simultaneous 95% intervals", "coverage",
          design="cells of a table, means of groups, residuals, log-linear coefficients; two sizes, three budgets"),),
    axes=lambda cell: {"quantity": cell[0], "n": cell[1], "price": str(cell[2]), "neighbors": cell[3]},
    figure=scatter("quantity", {"coverage": 0.95, "single, together": 0.95}, "price"),
    notes=("`single, together` is the share of releases in which all single 95% intervals hold; `width / single` "
           "compares mean widths.",),
)  # fmt: skip
