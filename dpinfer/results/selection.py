"""Private choices: the public question, and results from its releases."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from dpinfer.errors import DPInferError, InferenceError, OptionError, ReleaseFormatError
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.privacy.exact import binary, float_above
from dpinfer.release import Release, register_inference
from dpinfer.release.laws import CHOICES
from dpinfer.results.summary import PrivateSummary, header_table, table_width
from dpinfer.results.wording import charge_notes, guarantee, short_guarantee
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    from dpinfer.schema.schema import Schema

__all__ = ["SelectionQuestion", "SelectionResults", "infer_selection"]

Label = str | int | float | bool
BOUNDS = ("sharp", "theorem6")

_SHARES = (0.5, 0.95, 0.99)
"""Probabilities with which a summary says how good the choice is."""

_METHODS = {"gumbel": "exponential mechanism", "exponential": "permute-and-flip"}


@dataclass(frozen=True, eq=False)
class SelectionQuestion:
    """Which candidate has the largest sum of a bounded score over rows.

    Attributes
    ----------
    schema : Schema
    candidates : tuple of str, int, float or bool
        What is chosen from.
    scores : tuple of str
        For each candidate what a row adds to its score.
    where : str, optional
    asked : str
        The question in words.
    """

    schema: Schema
    candidates: tuple[Label, ...]
    scores: tuple[str, ...]
    where: str | None = None
    asked: str = "selection"

    @cached_property
    def rows(self) -> ScoreSum:
        """The row function.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError
            If scores cannot be bounded, or depend on no column.
        """
        compiled = tuple(compile_expression(score, self.schema) for score in self.scores)
        condition = None if self.where is None else compile_condition(self.where, self.schema)
        found = ScoreSum(self.schema, compiled, condition)
        found.check()
        return found

    @property
    def text(self) -> str:
        """The question in one line."""
        return self.asked + (f", where {self.where}" if self.where else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        return {
            "text": self.text,
            "words": self.asked,
            "candidates": list(self.candidates),
            "scores": list(self.scores),
            "where": self.where,
            "schema": self.schema.select([name for name in self.schema if name in self.rows.columns]).to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release) -> SelectionQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question does not fit what the release holds.
        """
        asked = release.question
        try:
            candidates, scores = tuple(asked["candidates"]), tuple(asked["scores"])
            right = (
                all(isinstance(label, Label) for label in candidates)
                and all(isinstance(score, str) for score in scores)
                and isinstance(asked["words"], str)
                and isinstance(asked["where"], str | None)
                and len(candidates) == len(scores)
                and len(release.values) == 1
                and 0 <= release.values[0] < len(candidates)
                and release.law.family in CHOICES
                and release.law.scales[0] > 0
                and release.names == ("selected",)
                and len(set(map(repr, candidates))) == len(candidates)
                and all(not isinstance(label, float) or math.isfinite(label) for label in candidates)
            )
            if not right:
                raise ReleaseFormatError("what was chosen from is of a wrong type")
            question = cls(release.schema, candidates, scores, asked["where"], asked["words"])
            _ = question.rows
        except (KeyError, TypeError, ValueError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        return question


@dataclass(frozen=True, eq=False)
class SelectionResults:
    """The candidate that was chosen, and how far from the best its score may be.

    Attributes
    ----------
    selected : str, int, float or bool
        The candidate.
    candidates : tuple
        What it was chosen from.
    method : str
        "exponential mechanism" or "permute-and-flip".
    scale : float
        Scale of the noise, in the unit of the scores.
    release : Release
    """

    selected: Label
    candidates: tuple[Label, ...]
    method: str
    scale: float
    release: Release = field(repr=False)
    response: str = ""

    def accuracy(self, beta: float = 0.05, *, bound: str = "sharp") -> float:
        """Say by how much, at most, the chosen candidate's score misses the best one, but for a probability.

        Parameters
        ----------
        beta : float
            Probability, over the noise, that the bound fails; between 0 and 1.
        bound : {"sharp", "theorem6"}
            With s the noise scale and d candidates: the exponential mechanism misses by ``s log((d - 1) / beta)`` or
            more with probability beta at most, permute-and-flip by half that probability; "theorem6" is the looser
            ``2 s log(d / beta)`` of lecture notes.

        Returns
        -------
        float
            In the unit of the scores, for any data whatever; 0 where the worst candidate is within the bound. Scores
            are those of rows rounded to steps (`release.steps`): half a step for each row.

        Raises
        ------
        OptionError
            If an argument has no such value.

        Notes
        -----
        McSherry & Talwar (2007); Smith (2017), theorem 6; McKenna & Sheldon (2020). Proofs in `docs/selection.md`.
        """
        return accuracy(len(self.candidates), self.scale, self.release.law.family, beta, bound)

    def summary(self) -> PrivateSummary:
        """Return the choice as a table, with its guarantee and accuracy."""
        title = f"Private selection: {self.response}" if self.response else "Private selection"
        left = [
            ("Selected:", str(self.selected)),
            ("Candidates:", f"{len(self.candidates):,}"),
            ("Mechanism:", self.method),
        ]
        right = [
            ("Guarantee:", short_guarantee(self.release)),
            ("Neighbours:", str(self.release.neighbors)),
            ("Error (95%):", f"{self.accuracy(0.05):.4g}"),
        ]
        notes = [
            guarantee(self.release),
            f"With probability 95% the score of the selected candidate is within {self.accuracy(0.05):.4g} of the "
            "largest one, whatever the data are. Nothing else is told of the scores, nor how clear the choice was.",
        ]
        notes += charge_notes(self.release)
        table = SimpleTable(
            [
                [
                    f"{self.accuracy(1 - share):.4g}",
                    f"{self.accuracy(1 - share, bound='theorem6'):.4g}",
                    f"{1 - share:.0%}",
                ]
                for share in _SHARES
            ],
            headers=["score within", "textbook bound", "may fail"],
            stubs=[f"{share:.0%}" for share in _SHARES],
            txt_fmt=copy.deepcopy(fmt_params) | {"data_fmts": ["%s"] * 3},
        )
        return PrivateSummary(title, header_table(left, right, title, table_width(table)), table, notes)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.selected!r} of {len(self.candidates):,} candidates, {self.method}, "
            f"{short_guarantee(self.release)}>"
        )


