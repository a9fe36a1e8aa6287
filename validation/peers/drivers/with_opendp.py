"""OpenDP: its library of measurements; its queries of data frames where they are timed.

Both draw the same noise: one query takes most of a second, so errors are measured with the measurements that it is
made of. Sums are of columns that were centred between their bounds. Cross-products are by hand: rows scaled to [-1, 1],
their products summed by numpy, noise on the vector of sums from OpenDP for its L1 or L2 norm, the normal equations
solved, and the textbook's standard errors from the noisy sums.
"""

from functools import cache

import numpy as np
import opendp.prelude as dp
import polars as pl
from served import serve

CANDIDATES = 997
"""Of a median: evenly between the bounds; of integers, every one."""


dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")


def measure_of(job):
    return dp.max_divergence() if job["measure"] == "epsilon" else dp.zero_concentrated_divergence()


@cache
def noisy(kind, measure, amount, low, high, n, cells):
    """Calibrated by OpenDP's own search, once a job."""
    private = measure == "epsilon"
    then = dp.m.then_laplace if private else dp.m.then_gaussian
    change = 1
    if kind == "count":
        chain = (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()) >> dp.t.then_count()
    elif kind == "mean":
        sized = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
        chain, change = (sized, dp.symmetric_distance()) >> dp.t.then_clamp((low, high)) >> dp.t.then_mean(), 2
    else:
        domain = dp.vector_domain(dp.atom_domain(T=int))
        norm = dp.L1Distance[int] if private else dp.L2Distance[float]
        count = dp.t.then_count_by_categories(categories=list(range(cells)), null_category=False, MO=norm)
        chain = (domain, dp.symmetric_distance()) >> count
    return dp.binary_search_chain(lambda scale: chain >> then(scale), d_in=change, d_out=amount)


def drawn(kind, values, job, share=1.0, limits=(0.0, 0.0), cells=0):
    one = noisy(kind, job["measure"], job["amount"] * share, *limits, len(values), cells)
    return np.asarray(one(values.tolist()), dtype=float)


def summed(values, job, share, half):
    """A sum of values within half of zero, with the noise that a query of a data frame adds: of one row."""
    place = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    make = dp.m.make_laplace if job["measure"] == "epsilon" else dp.m.make_gaussian
    one = dp.binary_search_chain(lambda scale: make(*place, scale), d_in=half, d_out=job["amount"] * share)
    return one(float(np.clip(values, -half, half).sum()))


def centred(rows, job):
    low, high = job["bounds"][0]
    half = (high - low) / 2
    return rows[:, 0] - (low + high) / 2, (low + high) / 2, half


def mean(rows, job):
    apart, middle, half = centred(rows, job)
    if job["neighbors"] == "replace_one":
        return {"estimate": [middle + drawn("mean", apart, job, limits=(-half, half))]}
    total = summed(apart, job, 1 / 2, half)
    return {"estimate": [middle + total / max(drawn("count", apart, job, 1 / 2), 1.0)]}


def mean_by_hand(rows, job):
    apart, middle, half = centred(rows, job)
    count = max(drawn("count", apart, job, 1 / 3), 1.0)
    found = summed(apart, job, 1 / 3, half) / count
    variance = summed(apart**2 - half**2 / 2, job, 1 / 3, half**2 / 2) / count + half**2 / 2 - found**2
    wide = 1.96 * np.sqrt(variance / count) if variance > 0 else np.nan
    return {"estimate": [middle + found], "lower": [middle + found - wide], "upper": [middle + found + wide]}


def grid_of(job):
    low, high = job["bounds"][0]
    return (np.arange(low, high + 1.0) if job["integer"] else np.linspace(low, high, CANDIDATES)).tolist()


def median(rows, job):
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    one = dp.binary_search_chain(
        lambda scale: dp.m.make_private_quantile(
            domain, dp.symmetric_distance(), measure_of(job), candidates=grid_of(job), alpha=0.5, scale=scale
        ),
        d_in=1, d_out=job["amount"], T=float,
    )  # fmt: skip
    return {"estimate": [one(rows[:, 0].tolist())]}


