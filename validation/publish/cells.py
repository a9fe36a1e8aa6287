"""One cell of a committed table computed anew: what each script does for it, from the same seed and replicates."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pandas as pd
from joblib import Parallel

import dpinfer as dpi
from dpinfer.studies import Rules, StudyResults
from dpinfer.studies.simulation import Design, run_block
from validation.blocks import aggregate_coverage
from validation.bootstrap import bootstrap_coverage
from validation.common.outputs import OUTPUT
from validation.descriptions import descriptions_coverage, proportion_exact
from validation.families import efficiency, expfam_coverage, expfam_published
from validation.people import people_coverage, people_designs, people_inference
from validation.regression import ols_coverage
from validation.scripts import module_of
from validation.selection import cdf_band, density_error, quantile_coverage, quantile_error
from validation.tests import association, chisquare_power, chisquare_size, mean_tests, regression_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from validation.common.judging import Case
    from validation.common.outputs import Options

Row = dict[str, Any]
RULES = Rules()


def matching(rows: list[Row], cell: Mapping[str, str], keys: tuple[str, ...]) -> Row:
    """Return the only row whose keys are printed as those of a cell."""
    (found,) = (row for row in rows if all(str(row[key]) == cell[key] for key in keys))
    return found


def studied(design: Design, n: int) -> StudyResults:
    """Study one number of rows of a design, on the streams that it has among the others."""
    mine = [task for task in design.tasks if design.n[task.size] == n]
    return StudyResults(design, [(task, run_block(design, task)) for task in mine])


# Coverage studies


@cache
def asked_cases(script: str) -> list[Case]:
    """The cases of a script."""
    module = {"expfam_coverage": expfam_coverage, "descriptions_coverage": descriptions_coverage}[script]
    found: list[Case] = module.cases()
    return found


def of_case(script: str, cell: Mapping[str, str], arguments: Options) -> Row:
    """A cell of the scripts that are judged together."""
    tasks = [(case, neighbors) for case in asked_cases(script) for neighbors in case.neighbors]
    ((index, case),) = (
        (index, case)
        for index, (case, neighbors) in enumerate(tasks)
        if (case.name, case.bounds, neighbors) == (cell["design"], cell["bounds"], cell["neighbors"])
    )
    design = Design(
        generate=case.generate,
        procedure=case.procedure,
        schema=case.schema(cell["neighbors"]),
        truth=dict(case.truth),
        n=case.n,
        privacy=case.privacy,
        neighbors=cell["neighbors"],  # type: ignore[arg-type]
        replicates=arguments.replicates,
        level=case.level,
        seed=arguments.seed + 100 * index,
    )
    rows = studied(design, int(cell["n"])).cells.to_dict("records")
    return matching(rows, cell, ("privacy", "term"))


def of_ols(cell: Mapping[str, str], arguments: Options) -> Row:
    """The worst slope, and the contrast, of a regression."""
    kinds = [(kind, relation) for kind in ols_coverage.kinds() for relation in ("add_remove", "replace_one")]
    ((index, kind),) = (
        (index, kind)
        for index, (kind, relation) in enumerate(kinds)
        if (kind.regressors, str(kind.slopes), relation) == (cell["regressors"], cell["slopes"], cell["neighbors"])
        and int(cell["n"]) in kind.sizes
    )
    design = Design(
        generate=kind,
        procedure=dpi.ols("y ~ " + " + ".join(kind.names), method="gram"),
        schema=kind.schema(cell["neighbors"]),
        truth=kind.truth,
        n=kind.sizes,
        privacy=kind.prices,
        neighbors=cell["neighbors"],  # type: ignore[arg-type]
        replicates=arguments.replicates,
        level=0.95,
        seed=arguments.seed + 100 * index,
        contrasts=kind.contrasts,
    )
    study = studied(design, int(cell["n"])).cells
    mine = study[(study["privacy"] == cell["price"]) & study["truth"].notna()]
    slope, contrast = (mine[mine["term"].isin(kind.names) == held] for held in (True, False))
    return {
        "kappa": mine["kappa"].iloc[0],
        "coverage": slope["coverage"].min(),
        "contrast coverage": contrast["coverage"].min(),
        "width / oracle": mine["width / oracle"].max(),
        "width / ordinary": slope["width / ordinary"].mean(),
        "unbounded": mine["unbounded"].max(),
        "flagged": mine["flagged"].iloc[0],
    }


def of_slope_test(cell: Mapping[str, str], arguments: Options) -> Row:
    """Size, or power, of the slope test."""
    n, b = int(cell["n"]), float(cell["b"])
    replicates = arguments.replicates if b else 4 * arguments.replicates
    found: Row = ols_coverage.slope_test(n, b, replicates, arguments.seed, 1)
    return found


def of_published(cell: Mapping[str, str], arguments: Options) -> Row:
    """A design of others."""
    (one,) = (one for one in expfam_published.comparisons() if one.name == cell["design"])
    return matching(expfam_published.measure(one, arguments), cell, ("parameter",))


def of_efficiency(cell: Mapping[str, str], arguments: Options) -> Row:
    """Variance over the Cramer-Rao bound."""
    (law,) = (law for law in expfam_coverage.LAWS if law.family == cell["family"])
    return matching(efficiency.measure(law, arguments), cell, ("parameter", "n"))


def of_proportion(cell: Mapping[str, str], arguments: Options) -> Row:  # noqa: ARG001
    """Exact coverage and width of a proportion's interval."""
    script, keys = proportion_exact, ("n", "theta")
    epsilon = float(cell["epsilon"])
    covered = script.coverages(epsilon, script.SIZES, script.PROPORTIONS).to_dict("records")
    widths = script.widths(int(cell["n"]), epsilon).to_dict("records")
    return {**matching(covered, cell, keys), **matching(widths, cell, keys)}


