"""The questions that the contract is checked on: every public procedure, in every relation and unit that serves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.privacy.units import NEIGHBORS
from tests.goldens.cases import ASKS, PRICES, Ask
from tests.goldens.frame import PERSON, SCHEMA, frame

if TYPE_CHECKING:
    import pandas as pd

BUDGETS = {"pure": dpi.PureDP(1), "zcdp": dpi.ZCDP(0.1), "gdp": dpi.GDP(0.5), "approx": dpi.ApproxDP(1, 1e-6)}


def _regression(name: str, function: str, **options: Any) -> Ask:
    return Ask(name, function, options, tuple(PRICES), "add_remove", False, ())


ROUNDS = [
    _regression("ols by iterations", "ols", formula="income ~ age + educ + C(race)"),
    _regression("ols by iterations, equal spread", "ols", formula="income ~ age + educ", cov_type="nonrobust"),
    _regression("logit", "logit", formula="married ~ age + C(region)"),
    _regression("probit", "probit", formula="married ~ age", ranges=True),
    _regression("logit with margins", "logit", formula="married ~ age + C(region) + educ", margins=True),
    _regression("glm", "glm", formula="smokes ~ share", family=sm.families.Binomial(sm.families.links.CLogLog())),
    _regression("poisson", "poisson", formula="educ ~ age"),
    _regression("rlm", "rlm", formula="income ~ educ"),
    _regression("quantreg", "quantreg", formula="income ~ educ", q=0.25),
    _regression("mnlogit", "mnlogit", formula="race ~ age + C(region)"),
    _regression("ordered", "ordered", formula="region ~ age + educ"),
    _regression("ordered probit", "ordered", formula="race ~ age", distr="probit", ranges=False),
]
"""Regressions by noisy Newton rounds, whose releases are no goldens."""

WITHIN = [
    _regression("ols within people", "ols", formula="income ~ educ + C(race) + EntityEffects"),
    _regression("first differences", "first_difference", formula="income ~ educ", time="age"),
]
"""Questions about people with several rows alone."""


ENTRY = [
    Ask("quality", "quality", {}, tuple(PRICES), "add_remove", True, ()),
    Ask("quality of columns", "quality", {"columns": ["race", "smokes"]}, tuple(PRICES), "replace_one", False, ()),
    Ask("bounds", "bounds", {"columns": ["income", "kids"]}, tuple(PRICES), "add_remove", True, ()),
    Ask("bounds of one", "bounds", {"columns": "age", "octaves": (0, 8)}, tuple(PRICES), "replace_one", False, ()),
]
"""First looks at rows, whose releases are no goldens."""


INSTRUMENTS = [_regression("iv", "iv", formula="income ~ age + [educ ~ share]")]
"""Regressions by instruments, whose releases are no goldens: they are those of cross-products."""


ABSORBED = [_regression("ols absorbing levels", "ols", formula="income ~ age + C(race)", absorb="region")]
"""Regressions on sums by level, whose releases are no goldens."""

SURVIVAL = [
    Ask("survival", "survival", {"time": "wait", "event": "married", "times": [5.0, 10.0, 20.0], "by": "race"},
        tuple(PRICES), "add_remove", True, ()),
    Ask("survival where", "survival",
        {"time": "age", "event": "kids >= 2", "times": 6, "where": "smokes == False", "inference": "log-log"},
        tuple(PRICES), "replace_one", False, ()),
]  # fmt: skip
"""Life tables, whose releases are no goldens."""

DESIGN = dpi.SurveyDesign("region", weights="weight", strata="race")
SURVEYS = [
    Ask("survey mean", "design.mean", {"columns": "income", "by": "married", "deff": True},
        tuple(PRICES), "add_remove", True, ()),
    Ask("survey shares", "design.proportion", {"column": "smokes", "where": "kids >= 1"},
        tuple(PRICES), "replace_one", False, ()),
    Ask("survey regression", "design.ols", {"formula": "income ~ age"}, tuple(PRICES), "add_remove", False, ()),
]  # fmt: skip
"""Questions of a survey design, whose releases are no goldens."""


EXPERIMENTS = [
    Ask("experiment", "experiment", {"outcome": "income", "treatment": "smokes", "covariates": ["age", "race"]},
        tuple(PRICES), "add_remove", True, ()),
    Ask("experiment in strata", "experiment",
        {"outcome": "income", "treatment": "kids >= 2", "strata": "married", "where": "smokes == False"},
        tuple(PRICES), "replace_one", False, ()),
    Ask("experiment doubly robust", "experiment",
        {"outcome": "income", "treatment": "smokes", "covariates": ["age", "race"], "method": "aipw"},
        tuple(PRICES), "add_remove", False, ()),
]  # fmt: skip
"""Effects of treatments, whose releases are no goldens: they are those of means."""


@dataclass(frozen=True)
class Question:
    """A public function with its keywords, a relation, a unit and a price."""

    ask: Ask
    neighbors: str
    unit: str
    price: str

    def __str__(self) -> str:
        return f"{self.ask.name} {self.neighbors} {self.unit} {self.price}"

    @property
    def privacy(self) -> Any:
        """The price."""
        return PRICES[self.price]

    @property
    def person(self) -> dict[str, Any]:
        """What makes a person the unit."""
        return PERSON if self.unit == "person" else {}

    def public(self, rows: pd.DataFrame | None = None, seed: int = 7) -> Any:
        """Bind to public rows."""
        rows = frame() if rows is None else rows
        rng = np.random.default_rng(seed)
        return self.asked(dpi.PublicData(rows, SCHEMA, rng=rng, neighbors=self.neighbors, **self.person))

    def private(self, rows: Any = None, ledger: dpi.Ledger | None = None) -> Any:
        """Bind to confidential rows, with a ledger that holds just the price."""
        rows = frame() if rows is None else rows
        ledger = ledger or dpi.Ledger.in_memory(BUDGETS[self.price], neighbors=self.neighbors)
        return self.asked(dpi.PrivateData(rows, SCHEMA, ledger, **self.person))

    @property
    def released(self) -> dpi.Release:
        """What is released of public rows: measured once, whatever is asked of it."""
        if str(self) not in RELEASED:
            RELEASED[str(self)] = self.public().measure(self.privacy)
        return RELEASED[str(self)]

    def asked(self, data: Any) -> Any:
        """Ask it of data."""
        home, _, name = self.ask.function.rpartition(".")
        return getattr(DESIGN if home else dpi, name)(data=data, **self.ask.options)


RELEASED: dict[str, dpi.Release] = {}

SECRET_WEIGHTS = ("gdp", "approx")
"""Prices in whose units the exact cost of secret weights is stated."""


def _chosen() -> list[Question]:
    """Take each question in every relation and unit, at its prices in turn."""
    found = []
    for place, ask in enumerate(
        (*ASKS, *ROUNDS, *ENTRY, *WITHIN, *INSTRUMENTS, *SURVIVAL, *SURVEYS, *EXPERIMENTS, *ABSORBED)
    ):
        secret = ask.function == "bootstrap" and ask.options.get("weights") != "public"
        prices = [price for price in ask.prices if not secret or price in SECRET_WEIGHTS]
        settings = [(relation, unit) for relation in NEIGHBORS for unit in ("row", "person")]
        for turn, (relation, unit) in enumerate(settings):
            found.append(Question(ask, relation, unit, prices[(place + turn) % len(prices)]))
    return found


EVERY = _chosen()
"""Each question in every relation and unit; some are refused, which is checked too."""


def _home() -> list[Any]:
    """Keep of each question the setting in which it is at home; all but the first of each function are slow tests."""
    asks = [one for one in EVERY if one.ask not in WITHIN]
    home = [one for one in asks if (one.neighbors, one.unit) == (one.ask.home, "row")]
    seen: set[str] = set()
    found = []
    for one in home:
        found.append(pytest.param(one, id=str(one), marks=[pytest.mark.slow] if one.ask.function in seen else []))
        seen.add(one.ask.function)
    return found


HOME = _home()
