"""Why a claim does not hold, in words; what it measured stands beside it on the page of claims."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "least coverage of 95% intervals within bounds that were found privately: means, gamma families, least squares "
    "from cross-products": (
        "The mean of a lognormal column: of few rows a handful far out make much of it, in octaves that hold fewer "
        "rows than noise lets one see; they are clamped, and the interval does not count that. With more rows it "
        "covers; the median, or a mean of logarithms, does not ask for them. And the slope on a normal "
        "column at n = 1,000: noise leaves one interval in ten determined, and all of these that miss lie below the "
        "slope, as where noise makes the regressor look more spread than it is. Over all releases it is covered."
    ),
    "least coverage of 95% intervals within bounds that were found privately: least squares by rounds": (
        "Skewed regressors: the rows that are clamped are those that weigh most, and what rounds leave of noise is too "
        "little to hide it. Regressions by rounds need no such bounds: give them loose ones."
    ),
    "least coverage of 95% intervals of a slope with the suggested row_norm, own responses of the data": (
        "The mean of randhie is no line: rows that weigh less move the best line, and intervals are about the moved "
        "one. They fall short of the ordinary line without the bound, too, and `explain` says what weights do."
    ),
    "least coverage of 95% intervals of a slope, logit, probit and cloglog by rounds, unflagged": (
        "One cell with many slopes and few ones falls short at the replicates that it has; maximum likelihood without "
        "privacy covered less than stated on an earlier run of the same data sets. Not decided."
    ),
    "cells that hold in all: errors, flagged fits, intercepts and sizes of tests, logit, probit and cloglog": (
        "Slopes of flagged fits with a hundred events or fewer are covered less than stated; the flag names them."
    ),
    "least coverage of 95% intervals of a slope of counts, unmarked fits: means from 0.5": (
        "In one cell, whose counts spread six times as far as their mean, intervals are wider than is asked; all cover."
    ),
    "least coverage of 95% intervals of a slope of counts, unmarked fits: means below 0.5": (
        "Noise hides whether sparse counts spread more than their law, and most such fits are marked: more than are "
        "allowed. Nothing is claimed of counts with a mean below a half."
    ),
    "least coverage of 95% intervals of a slope, least squares by rounds: wrong models with rows far out": (
        "Where the mean bends beyond the bound of a regressor, a dozen rows decide the best line; noise hides so few, "
        "and nothing that is released can tell. Declare bounds that hold the rows, or transform the regressor."
    ),
    "largest median shift from the fit on all rows in standard errors, and largest of these over the robust ones, "
    "Poisson, rho = .5": (
        "Of these counts a few hundred are far beyond the mean, and some rows are far out. Clipping them moved "
        "estimates by up to 0.69 standard errors; where they keep their weight nothing is moved, and noise "
        "in proportion to them doubles standard errors."
    ),
    "largest mean width over the oracle's where kappa is at least 3: descriptions": (
        "The mean of a group of about fifty rows whose number noise blurs by a fifth, under one Laplace draw: noise "
        "multiplies the variance by ten, and the interval allows for the noise in the number of rows (Fieller)."
    ),
    "largest mean width over the oracle's where kappa is at least 3: second moments": (
        "Four cells of skewed columns (exponential, lognormal) with bounds four times too wide: noise in fourth "
        "moments hides how far the estimate spreads, and a variance that noise may have made too small looks like one "
        "that is."
    ),
    "largest mean width over the oracle's where kappa is at least 3: means and proportions by person": (
        "Two hundred people, most cells with three or five rows of each, under noise of up to five times the sampling "
        "error: it hides how far people differ, and what it may hide is counted. With 2,000 people all cells hold."
    ),
    "least pointwise coverage of 95% intervals, best fixed bins": (
        "Bins that hold about a dozen rows, under one Laplace draw: counts and noise are whole numbers, and coverage "
        "jumps with the expected count, as that of every interval for counts does; the mean over bins is above .95."
    ),
    "largest mean width over the oracle's where noise does not dominate: continuous=True": (
        "Three cells at the lowest percentile of a skewed column with bounds ten times too wide: a leaf of the tree is "
        "wider than the interval, and values are taken to lie evenly in it."
    ),
    "sample_aggregate by statsmodels / the same fits bare, by formula": (
        "Rows are dealt to blocks in worker processes, and statsmodels builds a frame for each: the own steps of "
        "`logit` and of least squares are several times faster."
    ),
    "megabytes above the peak at 10,000,000 rows (at most 40)": (
        "The median alone: the exponential mechanism sorts four bytes a row in memory that a file stands behind, and "
        "resident pages of the file are counted. The system may take them back; other memory grows by a third of it."
    ),
    "largest error over a peer's at equal price and neighbours: means": (
        "A part of the price of a mean goes to a sum of squares, which its standard error is made of. A peer that "
        "tells no interval spends all on the mean, which shows where noise is most of the error."
    ),
    "largest error over a peer's at equal price and neighbours: medians": (
        "A quarter of the price chooses the point, three quarters buy the tree of counts that the interval comes from; "
        "peers tell no interval and choose with the whole price. Where the number of rows is public, and says that the "
        "tree could tell nothing, the choice has nine tenths; where it is confidential nobody can know. With more "
        "rows or a larger price nothing is lost."
    ),
    "largest error over a peer's at equal price and neighbours: least squares": (
        "One regressor and 1,000 rows at epsilon 1: noise is as large as what the regressor's spread adds up to, and "
        "the default method, whose rounds divide by it, is thrown far out. Medians of pairwise slopes (Theil-Sen) are "
        "not, nor is diffprivlib's fit. With 10,000 rows dpinfer is the nearest."
    ),
    "largest error over a peer's at equal price and neighbours: logits": (
        "Objective perturbation with a strong penalty, chosen afterwards in its favour, where every estimate is mostly "
        "noise: it is pulled to zero, and zero is near. It tells no standard error."
    ),
}
