"""The questions of the goldens, and the settings in which each is asked."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.privacy.units import NEIGHBORS
from tests.goldens.frame import PERSON, SCHEMA, frame

if TYPE_CHECKING:
    import pandas as pd

PURE, ZCDP, GDP, APPROX = dpi.PureDP(1), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)
UNITS = ("row", "person")
PRICES = {"pure": PURE, "zcdp": ZCDP, "gdp": GDP, "approx": APPROX}


@dataclass(frozen=True)
class Ask:
    """A question: a public function and its keywords.

    Attributes
    ----------
    prices : tuple of str
        What it is asked at.
    home : {"add_remove", "replace_one"}
        Where it is served by row: there it is asked at two prices, elsewhere at one.
    full : bool
        Whether it is asked at home at all prices.
    formulas : tuple of str
        What is inferred from a Gram.
    iterated : bool
        Whether later stages are built from the linear algebra of earlier ones, whose last digits a machine may change.
    """

    name: str
    function: str
    options: dict[str, Any]
    prices: tuple[str, ...]
    home: str
    full: bool
    formulas: tuple[str, ...]
    iterated: bool = False


@dataclass(frozen=True)
class Case:
    """A question, a neighbour relation, a unit of protection and a price."""

    ask: Ask
    neighbors: str
    unit: str
    price: str

    @property
    def name(self) -> str:
        """Key in goldens.json."""
        return f"{self.ask.name} {self.neighbors} {self.unit} {self.price}"

    @property
    def privacy(self) -> Any:
        """The price."""
        return PRICES[self.price]

    def data(self) -> dpi.PublicData:
        """Return the rows with a generator of their own."""
        options = PERSON if self.unit == "person" else {}
        return dpi.PublicData(frame(), SCHEMA, rng=np.random.default_rng(7), neighbors=self.neighbors, **options)

    def procedure(self, data: dpi.PublicData) -> dpi.Procedure:
        """Ask the question of the rows."""
        return getattr(dpi, self.ask.function)(data=data, **self.ask.options)


def block_means(block: pd.DataFrame) -> list[float]:
    """Return the means of a block: a user's own function."""
    return [block["share"].mean(), block["kids"].mean()]


def _ask(
    name: str,
    function: str,
    *prices: str,
    home: str = "add_remove",
    full: bool = False,
    formulas: tuple[str, ...] = (),
    iterated: bool = False,
    **options: Any,
) -> Ask:
    return Ask(name, function, options, prices or tuple(PRICES), home, full, formulas, iterated)


WEIBULL = dpi.Family(
    "weibull2",
    parameters={"rate": (0, np.inf)},
    statistics=("x**2",),
    log_density=lambda x, rate: np.log(x) - rate * x**2,
    support=(0, np.inf),
)
GAMMA = sm.families.Gamma(link=sm.families.links.Log())
CLOGLOG = sm.families.Binomial(link=sm.families.links.CLogLog())
EQUATION = "income ~ age + educ + married + C(race)"
NOT_PURE = ("zcdp", "gdp", "approx")
BY_TWO = ["married", "race"]

REGRESSION = [
    _ask(
        "gram",
        "gram",
        full=True,
        columns=["income", "age", "educ", "married", "race"],
        formulas=("income ~ age", "educ ~ race"),
    ),
    _ask(
        "gram terms",
        "gram",
        columns=["log(1 + income)", "age:married", "share"],
        where="age >= 18",
        clamped_share=0.1,
        formulas=("share ~ age:married",),
    ),
    _ask("gram public n", "gram", columns=["share", "smokes", "region"], formulas=("share ~ smokes",)),
    _ask("ols", "ols", method="gram", full=True, formula=EQUATION),
    _ask("ols l2", "ols", method="gram", formula="income ~ age + educ", row_norm=1.2),
    _ask("ols l1", "ols", method="gram", full=True, formula="income ~ age + educ + married", row_norm=1.5, norm="l1"),
    _ask("ols split", "ols", method="gram", formula="income ~ age + educ", split=(0.5, 0.3, 0.2)),
    _ask(
        "ols split l2 marks",
        "ols",
        method="gram",
        formula="income ~ age",
        split=(0.6, 0.3, 0.1),
        row_norm=1.1,
        clamped_share=0.05,
    ),
    _ask("ols split l1", "ols", method="gram", formula="income ~ age", split=(0.4, 0.4, 0.2), row_norm=1.3, norm="l1"),
    _ask("ols marks", "ols", method="gram", formula="income ~ age + educ", clamped_share=0.2),
    _ask("ols factors", "ols", method="gram", formula="income ~ age*C(race) + C(region)"),
    _ask("ols where", "ols", method="gram", formula="income ~ age", where="age >= 18", inference="wald", target="data"),
    _ask("ols simulated", "ols", method="gram", formula="share ~ wait", inference="simulated", replicates=99),
    _ask("ols public n", "ols", method="gram", formula="share ~ smokes + C(region)"),
]

