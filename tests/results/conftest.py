"""A small Wald inference, one with infinite intervals, a stub release, and the regression they describe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from dpinfer.privacy import ZCDP
from dpinfer.results import PrivateResults

NAMES = ("Intercept", "age", "educ", "C(race)[T.b]")


@dataclass(frozen=True)
class StubCost:
    price: ZCDP = field(default_factory=lambda: ZCDP(0.1))

    def describe(self):
        return f"{self.price}, which implies (epsilon=2.23, delta=1e-06)"


@dataclass(frozen=True)
class StubRelease:
    cost: StubCost = StubCost()
    neighbors: str = "add_remove"
    charge_ids: tuple[str, ...] = ("c-12",)
    public: bool = False
    unit: str = "one row"
    dataset: str | None = None


@dataclass(frozen=True)
class WaldStub:
    names: tuple
    params: np.ndarray
    cov_sampling: np.ndarray
    cov_noise: np.ndarray
    nobs: float | None = None
    nobs_is_public: bool = False
    df_resid: float = np.inf
    scale: float | None = None
    rsquared: float | None = None
    method: str = "wald"
    target: str = "population"
    flags: tuple = ()

    def _deviation(self, contrasts):
        covariance = self.cov_sampling + self.cov_noise
        return np.sqrt(np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts))

    def intervals(self, contrasts, alpha):
        half = stats.t.isf(alpha / 2, self.df_resid) * self._deviation(contrasts)
        effect = contrasts @ self.params
        return np.column_stack([effect - half, effect + half])

    def contrast_pvalues(self, contrasts, values):
        distance = np.abs(contrasts @ self.params - values) / self._deviation(contrasts)
        return 2 * stats.t.sf(distance, self.df_resid)

    def wald(self, restrictions, values):
        gap = restrictions @ self.params - values
        covariance = restrictions @ (self.cov_sampling + self.cov_noise) @ restrictions.T
        statistic, df = float(gap @ np.linalg.solve(covariance, gap)), float(len(gap))
        if np.isfinite(self.df_resid):
            return statistic, df, float(stats.f.sf(statistic / df, df, self.df_resid))
        return statistic, df, float(stats.chi2.sf(statistic, df))

    def with_method(self, method):
        kind = UnboundedStub if method == "score" else WaldStub
        return kind(**{**self.__dict__, "method": method})


@dataclass(frozen=True)
class UnboundedStub(WaldStub):
    """Asymmetric intervals; the second is the whole line and the third is open above."""

    def intervals(self, contrasts, alpha):
        ends = super().intervals(contrasts, alpha) + np.array([-0.01, 0.02])
        if len(ends) > 2:
            ends[1] = [-np.inf, np.inf]
            ends[2, 1] = np.inf
        return ends

    def contrast_pvalues(self, contrasts, values):
        return np.minimum(1.0, 1.5 * super().contrast_pvalues(contrasts, values))


@dataclass(frozen=True)
class Case:
    ols: object
    design: pd.DataFrame
    inference: WaldStub

    def results(self, release=None, **options):
        noise = options.pop("cov_noise", self.inference.cov_noise)
        changes = {key: options.pop(key) for key in list(options) if hasattr(self.inference, key)}
        options = {"response": "income"} | options
        inference = replace(self.inference, cov_noise=noise, **changes)
        return PrivateResults(inference, release or StubRelease(), **options)

    def noisy(self, **options):
        return self.results(cov_noise=3 * np.diag(np.diag(self.inference.cov_sampling)), **options)


@pytest.fixture(scope="session")
def case():
    rng = np.random.default_rng(7)
    n = 400
    design = pd.DataFrame(
        {
            NAMES[0]: np.ones(n),
            NAMES[1]: rng.uniform(-1, 1, n),
            NAMES[2]: rng.uniform(-1, 1, n),
            NAMES[3]: rng.integers(0, 2, n).astype(float),
        }
    )
    y = pd.Series(design.to_numpy() @ [1.0, 0.5, -0.1, 0.2] + rng.normal(size=n), name="income")
    ols = sm.OLS(y, design).fit()
    inference = WaldStub(
        names=NAMES,
        params=ols.params.to_numpy(),
        cov_sampling=ols.cov_params().to_numpy(),
        cov_noise=np.zeros((4, 4)),
        nobs=float(ols.nobs),
        nobs_is_public=True,
        df_resid=float(ols.df_resid),
        scale=float(ols.scale),
        rsquared=float(ols.rsquared),
    )
    return Case(ols, design, inference)
