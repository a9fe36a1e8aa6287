"""The methods section of a page: privacy, declarations, measurements, estimates, inference and references.

All of it comes from releases and results. The sentences, and the works that they cite, are those of
`dpinfer.results.citing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

import dpinfer._version as version
from dpinfer.display.report import count, listed, number
from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.accounting import Cost, power_bound
from dpinfer.privacy.exact import float_above
from dpinfer.privacy.units import GDP, ZCDP
from dpinfer.release.laws import CHOICES
from dpinfer.results.citing import SAID, TEXTS, Citations, estimated, inferred

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpinfer.privacy.units import Privacy
    from dpinfer.release.release import AnyRelease, Release
    from dpinfer.reporting.page import Entry
    from dpinfer.schema.schema import Schema

    _Bill = tuple[frozenset[str], Sequence[Cost]]
    """Charges, and what they cost together."""

__all__ = ["Total", "charges_of", "methods_paragraphs", "total_notes", "totals", "unprotected"]

# What is said

_NEIGHBOURS = {"add_remove": "one of them has {one} more than the other", "replace_one": "they differ in {one}"}
"""What neighbours are, with the unit of protection in place of ``{one}``."""

_SHOWN = 10
"""Columns whose bounds a paragraph names; of more it points to the table."""

# The paragraphs


def methods_paragraphs(
    entries: Sequence[Entry], releases: Sequence[Release], schemas: Sequence[Schema], cite: Citations
) -> list[str]:
    """Return the paragraphs, which cite the methods used; ``releases`` are numbered in this order."""
    found = [
        _privacy(entries, releases, cite),
        _declared(schemas),
        _measured(releases, cite),
        _together((entry.heading, estimated(entry.given, entry.releases, cite)) for entry in entries),
        _together((entry.heading, inferred(entry.given, cite)) for entry in entries),
        cite.fill(f"Computations were made with dpinfer {version.__version__}, on statsmodels ({{seabold2010}})."),
    ]
    return [one for one in found if one]


def unprotected(entries: Sequence[Entry]) -> list[str]:
    """Name the table columns with ordinary results, which no guarantee covers; empty if there are none."""
    names = [f"“{name}”" for entry in entries for name in getattr(entry.given, "ordinary", ())]
    if not names:
        return []
    shown = "The columns {} show ordinary results" if len(names) > 1 else "The column {} shows an ordinary result"
    return [f"{shown.format(listed(names))}, which no guarantee covers."]


def _privacy(entries: Sequence[Entry], releases: Sequence[Release], cite: Citations) -> str:
    """Describe the protection, the privacy loss and its meaning, and what is not protected."""
    sums = totals([one for entry in entries for one in entry.releases])
    if not sums and releases:
        return SAID["simulated"]
    sentences = []
    for total in sums:
        name = "the confidential data" if total.dataset is None else f"the confidential data set '{total.dataset}'"
        kinds = dict.fromkeys(type(cost.price) for cost in total.costs)
        measures = listed([cite.fill(TEXTS["measures"][kind.__name__]) for kind in kinds])
        bounded = "" if total.one == total.unit else f" ({total.unit}; further rows of a person were left out)"
        many = "one release" if total.count == 1 else f"{count(total.count)} releases"
        words = {"many": many, "name": name, "measures": measures, "relation": total.relation, "bounded": bounded}
        sentences.append(cite.fill(SAID["computed"], **words))
        if len(total.costs) == 1:
            price, most = total.costs[0].price, "" if total.exact else "at most "
            how = {ZCDP: "({canonne2020})", GDP: "({dong2022})"}.get(type(price), "")
            who = "Together they cost" if total.count > 1 else "It cost"
            sentences.append(f"{f'{who} {most}{price.describe()} {cite.fill(how)}'.rstrip()}.")
        else:
            sentences.append(f"{total.words[0].upper()}{total.words[1:]}")
        if total.power:
            sentences.append(f"{total.power} ({cite('wasserman2010', 'dong2022')}).")
    return " ".join([*sentences, *unprotected(entries)]) if sums else ""


def _declared(schemas: Sequence[Schema]) -> str:
    """Describe the public declarations, and the assumptions about them that no program can check."""
    columns = {name: column for schema in schemas for name, column in schema.items()}
    if not columns:
        return ""
    text = SAID["declared"]
    ids = dict.fromkeys(repr(schema.people.id) for schema in schemas if schema.people is not None)
    text += f"; and that all rows of a person have the same value of {listed(ids)}." if ids else "."
    bounded = {name: one for name, one in columns.items() if hasattr(one, "lower")}
    if 0 < len(bounded) <= _SHOWN:
        ranges = listed([f"{name} {one.describe()}" for name, one in bounded.items()])
        text += f" Numbers outside their declared range were clipped to the nearest bound: {ranges}."
    elif bounded:
        text += f" Numbers of {count(len(bounded))} columns were clipped to their declared ranges, listed above."
    replaced = [name for name, one in columns.items() if one.missing != "drop"]
    if len(replaced) < len(columns):
        text += f" {SAID['dropped']}{'; missing' if replaced else ''}"
    else:
        text += " Missing"
    if replaced:
        many = listed(replaced) if len(replaced) <= _SHOWN else f"{count(len(replaced))} columns"
        text += f" values of {many} were replaced by a declared constant"
    return f"{text}."


def _measured(releases: Sequence[Release], cite: Citations) -> str:
    """Describe the noise added in each release, and the outcomes of choices."""
    text, sentences = "", []
    for place, release in enumerate(releases, 1):
        chosen = dict.fromkeys(stage.law.family for stage in release.stages if stage.law.family in CHOICES)
        noisy = [stage for stage in release.stages if stage.law.family not in CHOICES]
        parts = [f"the outcome of {cite.fill(TEXTS['laws'][family])}" for family in chosen]
        if noisy:
            text = f"{SAID['summed']} "
            size = sum(len(stage.values) for stage in noisy)
            rounds = f" in {len(noisy)} rounds" if len(noisy) > 1 else ""
            laws = listed(
                [cite.fill(TEXTS["laws"][family]) for family in dict.fromkeys(stage.law.family for stage in noisy)]
            )
            parts.append(f"{count(size)} noisy {'number' if size == 1 else 'numbers'}{rounds}, with {laws}")
            spread = np.sqrt(np.concatenate([stage.noise_variances for stage in noisy]))
            if (spread > 0).any():
                low, high = number(float(spread[spread > 0].min()), 3), number(float(spread.max()), 3)
                parts[-1] += f", of standard deviation {low}"
                parts[-1] += "" if low == high else f" to {high} in the units of the sums"
        sentences.append(f"Release {place} ({release.question['text']}) holds {listed(parts)}.")
    return text + " ".join(sentences)


def _together(texts: Iterable[tuple[str, str]]) -> str:
    """Group results with the same description, and name them if there are several groups."""
    given = list(texts)
    groups: dict[str, list[str]] = {}
    for heading, text in given:
        if text:
            groups.setdefault(text, []).append(heading)
    if len(given) == 1:
        return " ".join(groups)
    return " ".join(
        f"For {listed(f'“{name}”' for name in names)}, {text[0].lower() + text[1:]}" for text, names in groups.items()
    )


def charges_of(release: AnyRelease) -> frozenset[str]:
    """Return the ledger's charges for a release; without charges, its identity."""
    return frozenset(release.charge_ids or (f"object {id(release)}",))