VOTES = "vote ~ age + smokes + C(race)"
KIDS = "kids ~ age + educ"
ITERATED = [
    _ask(name, function, iterated=True, **{"full": False, **options})
    for name, function, options in (
        ("iterations ols", "ols", {"full": True, "formula": EQUATION}),
        (
            "iterations ols weights",
            "ols",
            {"formula": "income ~ age + educ", "weights": "weight", "where": "age >= 18"},
        ),
        ("iterations ols nonrobust", "ols", {"formula": "share ~ wait + smokes", "cov_type": "nonrobust"}),
        ("iterations ols interaction", "ols", {"formula": "share ~ age*smokes", "method": "newton", "ranges": False}),
        ("iterations logit", "logit", {"full": True, "formula": VOTES}),
        ("iterations logit margins", "logit", {"formula": "smokes ~ age + educ", "margins": True}),
        ("iterations logit score", "logit", {"formula": "vote ~ share", "inference": "score"}),
        ("iterations probit", "probit", {"formula": VOTES}),
        ("iterations poisson", "poisson", {"full": True, "formula": KIDS}),
        ("iterations poisson exposure", "poisson", {"formula": "kids ~ age", "exposure": "wait"}),
        ("iterations negative binomial", "glm", {"formula": KIDS, "family": sm.families.NegativeBinomial(alpha=0.5)}),
        ("iterations gamma", "glm", {"formula": "wait ~ age + smokes", "family": GAMMA}),
        ("iterations cloglog", "glm", {"formula": "smokes ~ age", "family": CLOGLOG}),
        ("iterations rlm", "rlm", {"full": True, "formula": "income ~ age + educ"}),
        ("iterations quantreg", "quantreg", {"full": True, "formula": "income ~ age + educ", "q": 0.25}),
    )
]

DESCRIPTIONS = [
    _ask("mean", "mean", full=True, columns=["income", "age"]),
    _ask("mean by", "mean", columns="income", by=BY_TWO, where="age >= 18"),
    _ask("mean weights", "mean", columns="share", weights="weight", by="smokes"),
    _ask("mean public n", "mean", columns=["share", "log(share)"]),
    _ask("mean data", "mean", columns="educ", target="data", inference="wald"),
    _ask("mean simulated", "mean", columns="share", by="smokes", inference="simulated", replicates=99),
    _ask("total", "total", columns=["income", "kids"], by="race"),
    _ask("total draws", "total", "pure", columns="income", draws=12),
    _ask(
        "total weights", "total", full=True, columns="income", weights="weight", target="population", where="kids > 0"
    ),
    _ask("variance", "variance", full=True, columns=["income", "age"], by="married"),
    _ask("variance weights", "variance", columns="income", weights="weight"),
    _ask("cov", "cov", columns=["income", "age", "educ"]),
    _ask("corr", "corr", columns=["income", "age"], by="smokes", where="age >= 18"),
    _ask("proportion", "proportion", column="married", by="race"),
    _ask("proportion levels", "proportion", column="region", where="age >= 18", target="data"),
    _ask("proportion condition", "proportion", column="income > 80"),
    _ask("proportion weights", "proportion", column="smokes", weights="weight"),
    _ask("proportion exact", "proportion", "pure", home="replace_one", column="smokes", inference="exact"),
    _ask("count", "count", full=True),
    _ask("count by", "count", by=["race", "age >= 40"], where="kids > 0"),
    _ask("count weights", "count", weights="weight", by="region", target="population"),
    _ask("count draws", "count", "pure", by="race", draws=10),
    _ask("table", "table", full=True, columns=["race", "region", "married"]),
    _ask("table weights", "table", columns=["region", "smokes"], weights="weight"),
    _ask("histogram", "histogram", column="age", bins=[0, 18, 40, 65, 100], by="married"),
    _ask("histogram equal", "histogram", column="share", bins=5, bounds=(0.01, 0.99), where="smokes"),
    _ask(
        "linear queries",
        "linear_queries",
        columns=["smokes", "region"],
        queries={"sum": [1, 1, 1, 1, 1, 1], "smoke": [0, 0, 0, 1, 1, 1], "north": [1, 0, 0, -1, 0, 0]},
    ),
    _ask(
        "linear queries fractions",
        "linear_queries",
        full=True,
        columns="race",
        queries={"mixed": [0.5, 0.25, -1 / 3], "first": {"a": 1}},
        where="age >= 18",
    ),
    _ask(
        "marginals",
        "marginals",
        full=True,
        workload=[["race", "region"], ["married", "race"], ["age", "region"]],
        bins={"age": [0, 18, 40, 65, 100]},
    ),
    _ask(
        "marginals max",
        "marginals",
        workload=dpi.workload(["smokes", "region", "vote"], ways=(1, 2), weights={"smokes": 4}),
        where="kids > 0",
        objective="max",
        target="population",
    ),
    _ask("linear queries draws", "linear_queries", "pure", columns="region", queries=[[1, 0, 1], [0, 2, 0]], draws=4),
]