# Tests


def of_association(cell: Mapping[str, str], arguments: Options) -> Row:
    """An effect size, or the residuals of a table."""
    script = association
    grid = script.product(script.populations(), script.SIZES, script.PRICES, script.FAMILIES, (False, True))
    for index, (population, n, rho, family, public) in enumerate(grid):
        asked = (population.design, f"{population.effect:g}", str(n), f"{rho:g}", family)
        if asked == tuple(cell[key] for key in ("design", "effect", "n", "rho", "noise")) and public == (
            cell["n is"] == "public"
        ):
            found = script.measure(population, n, rho, family, public, arguments, index)
            return matching(found, cell, ("quantity",))
    raise LookupError(str(cell))


def of_chisquare_size(cell: Mapping[str, str], arguments: Options) -> Row:
    """Size of a chi-squared test."""
    keys = ("test", "levels", "cells", "n", "price", "neighbors")
    for place, one in enumerate(chisquare_size.grid()):
        asked = (one.test, "x".join(map(str, one.shape)), one.cells, str(one.n), str(one.price), one.neighbors)
        if asked == tuple(cell[key] for key in keys):
            seed = arguments.seed + 1000 * place
            found = chisquare_size.measure(one, arguments.replicates, seed, "first")
            return matching(found, cell, ("statistic", "level"))
    raise LookupError(str(cell))


def of_chisquare_power(cell: Mapping[str, str], arguments: Options) -> Row:
    """A known power."""
    script = chisquare_power
    ((place, point),) = (
        (place, point)
        for place, point in enumerate(script.POINTS)
        if (point.name, str(point.n), f"{point.rho:g}") == (cell["design"], cell["n"], cell["rho"])
    )
    with mock.patch.object(script, "POINTS", (point,)):
        found: Row = script.known_powers(replace(arguments, seed=arguments.seed + place)).to_dict("records")[0]
    return found


@cache
def mean_sizes(arguments: Options) -> list[Row]:
    """Sizes of all tests of means: they share one stream."""
    found: list[Row] = mean_tests.sizes_of(arguments).to_dict("records")
    return found


def of_mean_test(cell: Mapping[str, str], arguments: Options) -> Row:
    """Size of a test of means."""
    return matching(mean_sizes(arguments), cell, ("test", "alternative", "rows", "values", "price", "neighbors"))


