"""The measured sections of the README and of the docs, and what makes them of the committed outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from validation.common.pages import Block
from validation.people import people_report
from validation.publish import ordinary_path
from validation.publish import peers as other_packages
from validation.publish.audits import audits, bugs
from validation.publish.claims import claims, fresh, headlines, times
from validation.publish.counts import count_intervals
from validation.publish.declarations import cells, faults
from validation.publish.density import density
from validation.publish.engines import engines
from validation.publish.entry import coverage, first_minutes, margins, noise
from validation.publish.good_instances import good_instances
from validation.publish.loglinear import loglinear, several
from validation.publish.marginals import marginals
from validation.publish.newton import peers, real, speed
from validation.publish.planning import planning, real_rows
from validation.publish.quantiles import quantiles, selection, split
from validation.publish.ranks import ranks
from validation.publish.resampling import aggregate, bootstrap
from validation.publish.rules import rules
from validation.publish.source_errors import errors
from validation.publish.studies import by_design, naive, proportions, published, regression
from validation.publish.tests import tests
from validation.publish.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ROOT", "SECTIONS", "block"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

SECTIONS: dict[tuple[Path, str], Callable[[], str]] = {
    (ROOT / "README.md", "naive"): naive,
    (ROOT / "README.md", "textbook"): other_packages.textbook,
    (ROOT / "README.md", "headlines"): headlines,
    (ROOT / "README.md", "real"): real,
    (DOCS / "claims.md", "claims"): claims,
    (DOCS / "claims.md", "fresh"): fresh,
    (DOCS / "claims.md", "times"): times,
    (DOCS / "regression.md", "coverage"): regression,
    (DOCS / "regression.md", "real"): real,
    (DOCS / "descriptions.md", "descriptions"): lambda: by_design("descriptions_coverage"),
    (DOCS / "descriptions.md", "proportions"): proportions,
    (DOCS / "exponential-families.md", "families"): lambda: by_design("expfam_coverage"),
    (DOCS / "exponential-families.md", "published"): published,
    (DOCS / "benchmark.md", "benchmark"): other_packages.benchmark,
    (DOCS / "benchmark.md", "times-of-peers"): other_packages.times,
    (DOCS / "codebooks.md", "faults"): faults,
    (DOCS / "codebooks.md", "cells"): cells,
    (DOCS / "engines.md", "engines"): engines,
    (DOCS / "entry.md", "first_minutes"): first_minutes,
    (DOCS / "entry.md", "noise"): noise,
    (DOCS / "entry.md", "margins"): margins,
    (DOCS / "entry.md", "coverage"): coverage,
    (DOCS / "tests.md", "tests"): tests,
    (DOCS / "tests.md", "several"): several,
    (DOCS / "loglinear.md", "loglinear"): loglinear,
    (DOCS / "ranks.md", "ranks"): ranks,
    (DOCS / "sample-aggregate.md", "aggregate"): aggregate,
    (DOCS / "bootstrap.md", "bootstrap"): bootstrap,
    (DOCS / "people.md", "people"): people_report.section,
    (DOCS / "selection.md", "selection"): selection,
    (DOCS / "selection.md", "thresholds"): thresholds,
    (DOCS / "marginals.md", "marginals"): marginals,
    (DOCS / "quantiles.md", "quantiles"): quantiles,
    (DOCS / "quantiles.md", "good-instances"): good_instances,
    (DOCS / "quantiles.md", "split"): split,
    (DOCS / "tables.md", "count-intervals"): count_intervals,
    (DOCS / "density.md", "density"): density,
    (DOCS / "regression.md", "peers"): peers,
    (DOCS / "regression.md", "speed"): speed,
    (DOCS / "auditing.md", "audits"): audits,
    (DOCS / "auditing.md", "bugs"): bugs,
    (DOCS / "planning.md", "planning"): planning,
    (DOCS / "planning.md", "real_rows"): real_rows,
    (DOCS / "guide" / "does-your-interval-cover.md", "rules"): rules,
    (DOCS / "sources.md", "errors"): errors,
    (DOCS / "kernel.md", "ordinary"): ordinary_path.section,
}
"""Sections by page and name, with what makes them of the committed outputs: a test compares them."""


def block(page: Path, name: str) -> Block:
    """Return a section of a page."""
    return Block(page, f"<!-- {name}: made by python -m validation.publish -->", f"<!-- end of {name} -->")