FAMILIES = [
    _ask(f"expfam {family}", "expfam", full=family == "gamma", column=column, family=family)
    for family, column in {
        "bernoulli": "smokes",
        "poisson": "kids",
        "geometric": "kids",
        "exponential": "wait",
        "gamma": "wait",
        "normal": "income",
        "lognormal": "wait",
        "beta": "share",
        "categorical": "race",
    }.items()
] + [
    _ask("expfam binomial", "expfam", column="kids", family=dpi.Binomial(6)),
    _ask("expfam own", "expfam", "pure", "gdp", column="wait", family=WEIBULL, where="age >= 18"),
    _ask("expfam multinormal", "expfam", column=["income", "age", "educ"], family="normal"),
    _ask("expfam simulated", "expfam", "zcdp", column="share", family="normal", inference="simulated", replicates=99),
]

PLACES = [
    _ask("quantile", "quantile", full=True, column="income"),
    _ask("quantile several chosen", "quantile", column="share", q=[0.25, 0.9], method="exponential", by="smokes"),
    _ask(
        "quantile tree",
        "quantile",
        full=True,
        column="age",
        q=[0.1, 0.5],
        by="married",
        where="kids > 0",
        resolution=256,
    ),
    _ask("quantile integer", "quantile", column="educ", q=[0.25, 0.75], target="data"),
    _ask("quantile continuous", "quantile", column="wait", q=0.5, method="tree", continuous=True, resolution=64),
    _ask("cdf", "cdf", column="age", by="smokes", resolution=64),
    _ask("density", "density", full=True, column="wait"),
    _ask("density integer", "density", column="educ", where="age >= 18"),
    _ask("density public n", "density", column="share"),
    _ask("density bins", "density", column="age", bins=8),
    _ask("density edges", "density", column="income", bins=[10, 50, 90, 200], target="data"),
    _ask("most frequent", "most_frequent", full=True, columns="race"),
    _ask("most frequent columns", "most_frequent", columns=["married", "smokes", "vote"], where="age >= 18"),
    _ask(
        "exponential mechanism",
        "exponential_mechanism",
        score="candidate * (share >= candidate)",
        candidates=[0.1, 0.2, 0.3, 0.4, 0.5],
    ),
    _ask(
        "exponential mechanism scores",
        "exponential_mechanism",
        "pure",
        "gdp",
        score={"young": "age < 30", "rich": "income / 200", "north": "region == 'north'"},
        method="exponential",
    ),
]

THRESHOLDS = [
    _ask(
        "above a threshold",
        "above_threshold",
        full=True,
        queries={"old": "age > 60", "smokers": "smokes", "young": "age < 20"},
        threshold=50,
        answers=2,
    ),
    _ask(
        "sums above thresholds",
        "above_threshold",
        home="replace_one",
        queries=["share - 0.5", "educ"],
        threshold=[3.5, 2000],
        where="age >= 18",
    ),
]

TESTS = [
    _ask("binomtest", "binomtest", full=True, home="replace_one", column="smokes", p=0.3),
    _ask(
        "binomtest greater", "binomtest", "pure", "gdp", home="replace_one", column="vote", p=0.5, alternative="greater"
    ),
    _ask("chisquare", "chisquare", full=True, column="race", p0={"a": 0.5, "b": 0.3, "c": 0.2}, draws=499),
    _ask("chisquare pearson", "chisquare", column="region", f_exp=[40, 35, 25], statistic="pearson", draws=499),
    _ask("chisquare bins", "chisquare", column="age", bins=[0, 30, 60, 100], where="kids > 0", draws=499),
    _ask("chisquare asymptotic", "chisquare", *NOT_PURE, column="kids", null="asymptotic"),
    _ask("chi2 contingency", "chi2_contingency", row="race", column="married", draws=499),
    _ask("chi2 contingency fixed", "chi2_contingency", row="smokes", column="region", fixed="smokes", draws=499),
    _ask("chi2 contingency bins", "chi2_contingency", row="age", column="vote", bins={"age": [0, 50, 100]}, draws=499),
    _ask("loglinear", "loglinear", formula="race * married"),
    _ask(
        "loglinear bins",
        "loglinear",
        formula="age + C(region, Sum) + `educ > 8`",
        bins={"age": [0, 50, 100]},
        where="kids < 5",
        target="data",
        inference="wald",
    ),
    _ask("ttest 1samp", "ttest_1samp", full=True, column="income", popmean=80.0, draws=499),
    _ask("ttest ind", "ttest_ind", column="income", by="married", equal_var=True, draws=499),
    _ask("ttest ind welch", "ttest_ind", column="share", by="age >= 40", equal_var=False, draws=499),
    _ask("ttest rel", "ttest_rel", full=True, a="income", b="age", alternative="greater", draws=499),
    _ask("f oneway", "f_oneway", column="income", by="race", equal_var=True, draws=499),
    _ask("mannwhitneyu", "mannwhitneyu", full=True, column="income", by="married", bins=12, draws=499),
    _ask("kruskal", "kruskal", full=True, column="kids", by="race", draws=499),
    _ask("ks 2samp", "ks_2samp", full=True, column="share", by="age >= 40", alternative="greater", draws=499),
    _ask("wilcoxon", "wilcoxon", full=True, column="income", other="age", draws=499),
    _ask("wilcoxon about 3", "wilcoxon", column="kids", center=3.0, zero_method="pratt", draws=499),
    _ask("ks 1samp", "ks_1samp", full=True, column="kids", cdf="poisson", args=(2.0,), draws=499),
    _ask("spearmanr", "spearmanr", full=True, x="age", y="educ", where="kids < 4", draws=499),
    _ask("f oneway welch", "f_oneway", column="share", by="region", equal_var=False, where="kids < 4", draws=499),
]