@dataclass(frozen=True, slots=True)
class Total:
    """The total privacy cost of releases about the same rows.

    Attributes
    ----------
    dataset : str or None
    neighbors, unit : str
    count : int
        Number of releases, each counted once.
    costs : tuple of Cost
        Sums, one for each unit of privacy.
    exact : bool
        Whether nothing is counted twice; otherwise the sums are upper bounds.
    """

    dataset: str | None
    neighbors: str
    unit: str
    count: int
    costs: tuple[Cost, ...]
    exact: bool

    @property
    def cost(self) -> Cost | None:
        """The single sum, in zCDP if there are several units and all have it; None if there is none."""
        if len(self.costs) == 1:
            return self.costs[0]
        known = [cost.rho for cost in self.costs if cost.rho is not None]
        if len(known) < len(self.costs):
            return None
        rho = reduce(add, known)
        return Cost(ZCDP(float_above(rho)), rho=rho)

    @property
    def one(self) -> str:
        """The difference between neighbouring data sets, in words."""
        return "one row" if self.unit == "one row" else "one person"

    @property
    def relation(self) -> str:
        """The definition of neighbouring data sets, in words."""
        return _NEIGHBOURS[self.neighbors].format(one=self.one)

    @property
    def power(self) -> str:
        """The power of a membership test, in words; empty if no bound is proved."""
        power = 1.0 if self.cost is None else power_bound(self.cost)
        if power >= 1:
            return ""
        added = self.neighbors == "add_remove"
        what = f"whether {self.one} is in the data" if added else f"which of two possible values {self.one} has"
        return SAID["power"].format(what=what, power=f"{np.ceil(1000 * power) / 10:g}")

    @property
    def words(self) -> str:
        """The cost in words."""
        most = "" if self.exact else "at most "
        if len(self.costs) == 1:
            return f"{most}{self.costs[0].describe()}."
        words = f"privacy losses in different units have no single sum. They are {most}"
        words += "; and ".join(cost.describe() for cost in self.costs) + "."
        if self.cost is None:
            return words
        return f"{words} Each also satisfies zCDP, and together they satisfy {most}{self.cost.price.describe()}."


