"""How each kind of result was estimated and inferred, in sentences with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.display.report import count, listed
from dpinfer.release.laws import CHOICES
from dpinfer.release.release import Release
from dpinfer.results.combined import CombinedResults
from dpinfer.results.margins import MarginalEffects
from dpinfer.results.testing.base import TestResults
from dpinfer.tables.chi_squared_results import ChiSquareResults
from dpinfer.tables.loglinear_results import LogLinearResults, LogLinearTestResults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.reporting.reading import Entry
    from dpinfer.reporting.references import Citations

__all__ = ["estimated", "inferred"]

_MODELS = {
    "ols": "Coefficients of a linear model",
    "logit": "Coefficients of a logit model",
    "probit": "Coefficients of a probit model",
    "cloglog": "Coefficients of a complementary log-log model",
    "poisson": "Coefficients of a Poisson regression",
    "negativebinomial": "Coefficients of a negative binomial regression",
    "gamma": "Coefficients of a gamma regression",
    "huber": "Coefficients of a robust regression by Huber's loss",
    "quantile": "Coefficients of a quantile regression by a smoothed check loss",
}
_MODEL_SOURCES = {"huber": ("huber1964",), "quantile": ("he2023",), "poisson": ("cantoni2001",)}

_SUMMED = {"mean": "Means", "total": "Totals", "variance": "Variances", "cov": "Covariances", "corr": "Correlations"}
_COUNTED = "Counts are noisy counts of the cells ({dwork2006}), kept unbiased: they may be negative, and do not add up."
_RANKS = "Ranks were taken from noisy counts of leaves ({couch2019}), and the null redraws counts and noise."
_MEANS_TESTED = "Means were compared by noisy sums, with a null that redraws sums and noise."

_ESTIMATED: dict[str, str] = {
    "gram": "Coefficients of linear models were computed from noisy cross-products ({vu2009}; {sheffet2017}; "
    "{bernstein2019}); their standard errors assume errors of equal spread.",
    **{
        kind: f"{what} were computed from noisy sums of clamped values ({{dwork2006}})."
        for kind, what in _SUMMED.items()
    },
    **dict.fromkeys(("count", "table", "histogram"), _COUNTED),
    "proportion": "Shares are ratios of noisy counts, with score intervals ({wilson1927}) that count the noise.",
    "exact_proportion": "Shares have exact intervals under Tulap noise ({awan2018}; {stevens1950}).",
    "linear_queries": "Linear queries of a table were measured with noise on the queries themselves ({li2010}).",
    "marginals": "Marginal tables were measured together by the residual planner ({xiao2023}).",
    "expfam": "Parameters of the family were fitted to noisy sums of clamped sufficient statistics "
    "({bernstein2018}), as those of a law with atoms at its bounds ({tobin1958}), so that clamping does not bias them.",
    "multinormal": "Moments of a normal law were fitted to noisy cross-products ({bernstein2018}).",
    "quantile": "Quantiles were read off a consistent noisy tree of counts, which gives their intervals ({hay2010}; "
    "{drechsler2022}).",
    "chosen quantile": "Quantiles were chosen by the exponential mechanism ({smith2011}); their intervals come from "
    "a noisy tree of counts ({hay2010}; {drechsler2022}).",
    "cdf": "The distribution function was read off a consistent noisy tree of counts ({hay2010}).",
    "density": "The density is a noisy histogram whose bins were chosen from noisy counts.",
    "most_frequent": "The most frequent value was chosen by noisy scores ({mcsherry2007}).",
    "exponential_mechanism": "The best candidate was chosen by noisy scores ({mcsherry2007}).",
    "above_threshold": "Comparisons release which noisy sums reach their thresholds, and nothing else ({lyu2017}).",
    "bootstrap": "Sums were released many times under secret random weights, and the spread of the replicates gives "
    "the standard errors ({brawner2018}), at the exact cost of all replicates.",
    "sample_aggregate": "The model was fitted to secret blocks of rows, and a noisy average of the bounded "
    "estimates was released ({nissim2007}; {smith2011}); their spread gives the standard errors.",
    "quality": "Cells were counted by class, valid, clamped, missing or impossible, with noise.",
    "bounds": "Bounds were found from noisy counts of values in octaves.",
    "chi2": "Chi-squared statistics are those of noisy counts, with the noise in their covariance ({kifer2017}; "
    "{gaboardi2016}).",
    "binomtest": "The proportion was tested by the exact law of a binomial count with noise ({awan2018}).",
    **dict.fromkeys(("ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"), _MEANS_TESTED),
    **dict.fromkeys(("mannwhitneyu", "kruskal", "ks_2samp", "ks_1samp", "wilcoxon", "spearmanr"), _RANKS),
    "loglinear": "The log-linear model ({haberman1974}; {fienberg2012}) was fitted to noisy counts, whose noise is "
    "in all standard errors.",
    "combined": "Releases were combined by generalised least squares ({aitken1935}).",
    "margeff": "Marginal effects are functions of what was released; delta-method standard errors count the noise.",
}

_INFERRED = {
    "wald": "P-values and intervals are Wald's, of an estimate whose variance {counts}.",
    "score": "P-values and intervals invert a score test ({rao1948}; {fieller1954}) whose variance {counts}; they hold "
    "where noise is large, too.",
    "simulated": "P-values and intervals come from simulating the whole procedure, noise and clamping included "
    "({ferrando2022}); the variance {counts}.",
    "exact": "P-values and intervals come from the exact law of the noisy estimate; its variance {counts}.",
    "fiducial": "P-values and intervals count what is not known of the variance between replicates, which {counts}.",
}

_COUNTS = {
    "population": "counts sampling and noise",
    "data": "counts the noise alone, as they are about these data and not a wider population",
}


def estimated(entries: Sequence[Entry], cite: Citations) -> str:
    """Say how estimates were made, each way once, with the results that it was used for."""
    return _together(entries, lambda entry: _estimation(entry, cite))


def inferred(entries: Sequence[Entry], cite: Citations) -> str:
    """Say where intervals and p-values come from, each way once."""
    return _together(entries, lambda entry: _inference(entry.given, cite))


def _together(entries: Sequence[Entry], tell: Callable[[Entry], str]) -> str:
    """Group results of which the same is to be told, and name them where there are others."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        told = tell(entry)
        if told:
            groups.setdefault(told, []).append(entry.heading)
    if len(entries) == 1:
        return " ".join(groups)
    return " ".join(
        f"For {listed(f'“{name}”' for name in names)}, {told[0].lower() + told[1:]}" for told, names in groups.items()
    )


