"""Write the constants of design of regressions by iterations into the page of their method."""

from __future__ import annotations

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression import clipping, inference, iterations, question
from dpinfer.regression.models import MODELS
from dpinfer.regression.question import Newton
from validation.common import pages

SCHEMA = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Boolean())
PRICES = {"Gaussian": dpi.ZCDP(1), "Laplace": dpi.PureDP(1)}

_STAGES = {
    "centres": "centres",
    "spreads": "spreads",
    "start": "start",
    "counts": "counts",
    "first": "first",
    "again": "again",
    "recounts": "recounts",
    "second": "last",
}
"""Stages by their names in the code, and on the page."""


def _number(value: float) -> str:
    return f"{value:g}".removeprefix("0") if 0 < value < 1 else f"{value:g}"


@pages.section("regression-method", "shares")
def shares() -> str:
    """Return the shares of the stages; models of equal shares have one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, model in MODELS.items():
        for noise, price in PRICES.items():
            plan = Newton(formula="y ~ x", model=name).plan(Context(SCHEMA, "add_remove", price))
            mine = [f"{float(plan.share(one)):.3f}".lstrip("0") if one in plan.kinds else "" for one in _STAGES]
            rows.setdefault((noise, *mine), []).append(model.title)
    ordered = sorted(rows.items(), key=lambda one: list(PRICES).index(one[0][0]))
    table = [(noise, ", ".join(models), *mine) for (noise, *mine), models in ordered]
    return pages.plain(["noise", "models", *_STAGES.values()], table)


@pages.section("regression-method", "costs")
def costs() -> str:
    """Return the numerators of the cost coefficients of the terms of each stage."""
    once = "Laplace, one Hessian"
    start, last = iterations._START, iterations._SECOND
    stages = [
        ("start", {"Gaussian": start["l2"], "Laplace": start["l1"], once: iterations._START_ONCE}),
        ("first, again", {"any": iterations._FIRST}),
        ("last", {"Gaussian": last["l2"], "Laplace": last["l1"], once: iterations._LAST_ONCE}),
    ]
    names = {"meat": "products of scores", "gram": "Gram matrix", "hessian": "Hessian"}
    table = [
        (stage, noise, ", ".join(f"{names.get(term, term)} {_number(one)}" for term, one in terms.items()))
        for stage, by_noise in stages
        for noise, terms in by_noise.items()
    ]
    taken = _number(iterations._OF_SLOPES)
    return pages.text(
        pages.plain(["stage", "noise", "a, b, e"], table),
        f"For binary responses {taken} of the last score's goes to the sum of w; with survey weights half of that "
        'of rows to the sum of weights; with `cov_type="nonrobust"` that of products to squared residuals.',
    )


@pages.section("regression-method", "constants")
def constants() -> str:
    """Return the constants that the page names in capitals, and the finenesses of counts."""
    kinds = {
        "linear": "least squares",
        "binary": "binary",
        "choice": "several levels",
        "log": "logarithmic links",
        "huber": "Huber",
        "quantile": "quantiles",
    }

    def by_model(values: dict[str, float]) -> str:
        return ", ".join(f"{kinds[kind]} {_number(one)}" for kind, one in values.items())

    def both(values: dict[str, float]) -> str:
        return f"Gaussian {_number(values['l2'])}, Laplace {_number(values['l1'])}"

    part, at = map(_number, iterations._LACKS)
    shortest, longest = map(_number, iterations._LENGTHS_TRIED[:2])
    table = [
        ("bins; octaves", "of a column", f"{both(iterations._CENTRES)}; {iterations._OCTAVES}"),
        (
            "R of the start",
            "over the root of k, Laplace over k",
            f"Gaussian {_number(iterations._START_LENGTH)}, Laplace {shortest} to {longest}",
        ),
        ("CLEAR", "standard deviations", both(clipping._CLEAR)),
        (
            "HEAVY",
            "1/index: mean of its prior, least, largest",
            ", ".join(map(_number, [clipping._HEAVY, *1 / clipping._INDICES[[0, -1]]])),
        ),
        ("STEP", "of the last iteration; binary 1 over the steepest slope", by_model(question._FAR_STEP)),
        ("REACH", "where a direction is hidden; else STEP", by_model(question._REACH)),
        ("", "of the others", by_model(iterations._LONGEST)),
        ("LOST", "in units of the noise", _number(clipping.LOST)),
        ("BEND", "binary: as weights change; others 0; quantiles: over the bandwidth", by_model(question._BEND)),
        ("BENT", "logarithm of what a Hessian changes by", _number(inference._MOST_BENT)),
        ("AHEAD", "cosine", _number(inference._AHEAD)),
        ("NARROW", "part of the rows", _number(iterations._MOSTLY)),
        ("LACKS(r)", "part of a Hessian, Laplace", f"{part} times {at}/r"),
        ("omega", "least squares, Gaussian: first, last", ", ".join(map(_number, iterations._WEIGHED))),
        ("LIKELY", "a lump beyond the edge: odds a priori", _number(clipping._LIKELY)),
        ("DOMINATED", "standard errors", _number(inference._DOMINATED)),
        ("NAMED", "lengths without privacy", _number(inference._NAMED)),
        ("LEAST", "degrees of freedom", _number(inference._LEAST_DF)),
    ]
    return pages.plain(["constant", "of what", "value"], table)
