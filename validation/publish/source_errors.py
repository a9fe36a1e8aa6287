"""Figures of the errors found in the sources, computed here or read from the committed outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from scipy import special, stats

from dpinfer.privacy.units import gaussian_mu, log_gaussian_delta
from validation.common.pages import output, plain, section

RHO = 0.01
"""Price of the Gaussian release whose weight is random."""


@section("sources", "errors")
def errors() -> str:
    """A row for each figure: the error it belongs to, what it is, what it is computed from."""
    rows = [*_resampling(), *_averages(), *_composition(), *_noise()]
    return plain(["no.", "what", "figure"], rows).replace("e-0", "e-")


def divergence(probabilities: Sequence[float], order: float) -> float:
    """Renyi divergence over order times rho, of a Gaussian release whose unit counts 0, 1, 2, ... times."""
    shift = np.sqrt(2 * RHO)
    counts = np.arange(len(probabilities))
    x = np.arange(-40.0, order * counts[-1] * shift + 40, 0.01)
    exponents = np.full(len(x), -np.inf)
    for count, probability in zip(counts, probabilities, strict=True):
        ratio = np.log(probability) + count * shift * x - (count * shift) ** 2 / 2
        exponents = np.logaddexp(exponents, ratio)
    whole = special.logsumexp(order * exponents + stats.norm.logpdf(x)) + np.log(0.01)
    return float(whole / (order - 1) / (order * RHO))


def _resampling() -> list[tuple[str, str, str]]:
    half = [f"{divergence((0.5, 0.5), order):.2f} at order {order:,}" for order in (2, 10_000)]
    cut = []
    for most, order in ((5, 10_000), (8, 5000)):
        below = stats.poisson.pmf(np.arange(most), 1)
        cut.append(f"{divergence((*below, 1 - below.sum()), order):.1f} at order {order:,}, cut at {most}")
    cost = output("bootstrap_cost")
    cost = cost[cost["mu"] == 1].set_index("replicates")
    spent = ", ".join(f"{cost.loc[size, 'exact epsilon']:.3f} for {size} draws" for size in (50, 200))
    source = output("bootstrap_source")
    source = source[(source["run"] == "all") & source["stated"].notna()]
    named = ", ".join(
        f"{row['interval']} {row['coverage']:.2%} (stated {row['stated']:.1%})" for _, row in source.iterrows()
    )
    small, many = ((1 - 1 / 50) / size for size in (5, 50))
    return [
        ("E2", f"divergence over alpha rho, one Gaussian release with p = 1/2, rho = {RHO:g}", "; ".join(half)),
        ("E2", f"the same of a unit that is drawn a Poisson number of times, rho = {RHO:g}", "; ".join(cut)),
        (
            "E2",
            "epsilon at delta 1e-6 of draws with secret weights that equal mu = 1 together",
            f"{spent}; {cost.loc[50, 'claimed epsilon']:.3f} for one release",
        ),
        ("E3", "variance of the average over that of the statistic, n = 50", f"{1 + small:.3f} with k = 5, "
         f"{1 + many:.3f} with k = 50"),
        ("E3", "coverage of the source's intervals at its setting, simulated", named),
    ]  # fmt: skip


def _averages() -> list[tuple[str, str, str]]:
    found = []
    for delta in (1e-6, 1e-9):
        limits = [(epsilon, epsilon**2 / (2 * gaussian_mu(epsilon, delta) ** 2)) for epsilon in (0.1, 0.5, 1.0)]
        told = ", ".join(f"{limit:.1f} (epsilon = {epsilon:g})" for epsilon, limit in limits)
        found.append(("E4", f"k up to which the average has less noise than the Gaussian, delta = {delta:g}", told))
    return found


def _composition() -> list[tuple[str, str, str]]:
    count, delta = 200, 1e-6
    found = []
    for epsilon in (1.0, 0.1):
        each = epsilon / np.sqrt(count * np.log(1 / delta))
        one = privacy_loss_distribution.from_laplace_mechanism(1 / each, value_discretization_interval=1e-4 * epsilon)
        together = one.self_compose(count)
        spent = together.get_delta_for_epsilon(epsilon)
        found.append(
            ("E5", f"delta of {count} Laplace releases that should be ({epsilon:g}, {delta:g})-DP together",
             f"{spent:.1e} at epsilon {epsilon:g}; epsilon {together.get_epsilon_for_delta(delta):.3f} at that delta")
        )  # fmt: skip
    return found


def _noise() -> list[tuple[str, str, str]]:
    fails = []
    for delta in (0.1, 1e-6):
        places = np.arange(1, 101)
        mu = places / (2 * np.sqrt(np.log(1 / delta)))
        exact = np.exp([log_gaussian_delta(float(one), float(at)) for one, at in zip(places, mu, strict=True)])
        fails.append(f"epsilon {places[np.argmax(exact > delta)]} at delta {delta:g}")
    power = output("chisquare_power")
    compared = [
        ("E12", f"power of projected and Pearson's statistic: {row['design']}, n = {row['n']:,}, rho = {row['rho']:g}",
         f"{row['projected']:.3f}, {row['pearson']:.3f}")
        for _, row in power[power["design"].str.contains(r"^goodness of fit, \(")].iterrows()
    ]  # fmt: skip
    return [
        ("E7", "probability of the lower of two outputs whose scores differ by 2 Delta/epsilon",
         f"{1 / (1 + np.e):.3f}; with exponential noise {np.exp(-1) / 2:.3f}"),
        ("E9", "probability that the maximum exceeds lambda (ln d + t), d = 10, t = 1",
         f"{1 - (1 - np.exp(-1) / 10) ** 10:.3f}; e^(-t) is {np.exp(-1):.3f}"),
        ("E10", "least whole epsilon at which the rule fails", "; ".join(fails)),
        *compared,
        ("E13", "standard deviation times n and epsilon, of the noise of the sum alone, and with that of the count at "
         "a mean age of 45", f"{np.sqrt(2) * 230:.1f}, {np.sqrt(2) * np.hypot(230, 2 * 45):.0f}"),
    ]  # fmt: skip
