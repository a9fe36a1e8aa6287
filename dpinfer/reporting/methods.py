"""The methods of a page as prose: what was paid, declared, measured and inferred, taken from releases and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import dpinfer._version as version
from dpinfer.display.report import count, listed, number
from dpinfer.privacy.accounting import power_bound
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP
from dpinfer.release.laws import CHOICES
from dpinfer.reporting.estimators import estimated, inferred
from dpinfer.results.total_cost import totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.laws import StageRelease
    from dpinfer.release.release import Release
    from dpinfer.reporting.attached import AttachedRelease
    from dpinfer.reporting.reading import Entry
    from dpinfer.reporting.references import Citations
    from dpinfer.results.total_cost import Total
    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema

__all__ = ["NEIGHBOURS", "methods_paragraphs", "power_sentence", "unprotected"]

NEIGHBOURS = {
    "add_remove": "one of them has {one} more than the other",
    "replace_one": "they differ in {one}",
}
"""What neighbours are, with the unit of protection in place of ``{one}``."""

_MEASURES = {
    PureDP: ("epsilon-differential privacy", ()),
    ZCDP: ("zero-concentrated differential privacy", ("bun2016",)),
    GDP: ("Gaussian differential privacy", ("dong2022",)),
    ApproxDP: ("(epsilon, delta)-differential privacy", ("dwork2006b",)),
}
_LAWS = {
    "gaussian": ("discrete Gaussian noise", ("canonne2020",)),
    "laplace": ("discrete Laplace noise", ("dwork2006", "ghosh2012")),
    "tulap": ("Tulap noise", ("awan2018",)),
    "gumbel": ("a choice by the exponential mechanism", ("mcsherry2007",)),
    "exponential": ("a choice by permute-and-flip", ("mckenna2020",)),
    "above": ("comparing with thresholds by the sparse vector technique", ("lyu2017",)),
}
_SHOWN = 10
"""Columns whose bounds a paragraph names; of more it points to the table."""


def methods_paragraphs(
    entries: Sequence[Entry], attached: Sequence[AttachedRelease], schemas: Sequence[Schema], cite: Citations
) -> list[str]:
    """Return the paragraphs, which cite what was really used."""
    releases = [one.release for one in attached]
    found = [
        _privacy(entries, releases, cite),
        _declared(schemas),
        _measured(attached, cite),
        estimated(entries, cite),
        inferred(entries, cite),
        f"Computations were made with dpinfer {version.__version__}, on statsmodels ({cite('seabold2010')}).",
    ]
    return [one for one in found if one]


def power_sentence(total: Total) -> str:
    """Say what a cost means: the power of a test of whether a unit is in the data; empty where nothing is proved."""
    cost = total.cost
    power = 1.0 if cost is None else power_bound(cost)
    if power >= 1:
        return ""
    what = (
        f"whether {_unit(total.unit)} is in the data"
        if total.neighbors == "add_remove"
        else f"which of two possible values {_unit(total.unit)} has"
    )
    return (
        f"A test at level 5% of {what}, by somebody who sees these releases and knows all other rows, has a power of "
        f"{np.ceil(1000 * power) / 10:g}% at most"
    )


def _unit(unit: str) -> str:
    return "one row" if unit == "one row" else "one person"


def _privacy(entries: Sequence[Entry], releases: Sequence[Release], cite: Citations) -> str:
    """Say what was protected, what was paid, and what is not protected."""
    sums = totals([one for entry in entries for one in entry.releases])
    if not sums:
        return _simulated(releases)
    told = []
    for total in sums:
        name = "the confidential data" if total.dataset is None else f"the confidential data set '{total.dataset}'"
        kinds = dict.fromkeys(type(cost.price) for cost in total.costs)
        measures = listed([_cited(*_MEASURES[kind], cite) for kind in kinds])
        relation = NEIGHBOURS[total.neighbors].format(one=_unit(total.unit))
        kept = "" if total.unit == "one row" else f" ({total.unit}; further rows of a person were left out)"
        many = "one release" if total.count == 1 else f"{count(total.count)} releases"
        first = (
            f"The private results on this page were computed from {many} of {name} alone, under {measures}, a form of "
            f"differential privacy ({cite('dwork2006')}). Data sets are neighbours if {relation}{kept}."
        )
        told.append(f"{first} {_paid(total, cite)}")
    return " ".join([*told, *unprotected(entries)])


def unprotected(entries: Sequence[Entry]) -> list[str]:
    """Say which columns of tables are ordinary results, which no guarantee covers; nothing where there are none."""
    names = [f"“{name}”" for entry in entries for name in getattr(entry.given, "ordinary", ())]
    if not names:
        return []
    told = "The columns {} show ordinary results" if len(names) > 1 else "The column {} shows an ordinary result"
    return [f"{told.format(listed(names))}, which no guarantee covers."]


def _paid(total: Total, cite: Citations) -> str:
    """State the price with its (epsilon, delta), and what it means."""
    subject = "Together they cost" if total.count > 1 else "It cost"
    price = total.costs[0].price
    if len(total.costs) == 1:
        words = price.describe() if total.exact else f"at most {price.describe()}"
    else:
        words = total.words.removesuffix(".")
    converted = {ZCDP: "canonne2020", GDP: "dong2022"}.get(type(price))
    how = f" ({cite(converted)})" if converted and len(total.costs) == 1 else ""
    power = power_sentence(total)
    meaning = f" {power} ({cite('wasserman2010', 'dong2022')})." if power else ""
    return f"{subject} {words}{how}.{meaning}"


def _simulated(releases: Sequence[Release]) -> str:
    if not releases:
        return ""
    return (
        "What is shown was simulated from data declared as public, with the noise that a private release would carry: "
        "it is not a private release, and carries no guarantee."
    )


def _cited(words: str, keys: tuple[str, ...], cite: Citations) -> str:
    return f"{words} ({cite(*keys)})" if keys else words


def _declared(schemas: Sequence[Schema]) -> str:
    """Say what is declared as public, and what the guarantee assumes of it, which no program can check."""
    columns = {name: column for schema in schemas for name, column in schema.items()}
    if not columns:
        return ""
    begun = (
        "Types, bounds and levels of columns, the questions and their prices are declared as public: the guarantee "
        "assumes that they come from public knowledge or from earlier releases, and not from the rows"
    )
    told_apart = dict.fromkeys(repr(schema.people.id) for schema in schemas if schema.people is not None)
    if told_apart:
        begun += f"; and that all rows of a person have the same value of {listed(told_apart)}"
    bounded = {name: one for name, one in columns.items() if hasattr(one, "lower")}
    told = ""
    if 0 < len(bounded) <= _SHOWN:
        ranges = listed([f"{name} {one.describe()}" for name, one in bounded.items()])
        told = f" Numbers outside their declared range were moved to its nearest bound: {ranges}."
    elif bounded:
        told = f" Numbers of {count(len(bounded))} columns were moved into their declared ranges, listed above."
    return f"{begun}.{told}{_left_out(columns)}"


def _left_out(columns: dict[str, Column]) -> str:
    missing = [name for name, one in columns.items() if one.missing == "drop"]
    replaced = [name for name in columns if name not in missing]
    told = (
        " A row with a missing or impossible value in a column that an analysis reads was left out of it"
        if missing
        else ""
    )
    if not replaced:
        return f"{told}."
    many = listed(replaced) if len(replaced) <= _SHOWN else f"{count(len(replaced))} columns"
    instead = f"missing values of {many} were replaced by a declared constant"
    return f"{told}; {instead}." if told else f" {instead[0].upper()}{instead[1:]}."


def _measured(attached: Sequence[AttachedRelease], cite: Citations) -> str:
    """Say what each release added to what."""
    if not attached:
        return ""
    told = [f"Release {one.place} ({one.release.question['text']}) {_held(one.release, cite)}." for one in attached]
    summed = (
        "Bounded contributions of rows were scaled to whole numbers and summed exactly, and noise of whole numbers was "
        "added to the sums, so that the guarantee does not rest on floating-point arithmetic. "
    )
    noisy = any(stage.law.family not in CHOICES for one in attached for stage in one.release.stages)
    return (summed if noisy else "") + " ".join(told)


def _held(release: Release, cite: Citations) -> str:
    """Say what a release holds: noisy numbers with the size of their noise, and outcomes of choices."""
    chosen = dict.fromkeys(stage.law.family for stage in release.stages if stage.law.family in CHOICES)
    noisy = [stage for stage in release.stages if stage.law.family not in CHOICES]
    parts = [f"the outcome of {_cited(*_LAWS[family], cite)}" for family in chosen]
    if noisy:
        size = sum(len(stage.values) for stage in noisy)
        rounds = f" in {len(noisy)} rounds" if len(noisy) > 1 else ""
        laws = listed([_cited(*_LAWS[family], cite) for family in dict.fromkeys(stage.law.family for stage in noisy)])
        numbers = "number" if size == 1 else "numbers"
        parts.append(f"{count(size)} noisy {numbers}{rounds}, with {laws}{_spread(noisy)}")
    return f"holds {listed(parts)}"


def _spread(noisy: Sequence[StageRelease]) -> str:
    """Say how large the noise is, in the units of the numbers."""
    variances = np.concatenate([stage.noise_variances for stage in noisy])
    spread = np.sqrt(variances[variances > 0])
    if not spread.size:
        return ""
    low, high = number(float(spread.min()), 3), number(float(spread.max()), 3)
    return f", of standard deviation {low}" + ("" if low == high else f" to {high} in the units of the sums")