def table(rows, job):
    codes = np.ravel_multi_index(tuple(rows.astype(int).T), job["levels"])
    cells = int(np.prod(job["levels"]))
    counts = drawn("cells", codes, job, cells=cells)
    if job["measure"] == "epsilon":
        accuracy = dp.discrete_laplacian_scale_to_accuracy(1 / job["amount"], 0.05)
    else:
        accuracy = dp.discrete_gaussian_scale_to_accuracy(float(np.sqrt(1 / (2 * job["amount"]))), 0.05)
    return {"counts": counts, "accuracy": accuracy}


def ols(rows, job):
    low, high = np.array(job["bounds"], dtype=float).T
    half = (high - low) / 2
    z = np.column_stack([np.ones(len(rows)), np.clip((rows - (low + high) / 2) / half, -1, 1)])
    above = np.triu_indices(z.shape[1])
    sums, largest = (z.T @ z)[above], float(len(above[0]))
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if job["measure"] == "epsilon":
        one = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=largest / job["amount"])
        cost = one.map(largest)
    else:
        scale = float(np.sqrt(largest / (2 * job["amount"])))
        one = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
        cost = one.map(float(np.sqrt(largest)))
    if cost > job["amount"] * (1 + 1e-9):
        raise ValueError(f"cost {cost}, not {job['amount']}")
    products = np.zeros((z.shape[1],) * 2)
    products[above] = one(sums.tolist())
    products += np.triu(products, 1).T
    xx, xy, yy = products[:-1, :-1], products[:-1, -1], products[-1, -1]
    slopes = np.linalg.solve(xx, xy)
    spread = (yy - slopes @ xy) / max(products[0, 0] - len(slopes), 1.0)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(spread * np.diag(np.linalg.inv(xx)))
    scales = half[-1] / half[:-1]
    told = slopes[1:] * scales
    return {
        "estimate": told,
        "lower": told - 1.96 * errors[1:] * scales,
        "upper": told + 1.96 * errors[1:] * scales,
    }


def theil_sen(rows, job):
    scale = dp.binary_search(
        lambda one: regression(job, one).measurement.map(1) <= job["amount"], bounds=(1e-3, 1e6), T=float
    )
    return {"estimate": regression(job, scale).fit(rows[:, :1], rows[:, 1]).coef_}


def regression(job, scale):
    return dp.sklearn.linear_model.LinearRegression(
        measure_of(job), x_bounds=[tuple(job["bounds"][0])], y_bounds=tuple(job["bounds"][1]), scale=scale
    )


def query(rows, job, names):
    frame = pl.DataFrame({name: rows[:, place] for place, name in enumerate(names)})
    if job["levels"]:
        frame = frame.cast(pl.Int64)
    loss = dp.loss_of(**{job["measure"]: job["amount"]})
    margins = [dp.polars.Margin(max_length=1_000_000)]
    return dp.Context.compositor(
        data=frame.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, split_evenly_over=1,
        margins=margins,
    ).query()  # fmt: skip


def mean_query(rows, job):
    apart, middle, half = centred(rows, job)
    asked = query(apart[:, None], job, ["x"])
    found = asked.select(pl.col("x").fill_nan(0.0).fill_null(0.0).dp.mean((-half, half))).release().collect()
    return {"estimate": [middle + found.item()]}


def median_query(rows, job):
    low = job["bounds"][0][0]
    found = query(rows, job, ["x"]).select(pl.col("x").fill_nan(low).fill_null(low).dp.median(candidates=grid_of(job)))
    return {"estimate": [found.release().collect().item()]}


def table_query(rows, job):
    names = [f"g{place}" for place in range(rows.shape[1])]
    cells = list(np.ndindex(*job["levels"]))
    keys = pl.LazyFrame(cells, schema=dict.fromkeys(names, pl.Int64), orient="row")
    found = query(rows, job, names).group_by(*names).agg(dp.len(signed=True)).with_keys(keys).release().collect()
    counts = {tuple(row[:-1]): row[-1] for row in found.rows()}
    return {"counts": [counts[cell] for cell in cells]}


METHODS = {
    "mean": mean, "mean_by_hand": mean_by_hand, "median": median, "table": table, "ols": ols,
    "theil_sen": theil_sen, "mean_query": mean_query, "median_query": median_query, "table_query": table_query,
}  # fmt: skip

if __name__ == "__main__":
    serve(METHODS, ("opendp", "polars", "numpy"))
