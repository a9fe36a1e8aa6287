"""Why a claim does not hold, in words; what it measured stands beside it on the page of claims."""

from __future__ import annotations

_FEW_ROWS = (
    "engel (food by income) and injury (durations by highearn), and one slope of anes96 by a little: one of the 235 "
    "rows of engel is half of the variance of its slope, durations have a tail of index 1.3. Noise hides how many rows "
    "are so far out, and clipping takes more than the interval allows for. Take the logarithm, or `rlm`."
)
_UNSEEN = (
    "fringe (benefits by earnings) and the median of hours in wage_panel alone: three of 616 employees earn seven to "
    "twelve standard deviations more than the mean, the slope depends on them, and noise hides three rows. A quarter "
    "of all hours are 2,080: the check function is smoothed there, and that of the truth is not."
)
_NOISE_ALONE = (
    "The number was aimed at, not derived: with few rows, many or nearly collinear regressors, rare levels or loose "
    "bounds noise determines the width, and intervals are as long as they must be to cover. `plan` predicts it."
)
_FAR_OFF = (
    "Where noise hides an eigenvalue of the Hessian, a step is limited only by what a linear predictor could be, and "
    "some estimates are far off. Their intervals are long and cover, and a flag names the coefficients."
)
_OVERSHOT = (
    "Counts with an interaction: an early step may multiply the means of a few rows far out, which noise hides. The "
    "Hessian leaves out most of what they add, and the last step does not lead back. These intervals are long and "
    "cover. After that come levels of less than two in a hundred rows, whose eigenvalue noise hides."
)
_NO_END = (
    "Levels of less than two in a hundred rows, regressors with a long tail, and nearly collinear ones: noise hides "
    "their eigenvalue of the Hessian, and the result says so."
)
_REAL = "of slopes on real data"
_PASSES_OF_A_LOGIT = (
    "Eight passes over the rows, each of which encodes them anew, where statsmodels reads them once; a pass is not "
    "fused with the next, since the noise of one decides what the next adds up."
)
_PASSES = (
    "Every column is coerced, clamped and rounded to whole numbers by a dozen passes of numpy, once for each question."
)
_FIXED = (
    "Seven stages, each built and checked part by part in Python, once in the rehearsal before the charge and once as "
    "it runs; a mean has one stage, and a charge that is on disk before rows are read."
)
_LIGHT_TAILS = (
    "Noise hides how many large scores there are, and what it may hide is allowed for as a tail as heavy as real data "
    "have. Those of counts are lighter: intervals cover more often than asked, and a part of each is this allowance."
)
_NULLS = "Simulated nulls draw, sort and rank in numpy; multinomials alone are one call."

REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "coverage of 95% intervals of slopes on real data, beside the non-private ones",
            "coverage of slopes on real data where no flag names them, beside the non-private ones less .05",
            "size at .05 of t tests of the truth, slopes on real data",
            "size at .05 of joint Wald tests of the truth, slopes on real data",
        ),
        _FEW_ROWS,
    ),
    **dict.fromkeys(
        (
            "coverage of 95% intervals of slopes on unseen real data, beside the non-private ones",
            "coverage of slopes on unseen real data where no flag names them, beside the non-private ones less .05",
            "size at .05 of t tests of the truth, slopes on unseen real data",
            "size at .05 of joint Wald tests of the truth, slopes on unseen real data",
        ),
        _UNSEEN,
    ),
    **dict.fromkeys(
        (
            f"share of unbounded intervals {_REAL} where n rho is at least 250",
            f"share of unbounded intervals {_REAL} where n rho is at least 50",
            f"share of unbounded intervals {_REAL}, PureDP(1), n = 2,000, at most 6 coefficients",
        ),
        _NO_END,
    ),
    **dict.fromkeys(
        (
            f"median width over the non-private one {_REAL}, PureDP(1), n = 2,000, at most 6 coefficients",
            *(
                f"{which} {name} over the non-private one {_REAL}, {budget}"
                for which, name in (("median", "width"), ("median", "RMSE"), ("worst", "width"))
                for budget in ("ZCDP(0.5), n = 2,000", "ZCDP(0.05), n = 5,000")
            ),
        ),
        _NOISE_ALONE,
    ),
    **dict.fromkeys(
        (
            f"worst RMSE over the non-private one {_REAL}, {budget}"
            for budget in ("ZCDP(0.5), n = 2,000", "ZCDP(0.05), n = 5,000")
        ),
        _OVERSHOT,
    ),
    "RMSE over the non-private one of slopes on real data where the interval is bounded": _FAR_OFF,
    "least coverage of 95% intervals: sample and aggregate": (
        "The intercept of a logit of anes96, 6.4 below zero, in a region of radius 10: some halves of blocks have "
        "estimates outside, their blocks stay uncorrected, and these are the ones with the lowest intercepts. Declare "
        "a region that holds the estimates of halves."
    ),
    "least coverage of a slope whose column has bounds of up to 1,000 standard deviations": (
        "Bounds a thousand standard deviations wide at PureDP(1), 5,000 rows: .925 of 1,000. With narrower bounds, and "
        "at the other budgets, intervals cover."
    ),
    "least coverage of 95% intervals within bounds that were found privately: means, gamma families, least squares "
    "from cross-products": (
        "The mean of a lognormal column depends on a few extreme rows. With 1,000 rows their octaves hold fewer rows "
        "than the noise can reveal; they are clipped, and the interval does not allow for that. With more rows it "
        "covers. The median, or the mean of the logarithm, does not depend on them. For the slope on a normal column "
        "at n = 1,000 only one interval in ten is determined, and those that miss lie below the slope, as when noise "
        "makes the regressor look more variable than it is. Over all releases the slope is covered."
    ),
    "least coverage of 95% intervals of a slope with the suggested row_norm, own responses of the data": (
        "The mean function of randhie is not linear, so downweighting rows changes the best linear predictor, and the "
        "intervals are for the changed one. They also under-cover the ordinary one without the bound; `explain` says "
        "what the weights do."
    ),
    "coverage and width of 90% intervals of a slope, logit": (
        "Intervals are a tenth longer than was aimed at; as short as that, they covered too rarely with one iteration "
        "less."
    ),
    "least coverage of a slope beside a rare level with a strong effect, cloglog": (
        "The last iteration starts beyond the estimate, where the model expects one row without the event for several "
        "that there are. So it cannot tell how much clipping took of them, and noise hides them from the counts."
    ),
    "largest median width over the oracle's where noise is small, Huber regression": (
        "Exponential errors: intervals are a sixth longer than those of an oracle, and cover. What lengthens them is "
        "not yet known."
    ),
    **dict.fromkeys(
        (
            "largest median width of intervals of a slope of counts over an oracle's, n rho and counts from 1,000",
            "largest share of fits of counts that name a term as mostly noise, n rho and counts from 1,000",
        ),
        _LIGHT_TAILS,
    ),
    "least coverage of 95% intervals of a slope, least squares by iterations: wrong models with rows far out": (
        "If the mean function bends beyond the bound of a regressor, a dozen rows determine the best linear predictor. "
        "Noise hides so few rows, and nothing in the release can reveal them. Declare bounds that contain the rows, or "
        "transform the regressor."
    ),
    "least coverage of 95% intervals: descriptions": (
        "Variances of five hundred rows at a large budget: the standard error is estimated from fourth powers, which "
        "few rows and noise blur. With 2,000 rows they hold."
    ),
    "largest mean width over the oracle's where kappa is at least 3: descriptions": (
        "Real columns with many zeros or a long tail, codebook bounds far beyond most values and a public number of "
        "rows: noise in the sum of squares blurs the variance, and the interval allows for one that noise made too "
        "small."
    ),
    "largest mean width over the oracle's where kappa is at least 3: second moments": (
        "Four cells of skewed columns (exponential, lognormal) with bounds four times too wide: noise in the fourth "
        "moments hides the variance of the estimate, and the interval allows for a variance that noise made too small."
    ),
    "largest mean width over the oracle's where kappa is at least 3: means and proportions by person": (
        "Two hundred people, mostly with three or five rows each, and noise of up to five times the sampling error: "
        "the noise hides the variance between people, and the interval allows for that. With 2,000 people all cells "
        "hold."
    ),
    "least pointwise coverage of 95% intervals, best fixed bins": (
        "Two cells, with bins of about a dozen rows, under one Laplace draw: counts and noise are integers, so "
        "coverage oscillates with the expected count, as for every interval for counts. The mean over bins is "
        "above .95."
    ),
    "largest mean width over the oracle's where noise does not dominate: continuous=True": (
        "Three cells at the lowest percentile of a skewed column with bounds ten times too wide: a leaf of the tree is "
        "wider than the interval, and values are assumed to be uniform within it."
    ),
    **dict.fromkeys(
        ("logit / statsmodels", "logit on five columns / the faster bare scan"),
        _PASSES_OF_A_LOGIT,
    ),
    **dict.fromkeys(
        (
            "OLS from cross-products / statsmodels",
            "OLS from cross-products / X'X alone",
            "group mean / pandas groupby",
            "Gram of ten columns / the faster bare scan",
        ),
        _PASSES,
    ),
    "simulated OLS by iterations, a second": _FIXED,
    "mannwhitneyu / scipy": _NULLS,
    "sample_aggregate by statsmodels / the same fits bare, by formula": (
        "Near the limit: each block is fitted in a process that cannot tell anything of its rows, which takes a start "
        "and a check."
    ),
    "largest error of a chosen median over a choice with the whole budget: n public, middle population": (
        "A hundred rows at epsilon .5: even the whole budget does not tell the median there, and a few draws near the "
        "end of a wide range decide the root mean squared error. Where the whole budget does, the split costs at most "
        "a factor of about two."
    ),
    "median / numpy.sort": (
        "Beside counting rows there is exact noise, for the tree of counts behind the interval, and the choice itself: "
        "the table shows the share of noise."
    ),
    "coverage study / bare loop in numpy, drawing and X'X alone": (
        "A study encodes the columns of every data set as a release does; the bare loop multiplies them as they are."
    ),
    "memory of median beyond the columns, MB": (
        "The exponential mechanism sorts four bytes a row, of 40 million rows, in memory mapped to a file, whose "
        "resident pages are counted. The system can reclaim them."
    ),
    "megabytes above the peak at 10,000,000 rows (at most 40)": (
        "Only the median: the exponential mechanism sorts four bytes a row in memory mapped to a file, and resident "
        "pages of the file are counted. The system can reclaim them; other memory grows by a third of that."
    ),
    "largest error over a peer's at equal budget and neighbouring relation: medians": (
        "A quarter of the budget selects the point; three quarters pay for the tree of counts behind the interval. "
        "Peers report no interval and select with the whole budget. If the number of rows is public and too small for "
        "the tree to be informative, selection gets nine tenths; if it is confidential this cannot be known. With more "
        "rows or a larger budget nothing is lost."
    ),
    "largest error over a peer's at equal budget and neighbouring relation: logits": (
        "Pure budgets at which estimates are mostly noise. Objective perturbation spends all on one point, and its "
        "penalty, chosen afterwards in its favour, shrinks it to zero, which is close to the truth. Ours pays for "
        "scales, counts of lengths, a Hessian and products of scores, too, which its intervals need. The larger the "
        "budget, the less that matters."
    ),
}