def of_regression_test(cell: Mapping[str, str], arguments: Options) -> Row:
    """Size of a joint test of slopes."""
    script, keys = regression_tests, ("regressors", "slopes", "tested", "neighbors")
    (kind,) = (
        kind
        for kind in script.KINDS
        if (kind.name, str(kind.slopes), str(kind.tested), kind.neighbors) == tuple(cell[key] for key in keys)
    )
    return matching(script.sizes(kind, int(cell["n"]), arguments.replicates, arguments.seed), cell, ("price",))


# People


@cache
def people_at(place: int) -> Any:
    """What one person adds on average, from as many people as in a full run."""
    return people_inference.population(place, 1000)


def of_people(cell: Mapping[str, str], arguments: Options) -> Row:
    """A question about people; the first price comes along, since it says how many data sets are drawn."""
    script = people_coverage
    place = [one.name for one in people_designs.DESIGNS].index(cell["design"])
    price = [str(one) for one in script.PRICES].index(cell["price"])
    asked = (cell["quantity"], int(cell["max_rows"]), cell["neighbors"])
    cells = [(*asked, one) for one in sorted({0, price})]
    rows = script.study(place, int(cell["n"]), cells, people_at(place), arguments, again=False)
    table = script.judge(rows)
    return matching(table.to_dict("records"), cell, ("term", "price"))


# Stages, blocks, bootstraps


def of_quantile(cell: Mapping[str, str], arguments: Options) -> Row:
    """Coverage of a quantile's interval."""
    script = quantile_coverage
    for cells in script.all_cells(quick=False):
        one = cells[0]
        here = (one.source.name, one.source.bounds, "default" if one.default else "tree", str(one.n))
        if here == tuple(cell[key] for key in ("population", "bounds", "method", "n")):
            least = RULES.least_coverage(arguments.replicates, 1 - script.ALPHA)
            found = script.study(cells, arguments.replicates, arguments.seed, least, "first", Parallel(n_jobs=1))
            return matching(found.to_dict("records"), cell, ("ends", "price", "neighbors", "q"))
    raise LookupError(str(cell))


def of_band(cell: Mapping[str, str], arguments: Options) -> Row:
    """Coverage of a distribution function's band."""
    script, keys = cdf_band, ("population", "n", "price", "neighbors")
    ((place,),) = (
        (place,)
        for place, one in enumerate(script.DESIGNS)
        if (one.source.name, str(one.n), str(one.price), one.neighbors) == tuple(cell[key] for key in keys)
    )
    least = RULES.least_coverage(arguments.replicates, 1 - script.ALPHA)
    return script.study(place, arguments.replicates, arguments.seed, least, "first", Parallel(n_jobs=1))


def of_quantile_error(cell: Mapping[str, str], arguments: Options) -> Row:
    """Error of a private quantile."""
    script = quantile_error
    (population,) = (one for one in script.studied() if (one.name, one.bounds) == (cell["population"], cell["bounds"]))
    place, n = script.studied().index(population), int(cell["n"])
    count = max(round(script.SHARES[n] * arguments.replicates), 4)
    parts = [range(start, min(start + script.CHUNK, count)) for start in range(0, count, script.CHUNK)]
    found = np.concatenate([script.errors(place, n, one, arguments.seed) for one in parts])
    mine = found[:, [str(one) for one in script.PRICES].index(cell["price"]), script.METHODS.index(cell["method"])]
    size = np.sqrt((mine**2).mean(axis=0))
    return {"median": size[1], "quartiles": np.sqrt((size[[0, 2]] ** 2).mean())}


def of_density(cell: Mapping[str, str], arguments: Options) -> Row:
    """Error of chosen bins."""
    script = density_error
    (design,) = (one for one in script.DESIGNS if one.name == cell["design"])
    ((n, price),) = (
        (n, price)
        for path, pairs in script.paths()
        for n, price in pairs
        if (path, str(n)) == (cell["path"], cell["n"])
    )
    part = max(int(arguments.replicates * script.AUTO_PART), 20)
    return script.error_cell(design, n, price, cell["path"], part, arguments.seed)