def _filled(template: str, cite: Citations, **words: str) -> str:
    """Put citations, and words that are given, in place of their keys."""
    keys = {part.split("}")[0] for part in template.split("{")[1:]} - set(words)
    return template.format(**words, **{key: cite(key) for key in sorted(keys)})


def _kind(given: object, release: Any, question: dict[str, Any]) -> str:
    """Return under which name `_ESTIMATED` tells of a result."""
    of_class = {
        ChiSquareResults: "chi2",
        LogLinearResults: "loglinear",
        LogLinearTestResults: "loglinear",
        CombinedResults: "combined",
        MarginalEffects: "margeff",
    }
    for kind, name in of_class.items():
        if isinstance(given, kind):
            return name
    asked = str(question.get("procedure", ""))
    if asked == "quantile" and any(stage.law.family in CHOICES for stage in release.stages):
        return "chosen quantile"
    return "gram" if asked == "ols" else asked


def _estimation(entry: Entry, cite: Citations) -> str:
    release = entry.releases[0] if len(entry.releases) == 1 else None
    question = dict(release.question) if isinstance(release, Release) else {}
    kind = _kind(entry.given, release, question)
    if kind == "newton":
        return _regression(question, release, cite)
    return _filled(_ESTIMATED.get(kind, ""), cite)


def _regression(question: dict[str, Any], release: Any, cite: Citations) -> str:
    model = str(question["model"])
    source = _MODEL_SOURCES.get(model, ())
    what = _MODELS.get(model, "Coefficients") + (f" ({cite(*source)})" if source else "")
    robust = question.get("cov_type") != "nonrobust"
    errors = (
        "are robust to unequal spread and to a wrong model "
        f"({question.get('cov_type')}; {cite('huber1967', 'white1980')})"
        if robust
        else "assume errors of equal spread and a right model"
    )
    return (
        f"{what} ({question['formula']}) were fitted in {count(len(release.stages))} rounds, of which the first "
        "find where values and coefficients lie, and the last release what steps of Newton's method need "
        f"({cite('avella2023')}); standard errors {errors}, and count the noise."
    )


def _inference(given: object, cite: Citations) -> str:
    if isinstance(given, TestResults):
        return _tested(given, cite)
    inference = getattr(getattr(given, "results", given), "inference", None)
    method = getattr(inference, "method", None)
    counts = _COUNTS.get(getattr(inference, "target", ""), _COUNTS["population"])
    return _filled(_INFERRED.get(str(method), ""), cite, counts=counts)


def _tested(test: TestResults, cite: Citations) -> str:
    if test.distribution is not None and test.distribution.draws:
        return (
            f"The p-value compares the statistic with {count(test.distribution.draws)} draws of what the same question "
            f"would release under the hypothesis, sampling and noise alike ({cite('besag1991')})."
        )
    return f"The p-value is {test.null}, with the noise counted."