RESAMPLED = [
    _ask("bootstrap", "bootstrap", "gdp", "approx", "zcdp", full=True, columns=["income", "age"], replicates=20),
    _ask(
        "bootstrap poisson",
        "bootstrap",
        "gdp",
        columns=["income", "age"],
        statistic="corr",
        weights="poisson",
        replicates=12,
        where="kids < 5",
    ),
    _ask(
        "bootstrap public",
        "bootstrap",
        *NOT_PURE,
        full=True,
        home="replace_one",
        columns="share ~ wait",
        weights="public",
        replicates=20,
        seed=3,
    ),
    _ask(
        "bootstrap public ratio",
        "bootstrap",
        *NOT_PURE,
        home="replace_one",
        columns=["income", "age"],
        statistic="income / age",
        weights="public",
        replicates=10,
        inference="conservative",
    ),
    _ask(
        "blocks ols",
        "sample_aggregate",
        full=True,
        formula="share ~ smokes",
        model=smf.ols,
        blocks=12,
        bounds=dpi.Ball(2),
    ),
    _ask(
        "blocks logit",
        "sample_aggregate",
        formula="vote ~ share",
        model=smf.logit,
        blocks=8,
        bounds={"Intercept": (-3, 3), "share": (-6, 6)},
        bias_correction="none",
    ),
    _ask(
        "blocks own",
        "sample_aggregate",
        formula=["share", "kids"],
        model=block_means,
        blocks=20,
        bounds={"share": (0, 1), "kids": (0, 6)},
        where="age >= 18",
    ),
    _ask(
        "blocks own mean",
        "sample_aggregate",
        formula=["share", "kids"],
        model=block_means,
        names=["m", "k"],
        blocks=10,
        bounds=dpi.Ball(7),
        aggregator="mean",
        bias_correction="none",
    ),
]

SHORTHANDS = [_ask("median", "median", column="age", by="smokes", where="kids > 0")]

ASKS = (*REGRESSION, *ITERATED, *DESCRIPTIONS, *FAMILIES, *PLACES, *THRESHOLDS, *TESTS, *RESAMPLED, *SHORTHANDS)


def _cases(ask: Ask) -> list[Case]:
    """Take the prices in turn, from another one for each question."""
    home = (ask.home, "row")
    others = [(relation, unit) for unit in UNITS for relation in NEIGHBORS if (relation, unit) != home]
    at_home = len(ask.prices) if ask.full else min(2, len(ask.prices))
    turn = zlib.crc32(ask.name.encode())
    return [
        Case(ask, relation, unit, ask.prices[place % len(ask.prices)])
        for place, (relation, unit) in enumerate([home] * at_home + others, turn)
    ]


GROUPED = _ask("iterations ols groups", "ols", iterated=True, formula="share ~ wait + smokes", groups="region")

WITHIN = [
    _ask("iterations within people", "ols", iterated=True, formula="income ~ educ + C(race) + EntityEffects"),
    _ask("iterations first differences", "first_difference", iterated=True, formula="income ~ educ", time="age"),
]
"""Questions about people with several rows alone."""


def _within(ask: Ask) -> list[Case]:
    return [Case(ask, NEIGHBORS[place % 2], "person", price) for place, price in enumerate(ask.prices)]


CASES = {case.name: case for ask in (*ASKS, GROUPED) for case in _cases(ask)}
CASES |= {case.name: case for ask in WITHIN for case in _within(ask)}
