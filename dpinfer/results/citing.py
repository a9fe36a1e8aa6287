"""The works behind a result, cited in prose, listed or as BibTeX, and the sentences that cite them.

Sentences and works are in `citing.toml`. What a result cites follows from its release and its class alone.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import dpinfer._version as version
from dpinfer.display.report import count
from dpinfer.release.laws import CHOICES
from dpinfer.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.release import AnyRelease

__all__ = ["REFERENCES", "SAID", "TEXTS", "Citations", "bibtex", "estimated", "inferred"]

TEXTS: dict[str, Any] = tomllib.loads(files("dpinfer.results").joinpath("citing.toml").read_text(encoding="utf-8"))
SAID = {name: " ".join(text.split()) for name, text in TEXTS["sentences"].items()}
_ESTIMATED = {kind: " ".join(one["text"].split()) for one in TEXTS["estimated"] for kind in one["kinds"]}

REFERENCES = {key: (short, " ".join(whole.split())) for key, (short, whole) in TEXTS["references"].items()}
"""How a text cites a work, and how the list names it, by key."""


class Citations:
    """Cites works, and records which were cited."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def __call__(self, *keys: str) -> str:
        """Return an in-text citation of works, without brackets."""
        self.keys.update(keys)
        return "; ".join(REFERENCES[key][0] for key in keys)

    def fill(self, template: str, **words: str) -> str:
        """Replace keys in braces by citations or given words, and line breaks by blanks."""
        text = " ".join(template.split())
        return re.sub(r"{(\w+)}", lambda key: words[key[1]] if key[1] in words else self(key[1]), text)

    @property
    def listed(self) -> list[str]:
        """All works that were cited, in alphabetical order."""
        return sorted(REFERENCES[key][1] for key in self.keys)


# What a result cites


def estimated(given: object, releases: Sequence[AnyRelease], cite: Citations) -> str:
    """Describe how the estimates were computed."""
    release: Any = releases[0] if len(releases) == 1 else None
    question = dict(release.question) if isinstance(release, Release) else {}
    kind = str(question.get("procedure", ""))
    if kind == "quantile" and any(stage.law.family in CHOICES for stage in release.stages):
        kind = "chosen quantile"
    kind = getattr(given, "_estimated_as", "") or kind
    if kind not in ("newton", "choice"):
        return cite.fill(_ESTIMATED.get(kind, ""))
    errors = "assume homoskedastic errors and a correctly specified model"
    if question.get("cov_type") != "nonrobust":
        sources = cite("huber1967", "white1980")
        errors = f"are robust to heteroskedasticity and misspecification ({question.get('cov_type')}; {sources})"
    what = cite.fill(TEXTS["models"].get(str(question["model"]), "Coefficients"))
    words = {"what": what, "formula": str(question["formula"]), "stages": count(len(release.stages)), "errors": errors}
    return cite.fill(SAID["newton"], **words)


def inferred(given: Any, cite: Citations) -> str:
    """Describe the source of intervals and p-values."""
    null = getattr(given, "null", None)  # of a test: how its p-value is made
    if null is not None:
        drawn = given.distribution
        if drawn is None or not drawn.draws:
            return f"The p-value is {null}, privacy noise included."
        return cite.fill(SAID["redrawn"], draws=count(drawn.draws))
    inference = getattr(getattr(given, "results", given), "inference", None)
    counts = TEXTS["counts"].get(getattr(inference, "target", ""), TEXTS["counts"]["population"])
    return cite.fill(TEXTS["inferred"].get(str(getattr(inference, "method", None)), ""), counts=counts)


def _cited(given: Any, cite: Citations) -> None:
    """Cite the works behind a result: the privacy measures, the noise, the estimates and the inference."""
    owner = getattr(given, "results", given)
    release = owner.release
    for one in (release,) if isinstance(release, Release) else release.releases:
        cite("dwork2006")
        cite.fill(TEXTS["measures"][type(one.cost.price).__name__])
        for family in {stage.law.family for stage in one.stages}:
            cite.fill(TEXTS["laws"][family])
    estimated(given, (release,), cite)
    inferred(given, cite)
    if owner is not given:
        _cited(owner, cite)


# BibTeX

_WORK = re.compile(r"(?P<author>.+?) \((?P<year>\d{4})[a-z]?\)\. (?P<title>.+?)\. (?P<source>.+)\.")
_JOURNAL = re.compile(r"(?P<journal>.+?) (?P<volume>\d+)(?:\((?P<number>[^)]+)\))?, (?P<pages>\d+-\d+)")
_PROCEEDINGS = re.compile(r"(?P<booktitle>.+?)(?:, (?P<pages>\d+-\d+))?")
_PACKAGE = {
    "author": "{The dpinfer developers}",
    "title": "{dpinfer}: statistical inference under differential privacy",
    "version": version.__version__,
}


def _entry(kind: str, key: str, fields: dict[str, str | None]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _reference(key: str) -> str:
    """Return a work of the list as a BibTeX entry."""
    work = _WORK.fullmatch(REFERENCES[key][1])
    assert work is not None, key
    source = work["source"]
    fields: dict[str, str | None] = {
        "author": " and ".join(re.split(r"(?<=\.), | & ", work["author"])),
        "title": work["title"],
        "year": work["year"],
    }
    journal, proceedings = _JOURNAL.fullmatch(source), _PROCEEDINGS.fullmatch(source)
    if journal is not None:
        kind, where = "article", journal.groupdict()
    elif source.endswith("Press"):
        kind, where = "book", {"publisher": source}
    elif source == "Manuscript" or proceedings is None:
        kind, where = "unpublished", {"note": source}
    else:
        kind, where = "inproceedings", proceedings.groupdict()
    if where.get("pages"):
        where["pages"] = where["pages"].replace("-", "--")
    return _entry(kind, key, fields | where)


def bibtex(given: object) -> str:
    """Return the package and the works behind a result as BibTeX entries, the package first."""
    cite = Citations()
    cite("seabold2010")
    _cited(given, cite)
    return "\n\n".join([_entry("software", "dpinfer", {**_PACKAGE}), *map(_reference, sorted(cite.keys))])
