"""Write shares and prices of regressions by rounds into their page, as the models have them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.numerics.responses import BINARY
from dpinfer.procedures.newton_counts import CountCut, CountModel
from dpinfer.procedures.newton_models import BinaryModel, Cut, EqualSpreadModel, LinearModel
from dpinfer.procedures.newton_people import people_prices
from dpinfer.procedures.newton_robust import HuberModel, QuantileModel
from validation.common.pages import Block
from validation.publish.trusted import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.rows.rounds import Term
    from dpinfer.numerics.arrays import Array
    from dpinfer.numerics.responses import Response
    from dpinfer.procedures.newton_models import RoundModel

PAGE = ROOT / "docs" / "glm.md"
START, END = "<!-- rounds: made by python -m validation.publish.rounds -->", "<!-- end of rounds -->"

_WIDTH = 5
"""Number of regressors, on which prices under Laplace noise depend."""

MODELS: dict[str, RoundModel] = {
    "least squares": LinearModel(),
    'least squares, `cov_type="nonrobust"`': EqualSpreadModel(),
    "logit": BinaryModel("logit"),
    "probit": BinaryModel("probit"),
    "complementary log-log": BinaryModel("cloglog"),
    f"logit, `PureDP`, {_WIDTH} regressors": BinaryModel("logit").under("l1", _WIDTH),
    "Poisson, negative binomial, Gamma": CountModel.named("poisson", None),
    "Huber": HuberModel(),
    "quantile, q = .5": QuantileModel(0.5),
    "quantile, q = .9": QuantileModel(0.9),
}

PEOPLE: dict[str, tuple[RoundModel, float]] = {
    "least squares, people": (LinearModel(), 1.0),
    "logit, people": (BinaryModel("logit"), 0.25),
}
"""With the bound M on the Hessian of a row."""

_STAGES = ("ranges", "response", "start", "counts", "first", "sizes", "second")


def tables() -> str:
    """Return both tables: shares of the stages, and prices of the terms of each round."""
    shares = ["| model | " + " | ".join(_STAGES) + " |", "|---" * (len(_STAGES) + 1) + "|"]
    prices = ["| model | start | first | last |", "|---|---|---|---|"]
    for name, model in MODELS.items():
        mine = [f"{float(model.shares[one]):.2f}".lstrip("0") if one in model.shares else "" for one in _STAGES]
        shares.append(f"| {name} | " + " | ".join(mine) + " |")
        cut: Cut = CountCut(2.0, 5.0) if isinstance(model, CountModel) else Cut(3.0, 6.0)
        rounds = (model.start_terms(), model.terms(cut, last=False), model.terms(cut, last=True))
        prices.append(f"| {name} | " + " | ".join(_listed(terms) for terms in rounds) + " |")
    for name, (model, largest) in PEOPLE.items():
        rounds = tuple(_of_people(model.terms(Cut(3.0, 6.0), last=last), largest) for last in (False, True))
        prices.append(f"| {name} | | " + " | ".join(_listed(terms) for terms in rounds) + " |")
    return "\n".join([*shares, "", *prices])


def free() -> str:
    """Return the table of prices up to which Hessians of binary responses are free beside the score."""
    lines = ["| link | K, Gaussian noise | used |", "|---|---|---|"]
    for name, link in {"logit": "logit", "probit": "probit", "complementary log-log": "cloglog"}.items():
        exact = _room(BINARY[link], np.linspace(-2, 2, 400_001)).min()
        known = ", phi^5 with phi the golden ratio" if link == "logit" else ""
        lines.append(f"| {name} | {exact:.4f}{known} | {BinaryModel(link).largest_price(0.0):.4f} |")
    used, beside = (BinaryModel("logit").largest_price(meat) for meat in (0.0, 0.1))
    return "\n".join(
        [
            *lines,
            "",
            f"The Hessian of a logit then has noise of {used**-0.5:.4f} times that of the score, which has the noise "
            f"of its bound alone. With the products of scores at price a and the score at 1 - a the Hessian is free up "
            f"to {beside:.2f} (a = .1).",
        ]
    )


def _room(response: Response, predictor: Array) -> Array:
    """What the score of a row leaves at each linear predictor, over the square of the Hessian's weight."""
    mean = response.mean(predictor)
    return (1 - np.maximum(mean, 1 - mean) ** 2) / response.slope(predictor) ** 2


def written() -> str:
    """Return what stands on the page."""
    return Block(PAGE, START, END).read()


def main() -> None:
    """Rewrite the tables."""
    Block(PAGE, START, END).write(tables())
    print(f"wrote shares and prices of {len(MODELS)} models into {PAGE.name}")


def _of_people(terms: Sequence[Term], largest: float) -> list[Term]:
    """Parts of the price that terms have beside a score that is cut at one, of people with one row."""
    return [
        replace(one, price=one.price * largest**2) if one.name == "hessian" else one
        for one in people_prices(tuple(terms), 1.0, 1)
    ]


def _listed(terms: Sequence[Term]) -> str:
    return ", ".join(f"{one.name} {one.price:.4g}" for one in terms)


if __name__ == "__main__":
    main()
