"""The bootstrap of Brawner & Honaker (2018) as printed: what it costs, its three intervals, and ours on its releases.

Their claim, that B bootstrap releases at rho/B each are rho-zCDP, does not hold. The functions here that follow it
exist to show that; nothing else uses them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from scipy.special import logsumexp

from dpinfer.privacy.units import zcdp_epsilon
from dpinfer.resampling.inference import PROBABILITIES, floored_variances, mixture_isf
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim

N, RHO, SIZE, TOP = 500, 0.5, 50, 100.0
SENSITIVITY = TOP / N
DELTA, TINY, COPIES, ORDER = 1e-6, 1e-10, 5, 64.0
FEW, RUNS = 10, 1_000_000
"""Rows of the counterexample that is run, and runs."""

SIZES = (1, 10, 50, 200)
FIGURE_7 = (5, 10, 20, 50, 100, 150, 200)
SHOWN, SHORT = 1000, 500
"""Replicates of the source's figures 8 and 9, and of its figure 7."""

KEPT = "unbiased, noise kept"
KINDS = ("unbiased", "conservative", "most conservative")
STATED = {"unbiased": 0.801, "conservative": 0.971, "most conservative": 1.0}
Z = float(stats.norm.isf(0.025))
MIDDLE, SPREAD = 36.0, 17.58
_SHAPE = (MIDDLE / TOP) * (1 - MIDDLE / TOP) * TOP**2 / SPREAD**2 - 1
AGES = stats.beta(MIDDLE / TOP * _SHAPE, (1 - MIDDLE / TOP) * _SHAPE, scale=TOP)
"""Ages of the population: a beta distribution on 0 to 100 with mean 36 and standard deviation 17.58."""


# Not private at its stated cost: the three of sections 6.1 to 6.3.