def of_blocks(cell: Mapping[str, str], arguments: Options) -> Row:
    """A parameter from secret blocks."""
    script = aggregate_coverage
    for cells in script.groups():
        one = cells[0]
        if (script.POPULATIONS[one.population].name, str(one.n), str(one.blocks)) == tuple(
            cell[key] for key in ("design", "n", "blocks")
        ):
            found = script.study(cells, arguments.replicates, arguments.seed, 1)
            return matching(found, cell, ("price", "aggregator", "correction", "parameter"))
    raise LookupError(str(cell))


def of_bootstrap(cell: Mapping[str, str], arguments: Options) -> Row:
    """A bootstrap, end to end."""
    script, keys = bootstrap_coverage, ("design", "n", "replicates B", "price")
    ((place,),) = (
        (place,)
        for place, one in enumerate(script.DESIGNS)
        if (one.name, str(one.n), str(one.asked.replicates), str(one.price)) == tuple(cell[key] for key in keys)
    )
    return script.study(place, replace(arguments, jobs=1), again=False)


def of_cost(cell: Mapping[str, str], arguments: Options) -> Row:  # noqa: ARG001
    """The exact cost of a bootstrap."""
    found: Row = dpi.privacy_cost(int(cell["replicates"]), float(cell["mu"])).frame.to_dict("records")[0]
    return found


# All of a script


@cache
def claims_of(script: str, arguments: Options) -> list[Row]:
    """Claims of a script, run as a whole; its tables go to a folder of their own."""
    return [vars(claim) for claim in import_module(module_of(script)).run(arguments)]


def of_claim(script: str, cell: Mapping[str, str], arguments: Options) -> Row:
    """A claim of a script that keeps no table, or whose cells share a stream."""
    return matching(claims_of(script, arguments), cell, ("what", "design"))


# What is committed


def table_of(name: str) -> pd.DataFrame:
    """Return the first runs of a committed table, as it is printed."""
    path = OUTPUT / f"{name}.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False) if path.exists() else markdown_of(name)
    return table[table["run"] == "first"] if "run" in table else table


def markdown_of(name: str) -> pd.DataFrame:
    """Return the table of a committed page."""
    lines = [line for line in (OUTPUT / f"{name}.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return pd.DataFrame(cells[2:], columns=cells[0])


def claims_in_results(script: str) -> pd.DataFrame:
    """Return the committed claims of a script."""
    table = pd.read_csv(OUTPUT.parent / "results.csv", dtype=str, keep_default_na=False)
    return table[table["script"] == script]


WHOLE = ("naive_average", "laplace_average", "equipartition", "binomtest_exact", "chisquare_pvalues",
         "bootstrap_source", "aggregate_bias", "aggregate_efficiency")  # fmt: skip
"""Scripts that are run as a whole, and compared by their claims."""

ONE: dict[str, Callable[[Mapping[str, str], Options], Row]] = {
    "ols_coverage": of_ols,
    "ols_slope_test": of_slope_test,
    "expfam_coverage": lambda cell, arguments: of_case("expfam_coverage", cell, arguments),
    "expfam_published": of_published,
    "efficiency": of_efficiency,
    "descriptions_coverage": lambda cell, arguments: of_case("descriptions_coverage", cell, arguments),
    "proportion_exact": of_proportion,
    "association": of_association,
    "chisquare_size": of_chisquare_size,
    "chisquare_power": of_chisquare_power,
    "mean_tests": of_mean_test,
    "regression_tests": of_regression_test,
    "people_coverage": of_people,
    "bootstrap_cost": of_cost,
    "quantile_coverage": of_quantile,
    "cdf_band": of_band,
    "quantile_error": of_quantile_error,
    "density_error": of_density,
    "aggregate_coverage": of_blocks,
    "bootstrap_coverage": of_bootstrap,
}
"""Tables whose cells are computed one by one, with what computes one."""