def totals(given: Iterable[AnyRelease]) -> list[Total]:
    """Sum the costs of distinct releases of confidential rows, by data set, neighbouring relation and unit."""
    releases = [release for release in given if not release.public]
    owners = {charge: name for one in releases if (name := one.dataset) is not None for charge in charges_of(one)}
    groups: dict[tuple[str | None, str, str], list[_Bill]] = {}
    for release in releases:
        charges, costs = charges_of(release), release.cost.parts
        known = [owners[charge] for charge in sorted(charges) if charge in owners]
        key = (release.dataset or (known[0] if known else None), release.neighbors, release.unit)
        bills: list[_Bill] = [(charges, costs)]
        if len(release.charge_ids) == len(costs) > 1:  # a combination whose parts are known: one bill each
            bills = [(frozenset({one}), (cost,)) for one, cost in zip(release.charge_ids, costs, strict=True)]
        groups.setdefault(key, []).extend(bills)
    found = []
    for (name, neighbors, unit), bills in groups.items():
        distinct, exact = _paid_once(bills)
        units: dict[type[Privacy], list[Cost]] = {}
        for cost in (cost for _, costs in distinct for cost in costs):
            units.setdefault(type(cost.price), []).append(cost)
        sums: list[Cost] = []
        for same in units.values():
            try:
                sums.append(reduce(add, same))
            except PrivacyUnitError:  # such as a delta above one
                sums += same
        count = len(frozenset[str]().union(*(charges for charges, _ in distinct)))
        found.append(Total(name, neighbors, unit, count, tuple(sums), exact))
    return found


def total_notes(releases: Iterable[AnyRelease]) -> list[str]:
    """State the total cost of distinct releases, and what is not summed."""
    found = totals(releases)
    if not found:
        return []
    notes = []
    for total in found:
        where = "a data set that the releases do not name" if total.dataset is None else f"data set {total.dataset!r}"
        relation = total.neighbors if total.unit == "one row" else f"{total.neighbors}, {total.unit}"
        many = f"{total.count} release{'s' if total.count > 1 else ''}"
        notes.append(f"Total spent by these results on {where} ({relation}), {many}: {total.words}")
    datasets = {total.dataset for total in found}
    if len(datasets) < len(found):
        units = "" if all(total.unit == "one row" for total in found) else " or units"
        notes.append(f"Costs under different neighbours{units} are not summed.")
    if len(datasets) > 1:
        notes.append("Different data sets have a total each; for a person who is in several of them these add up.")
    return [*notes, "The ledger also counts releases that are not shown here."]


def _paid_once(bills: list[_Bill]) -> tuple[list[_Bill], bool]:
    """Return costs that cover every charge, and whether no charge is covered twice."""
    for sign in (1, -1):  # the parts of a combination before it, and it before its parts
        chosen: list[_Bill] = []
        paid: set[str] = set()
        exact = True
        for charges, costs in sorted(bills, key=lambda one: sign * len(one[0])):
            if not charges <= paid:
                exact = exact and not charges & paid
                chosen.append((charges, costs))
                paid |= charges
        if exact:
            break
    return chosen, exact