def partition_release(
    values: np.ndarray, sensitivity: float, rho: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    """NOT PRIVATE AT ITS STATED COST. Section 6.3: B bootstrapped means (B,), said to be rho-zCDP together.

    Rows are put into parts by how often a multinomial draw has them; part i gives i times its sum over n, and noise
    of variance ``i p_i D^2 / (2 rho / B)``; the parts are added (equations 19 to 25).
    """
    n = len(values)
    drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
    released = np.zeros(size)
    for copies, chance in enumerate(chances(n)[1:], 1):
        part = (counts == copies) @ values / n
        spread = np.sqrt(copies * chance * sensitivity**2 / (2 * rho / size))
        released += copies * part + spread * rng.standard_normal(size)
    return released


def chances(n: int) -> np.ndarray:
    """Probability that a row is drawn 0, 1, 2, ... times out of n; the last entry holds the rest."""
    most = 12
    found = stats.binom.pmf(np.arange(most + 1), n, 1 / n)
    found[-1] = stats.binom.sf(most - 1, n, 1 / n)
    return np.asarray(found)


def capped(n: int) -> np.ndarray:
    """The same where no row counts more than five times (section 6.1)."""
    found = chances(n)
    return np.append(found[:COPIES], found[COPIES:].sum())


def variances() -> dict[str, tuple[np.ndarray, float]]:
    """Law of the copies, and variance of the noise of one release at rho over that of equation 9, ``D^2 / (2 rho)``.

    Only the first is private at its stated cost.
    """
    left_in = 1 - np.exp(-1)
    return {
        "copies capped at 5, sensitivity 5 D (6.1)": (capped(N), COPIES**2),
        "secrecy of the sample, eq. 18 as printed (6.2)": (capped(N), 2 * COPIES**2 * left_in**2),
        "secrecy of the sample, with the missing 1/2 (6.2)": (capped(N), COPIES**2 * left_in**2),
        "partition (6.3)": (chances(N), 1.0),
    }


# What they cost


def renyi(law: np.ndarray, shift: float, order: float) -> float:
    """Renyi divergence of ``sum_r p_r N(r shift, 1)`` from ``N(0, 1)``, by quadrature."""
    sizes = np.flatnonzero(law)
    x = np.arange(-12.0, order * shift * sizes[-1] + 12.0, 0.02)
    ratio = logsumexp(np.log(law[sizes]) + shift * sizes * x[:, None] - (shift * sizes) ** 2 / 2, axis=1)
    return float(logsumexp(order * ratio + stats.norm.logpdf(x)) + np.log(0.02)) / (order - 1)


def exact_epsilons(law: np.ndarray, noise: float, size: int) -> tuple[float, float]:
    """Exact epsilon at both deltas of B releases at rho/B each, for a unit present or absent; rounded up by little."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415  (slow to load)

    held = np.flatnonzero(law)
    single = pld.from_mixture_gaussian_mechanism(
        np.sqrt(noise * size / (2 * RHO)),
        held.astype(float).tolist(),
        (law[held] / law[held].sum()).tolist(),
        value_discretization_interval=min(0.05 / np.sqrt(size * noise), 0.01),
    )
    composed = single.self_compose(size)
    return tuple(float(composed.get_epsilon_for_delta(delta)) for delta in (DELTA, TINY))


def counterexample(rng: np.random.Generator) -> tuple[float, int]:
    """Lower bound on epsilon at delta = 1e-6 of one draw, from the algorithm run with and without one row.

    All of 10 values are 0, or one of them is 100; the event is a release above four and a half sensitivities, which is
    fixed beforehand. The bound is wrong with probability 1e-4. Also returned: the number of runs in each world.
    """
    sensitivity, step = TOP / FEW, 10_000
    hits = np.zeros(2)
    for _ in range(RUNS // step):
        for held in (0, 1):
            values = np.zeros(FEW)
            values[0] = held * TOP
            # Separate draws at rho each: one call at rho times their number.
            drawn = partition_release(values, sensitivity, RHO * step, step, rng)
            hits[held] += (drawn > 4.5 * sensitivity).sum()
    least = stats.beta.ppf(5e-5, hits[1], RUNS - hits[1] + 1)
    most = stats.beta.isf(5e-5, hits[0] + 1, RUNS - hits[0])
    return float(np.log((least - DELTA) / most)), RUNS


def cost_table() -> pd.DataFrame:
    """Claimed and exact cost of the constructions."""
    rows = []
    for name, (law, noise) in variances().items():
        for size in SIZES:
            shift = np.sqrt(2 * RHO / size / noise)
            exact, tiny = exact_epsilons(law, noise, size)
            rows.append(
                {
                    "construction": name,
                    "draws": size,
                    "noise variance": noise,
                    "claimed epsilon": zcdp_epsilon(RHO, DELTA),
                    "exact epsilon": exact,
                    "claimed, delta 1e-10": zcdp_epsilon(RHO, TINY),
                    "exact, delta 1e-10": tiny,
                    f"Renyi over claimed, order {ORDER:g}": size * renyi(law, shift, ORDER) / (ORDER * RHO),
                    "in the limit of orders": (len(law) - 1) ** 2 / noise,
                }
            )
    return pd.DataFrame(rows)


# Its intervals, and ours


def noise_of_one(size: int) -> float:
    """Variance of the noise of one of B releases."""
    return size * SENSITIVITY**2 / (2 * RHO)


def halves(observed: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Half widths of 95% intervals (R,) from variances between B releases: the source's three, and ours.

    The source's variance, its equation 35, is clipped at 0 as a whole, which is what its figures show; "unbiased, noise
    kept" clips the sampling part alone, as this library does where it offers the interval.
    """
    noise, df = noise_of_one(size), size - 1
    shares = {"unbiased": 1.0, "conservative": stats.chi2.ppf(0.05, df) / df, "most conservative": 0.0}
    found = {
        kind: Z * np.sqrt(np.maximum(observed - noise * share + noise / size, 0.0)) for kind, share in shares.items()
    }
    total = floored_variances(observed, df, np.full(len(observed), noise), PROBABILITIES)
    kept = Z * np.sqrt(np.maximum(observed - noise, 0.0) + noise / size)
    return {**found, "ours": mixture_isf(0.05, total * (1 + 1 / size) - noise), KEPT: kept}


def simulate(replicates: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances between releases (R,) of the source's algorithm, for samples of 500 ages."""
    found = np.empty((2, replicates))
    for place in range(replicates):
        released = partition_release(AGES.rvs(N, random_state=rng), SENSITIVITY, RHO, SIZE, rng)
        found[:, place] = released.mean(), released.var(ddof=1)
    return found[0], found[1]


def judge(mean: np.ndarray, half: dict[str, np.ndarray], run: str) -> list[dict]:
    """Coverage and width of every interval."""
    truth, conservative = float(AGES.mean()), float(half["conservative"].mean())
    rows = []
    for kind, width in half.items():
        coverage = float((np.abs(mean - truth) <= width).mean())
        rows.append(
            {
                "run": run,
                "interval": kind,
                "coverage": coverage,
                "standard error": float(np.sqrt(max(coverage * (1 - coverage), 1e-4) / len(mean))),
                "stated": STATED.get(kind, np.nan),
                "mean width": float(2 * width.mean()),
                "of the conservative one's": float(width.mean()) / conservative,
                "replicates": len(mean),
            }
        )
    return rows


def by_size(replicates: int, rng: np.random.Generator) -> pd.DataFrame:
    """Figure 7: standard errors and coverage of the three intervals against the number of releases."""
    most = max(FIGURE_7)
    bare = np.empty((replicates, most))
    for place in range(replicates):
        ages = AGES.rvs(N, random_state=rng)
        bare[place] = ages[rng.integers(0, N, (most, N))].mean(axis=1)
    rows = []
    for size in FIGURE_7:
        released = bare[:, :size] + np.sqrt(noise_of_one(size)) * rng.standard_normal((replicates, size))
        half = halves(released.var(axis=1, ddof=1), size)
        error = np.abs(released.mean(axis=1) - AGES.mean())
        for kind in (*KINDS, "ours"):
            width = half[kind]
            low, middle, high = np.quantile(width / Z, [0.05, 0.5, 0.95])
            rows.append({"interval": kind, "releases": size, "5%": low, "mean": float(width.mean()) / Z,
                         "median": middle, "95%": high, "coverage": float((error <= width).mean())})  # fmt: skip
    return pd.DataFrame(rows)


# The figure

COLORS = {"unbiased": "firebrick", "conservative": "royalblue", "most conservative": "seagreen", "ours": "darkorange"}


def figure_of(mean: np.ndarray, half: dict[str, np.ndarray], sizes: pd.DataFrame, rng: np.random.Generator) -> Figure:
    """The source's figures 6 to 9, and the same of our interval."""
    figure, panels = new_figure(14, 9.6, 3, 4)
    _one_sample(panels[0, 0], rng)
    _sizes(panels[0, 1], panels[0, 2], sizes)
    _one_shot(panels[0, 3], mean, rng)
    true = np.sqrt(AGES.var() / N + SENSITIVITY**2 / (2 * RHO))
    grid = np.linspace(-4.5, 4.5, 200)
    for place, kind in enumerate((*KINDS, "ours")):
        width = half[kind]
        upper, lower = panels[1, place], panels[2, place]
        name, top = ("ours", "half width / 1.96") if kind == "ours" else (kind, "standard error")
        upper.hist(width / Z, bins=np.linspace(0, 2, 41), density=True, color=COLORS[kind], alpha=0.7)
        upper.axvline(true, color="black", ls="--", lw=1)
        upper.set(title=f"9a, {name}" if kind != "ours" else "ours, as 9a", xlabel=top, xlim=(0, 2))
        scores = (mean - AGES.mean()) * Z / np.maximum(width, 1e-12)
        lower.hist(np.clip(scores, -4.5, 4.5), bins=np.linspace(-4.5, 4.5, 46), density=True, color=COLORS[kind],
                   alpha=0.7)  # fmt: skip
        lower.plot(grid, stats.norm.pdf(grid), color="black", lw=1)
        covered = float((np.abs(scores) <= Z).mean())
        lower.set(title=f"{'9b, ' if kind != 'ours' else ''}{name}: {covered:.1%} covered", xlabel="z of the true mean",
                  xlim=(-4.6, 4.6))  # fmt: skip
    return figure


def _one_sample(axes: Axes, rng: np.random.Generator) -> None:
    ages = AGES.rvs(N, random_state=rng)
    released = partition_release(ages, SENSITIVITY, RHO, SIZE, rng)
    half = halves(np.array([released.var(ddof=1)]), SIZE)
    axes.hist(released, bins=14, color="lightgrey", edgecolor="grey")
    axes.axvline(AGES.mean(), color="firebrick", ls="--", lw=1, label="population")
    axes.axvline(ages.mean(), color="firebrick", lw=1, label="sample")
    axes.axvline(released.mean(), color="royalblue", lw=1.5, label="mean of releases")
    for kind, height in (("unbiased", 0.5), ("ours", 1.0)):
        ends = released.mean() + half[kind][0] * np.array([-1, 1])
        axes.plot(ends, [height] * 2, "|-", color=COLORS[kind], lw=2, label=f"95%, {kind}")
    axes.set(title=f"6: {SIZE} releases of one sample", xlabel="mean age")
    axes.legend(fontsize=6.5, frameon=False)


def _sizes(left: Axes, right: Axes, table: pd.DataFrame) -> None:
    for kind, part in table.groupby("interval", sort=False):
        color = COLORS[str(kind)]
        left.plot(part["releases"], part["mean"], "o-", ms=3, color=color, label=kind)
        left.plot(part["releases"], part["5%"], ":", color=color)
        left.plot(part["releases"], part["95%"], ":", color=color)
        right.plot(part["releases"], part["coverage"], "o-", ms=3, color=color, label=kind)
    left.axhline(np.sqrt(AGES.var() / N + SENSITIVITY**2 / (2 * RHO)), color="black", lw=0.8)
    right.axhline(0.95, color="black", lw=0.8)
    left.set(title="7a: standard errors, mean and 90% range", xlabel="releases", ylim=(0, None))
    right.set(title="7b: coverage of 95% intervals", xlabel="releases")
    left.legend(fontsize=6.5, frameon=False)


def _one_shot(axes: Axes, mean: np.ndarray, rng: np.random.Generator) -> None:
    spread = np.sqrt(SENSITIVITY**2 / (2 * RHO))
    once = AGES.rvs((len(mean), N), random_state=rng).mean(axis=1) + spread * rng.standard_normal(len(mean))
    bins = np.linspace(AGES.mean() - 3.2, AGES.mean() + 3.2, 33)
    axes.hist(once, bins=bins, density=True, histtype="step", color="black", label="one release")
    axes.hist(mean, bins=bins, density=True, color="royalblue", alpha=0.5, label=f"mean of {SIZE} releases")
    axes.set(title="8: one release, and the mean of many", xlabel="mean age")
    axes.legend(fontsize=6.5, frameon=False)


def run(arguments: Options) -> list[Claim]:
    """Cost the three constructions, simulate the intervals, draw the figures."""
    rng = np.random.default_rng(arguments.seed)
    costs = cost_table()
    found, runs = counterexample(rng)
    notes = [
        f"Noise variance over that of one release, {SENSITIVITY:g}^2 / (2 rho), rho = {RHO}, times the draws; delta = "
        f"{DELTA:g} where none is said. A construction is rho-zCDP only if the last two columns are at most 1; the law "
        "of the copies is cut at 12, and without the cut the last one would be 500^2 for the partition.",
        f"The partition run {runs:,} times with and without one row of 100 among {FEW} of 0: epsilon of one draw is at "
        f"least {found:.2f} (wrong with probability 1e-4).",
    ]
    write_table(costs, "bootstrap_source_cost", arguments, notes)
    mean, observed = simulate(arguments.replicates, rng)
    half = halves(observed, SIZE)
    first = slice(0, SHOWN)
    rows = judge(mean, half, "all")
    if arguments.replicates > SHOWN:
        rows = judge(mean[first], {kind: width[first] for kind, width in half.items()}, f"first {SHOWN:,}") + rows
    table = pd.DataFrame(rows)
    notes = [f"n = {N}, rho = {RHO}, B = {SIZE}, ages a beta distribution on 0 to 100, mean {AGES.mean():g}, standard "
             f"deviation {AGES.std():.2f}. 95% intervals; stated: Brawner & Honaker (2018), section 8."]  # fmt: skip
    write_table(table, "bootstrap_source", arguments, notes)
    sizes = by_size(min(arguments.replicates, SHORT), rng)
    write_table(sizes, "bootstrap_source_sizes", arguments, ["Standard errors are half widths over 1.96."])
    shown = figure_of(mean[first], {kind: width[first] for kind, width in half.items()}, sizes, rng)
    write_figure(shown, "bootstrap_source", arguments)
    return claims(costs, table[table["run"] == "all"].set_index("interval"), found)


def claims(costs: pd.DataFrame, table: pd.DataFrame, found: float) -> list[Claim]:
    """What the tables show."""
    partition = costs[costs["construction"].str.startswith("partition")].set_index("draws")
    limit = costs.groupby("construction", sort=False)["in the limit of orders"].max()
    order = partition[f"Renyi over claimed, order {ORDER:g}"].min()
    over = [limit[name] for name in limit.index if "secrecy" in name]
    one, design = partition.loc[1], f"rho = {RHO}, n = {N}"
    listed = []
    for kind in KINDS:
        row = table.loc[kind]
        near = abs(row["coverage"] - row["stated"]) <= 0.01 + 4 * row["standard error"]
        listed.append(Claim(f"coverage of the source's {kind} 95% interval", f"{design}, B = {SIZE}",
                            f"{row['coverage']:.4f}", near,
                            published=f"{row['stated']:.3f} (Brawner & Honaker, 1,000 replicates)",
                            error=f"{row['standard error']:.4f}"))  # fmt: skip
    ours = table.loc["ours"]
    floor = 0.94 if ours["replicates"] >= SHOWN else 0.94 - 4 * ours["standard error"]
    return [
        Claim("epsilon of one draw by the source's partition", f"{design}, delta = {DELTA:g}",
              f"{one['exact epsilon']:.2f}", one["exact epsilon"] > one["claimed epsilon"],
              published=f"{one['claimed epsilon']:.2f} (claimed)"),
        Claim("the same, lower bound from running it", f"rho = {RHO}, {FEW} rows, delta = {DELTA:g}", f"{found:.2f}",
              found > one["claimed epsilon"], published=f"{one['claimed epsilon']:.2f} (claimed)"),
        Claim(f"Renyi divergence of the partition over its claim at order {ORDER:g}, least over B",
              f"{design}, B = 1 to 200", f"{order:.2f}", order > 1, published="at most 1 (claimed)"),
        Claim("the same of secrecy of the sample, large orders: as printed, and as argued", f"{design}, any B",
              " and ".join(f"{value:.2f}" for value in over), min(over) > 1, published="at most 1 (claimed)"),
        *listed,
        Claim("coverage of our 95% interval on the source's releases", f"{design}, B = {SIZE}",
              f"{ours['coverage']:.4f}", ours["coverage"] >= floor, error=f"{ours['standard error']:.4f}"),
        Claim("mean width of our interval over the conservative one's", f"{design}, B = {SIZE}",
              f"{ours['of the conservative one' + chr(39) + 's']:.3f}", ours["of the conservative one's"] <= 0.92,
              published="1"),
    ]  # fmt: skip