def accuracy(candidates: int, scale: float, family: str, beta: float, bound: str = "sharp") -> float:
    """Bound on the score that is missed with probability beta at most; see `SelectionResults.accuracy`."""
    if bound not in BOUNDS:
        raise OptionError("bound", bound, BOUNDS)
    number = isinstance(beta, int | float) and not isinstance(beta, bool)
    if not (number and 0 < beta < 1):
        raise OptionError("beta", beta, "a probability, between 0 and 1")
    if bound == "theorem6":
        return 2 * scale * math.log(candidates / beta)
    halved = 2 if family == "exponential" else 1
    return max(scale * math.log((candidates - 1) / (halved * beta)), 0.0)


@register_inference("selection")
def infer_selection(release: Release, **options: Any) -> SelectionResults:
    """Read a choice from its release.

    Parameters
    ----------
    release : Release

    Returns
    -------
    SelectionResults

    Raises
    ------
    InferenceError
        If the release holds something else.
    OptionError
        For any option: there is nothing to choose.
    ReleaseFormatError
        If the release is damaged.
    """
    for name, value in options.items():
        raise OptionError(name, value, "no option: a choice is read as it is")
    if release.kind != "selection":
        raise InferenceError(f"a release of kind {release.kind!r} holds no choice")
    question = SelectionQuestion.from_release(release)
    scale = float_above(binary(release.law.scales[0]) * binary(release.steps[0]))
    return SelectionResults(
        selected=question.candidates[release.values[0]],
        candidates=question.candidates,
        method=_METHODS[release.law.family],
        scale=scale,
        release=release,
        response=question.asked,
    )
