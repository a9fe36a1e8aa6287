"""Sample-and-aggregate: the public question, and results from a release of sums over blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpinfer.errors import DPInferError, InferenceError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.inference.aggregate import METHODS, AggregateInference, BlockSums
from dpinfer.inference.block_frames import Frame
from dpinfer.release import Release, register_inference
from dpinfer.results.regression import PrivateResults
from dpinfer.schema.region import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.results.prediction import MeanPrediction
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = [
    "AGGREGATORS",
    "CORRECTIONS",
    "LINKS",
    "AggregateQuestion",
    "AggregateResults",
    "block_size",
    "infer_aggregate",
]

AGGREGATORS = ("winsorized", "mean")
CORRECTIONS = ("half_blocks", "none")

LINKS: dict[str, Callable[[Array], Array] | None] = {
    "identity": None,
    "logit": special.expit,
    "probit": special.ndtr,
    "log": np.exp,
}
"""Inverse links of the models whose parameters are the coefficients of one linear predictor."""

_ROOM = 2.5
"""Standard deviations of a block that are to fit between the estimate and the edge of the region."""

_LARGEST_SUM = 1e20
"""Bound on noisy sums, in units of the ball; the largest noise that can be drawn is far below."""

_LEAST_BLOCKS = 2
_MOST_BLOCKS = 2**20
_SMALL = 0.6
"""Share of `block_size` below which the reader is told that blocks are small."""


def block_size(nobs: float, size: int, *, halves: bool) -> float:
    """Rows that a block should hold, so that the bias left is a fraction of the standard error.

    Parameters
    ----------
    nobs : float
        Number of rows n.
    size : int
        Number p of parameters.
    halves : bool
        Whether the bias of order 1/m is taken off by half-blocks.

    Returns
    -------
    float
        4 p^(3/4) n^(1/4) with the correction, 3 (p n)^(1/2) without; at least 20 (p + 1).

    Notes
    -----
    Bias over standard error goes as m^-2 n^(1/2), or m^-1 n^(1/2); the constants leave about a quarter in a logit
    with slopes up to 1 (`validation/blocks/aggregate_coverage.py`).
    """
    wanted = 4 * size**0.75 * nobs**0.25 if halves else 3 * np.sqrt(size * nobs)
    return float(max(wanted, 20 * (size + 1)))


@dataclass(frozen=True, eq=False)
class AggregateQuestion:
    """What was asked of the blocks.

    Attributes
    ----------
    schema : Schema
        Columns that are read.
    region : Region
    blocks : int
    halves, winsorized : bool
    model : str
        What the model is called.
    text : str
        The question in words.
    response : str
    link : str or None
        A key of `LINKS`; None where the parameters are not the coefficients of one linear predictor.
    where : str or None
    nobs : float or None
        Number of rows that the number of blocks was chosen for: public, or released before.
    """

    schema: Schema
    region: Region
    blocks: int
    halves: bool
    winsorized: bool
    model: str
    text: str
    response: str
    link: str | None = None
    where: str | None = None
    nobs: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        return {
            "text": self.text,
            "model": self.model,
            "response": self.response,
            "region": self.region.to_dict(),
            "blocks": self.blocks,
            "halves": self.halves,
            "winsorized": self.winsorized,
            "link": self.link,
            "where": self.where,
            "rows": self.nobs,
            "schema": self.schema.to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release) -> AggregateQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question is damaged, or does not fit the sums that the release holds.
        """
        asked = release.question
        try:
            found = cls(
                release.schema,
                Region.from_dict(asked["region"]),
                asked["blocks"],
                asked["halves"],
                asked["winsorized"],
                asked["model"],
                asked["text"],
                asked["response"],
                asked["link"],
                asked["where"],
                asked["rows"],
            )
            found.check()
            _ = found.frame_of(release)
        except (KeyError, TypeError, ValueError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        if release.law.family == "tulap" or not (np.abs(release.array) <= _LARGEST_SUM).all():
            raise ReleaseFormatError("the sums of the release are not such as blocks give")
        if release.stages[-1].names != found.names or len(release.stages) != (3 if found.winsorized else 1):
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        return found

    def check(self) -> None:
        """Refuse entries of a wrong type.

        Raises
        ------
        ValueError
        """
        number = self.nobs is None or (type(self.nobs) in (int, float) and np.isfinite(self.nobs) and self.nobs >= 0)
        right = {
            "blocks": type(self.blocks) is int and _LEAST_BLOCKS <= self.blocks <= _MOST_BLOCKS,
            "halves": type(self.halves) is bool,
            "winsorized": type(self.winsorized) is bool,
            "model": type(self.model) is str,
            "response": type(self.response) is str,
            "link": self.link is None or self.link in LINKS,
            "where": self.where is None or type(self.where) is str,
            "rows": number,
        }
        wrong = [name for name, holds in right.items() if not holds]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} of a wrong type")

    @property
    def names(self) -> tuple[str, ...]:
        """What the sums over moved estimates are: estimates, their products, and two counts of blocks."""
        names = self.region.names
        upper = zip(*np.triu_indices(len(names)), strict=True)
        return (*names, *(f"{names[i]} x {names[j]}" for i, j in upper), "failed blocks", "moved blocks")

    def frame_of(self, release: Release) -> Frame:
        """Return where the block estimates of a release were winsorised."""
        return Frame.from_dict(release.stages[-1].settings, len(self.region.names))

    @cached_property
    def notes(self) -> list[str]:
        """What the tables say of the method."""
        bounded = "winsorised around where most of them are" if self.winsorized else "bounded by the declared region"
        corrected = ", each corrected for bias by its halves" if self.halves else ""
        found = [
            f"Sample and aggregate: the mean over {self.blocks:,} secret blocks of rows of the block's own "
            f"estimate{corrected}, {bounded}.",
            f"Declared region: {self.region.describe()}.",
        ]
        return [*found, f"Rows: {self.where}."] if self.where else found

    @cached_property
    def warnings(self) -> list[str]:
        """What the public numbers warn of."""
        if self.nobs is None:
            return []
        size, held = len(self.region.names), self.nobs / self.blocks
        wanted = block_size(self.nobs, size, halves=self.halves)
        if held >= _SMALL * wanted:
            return []
        return [
            f"a block holds about {held:,.0f} rows for {size} parameter{'s' if size > 1 else ''}: the bias of its "
            f"estimates, which more blocks do not average out, may not be small (about {wanted:,.0f} rows are advised)"
        ]


class AggregateResults(PrivateResults):
    """Parameters of a model by sample-and-aggregate."""

    def get_prediction(self, exog: object) -> MeanPrediction:
        """Return predicted means at public design points; see `PrivateResults.get_prediction`.

        Raises
        ------
        NotProvedError
            Where the parameters are not the coefficients of one linear predictor.
        """
        if self._release.question["link"] is None:  # type: ignore[attr-defined]
            raise NotProvedError(
                f"predictions of {self._model_name} are not offered: its parameters are not the coefficients of one "
                "linear predictor"
            )
        return super().get_prediction(exog)


@register_inference("sample_aggregate")
def infer_aggregate(release: Release, *, inference: str = "auto") -> AggregateResults:
    """Infer the parameters of a model from noisy sums over its blocks.

    Parameters
    ----------
    release : Release
    inference : {"auto", "wald"}

    Returns
    -------
    AggregateResults

    Raises
    ------
    InferenceError
        If the release holds something else.
    OptionError
        If there is no such inference.
    """
    if release.kind != "sample_aggregate":
        raise InferenceError(f"a release of kind {release.kind!r} holds no sums over blocks")
    if inference not in METHODS:
        raise OptionError("inference", inference, METHODS)
    question = AggregateQuestion.from_release(release)
    found = AggregateInference(
        names=question.region.names,
        blocks=block_sums(release, question),
        frame=question.frame_of(release),
        nobs=None if release.nobs is None else float(release.nobs),
        nobs_is_public=release.nobs is not None,
        notes=tuple(question.warnings),
    )
    found = replace(found, notes=(*found.notes, *_at_the_edge(found, question.region)))
    return AggregateResults(
        found,
        release,
        model_name=f"Private {question.model}",
        response=question.response,
        notes=question.notes,
        inverse_link=LINKS.get(question.link or "identity"),
    )


def _at_the_edge(found: AggregateInference, region: Region) -> list[str]:
    """Warn of estimates so near the edge of the region that estimates of blocks must lie beyond it."""
    spread = np.sqrt(np.diag(found.cov_sampling) * found.blocks.blocks)
    near = []
    for places, radius in zip(region.places, region.radii, strict=True):
        mine = list(places)
        room = radius - float(np.linalg.norm(found.params[mine] - region.center[mine]))
        if room < _ROOM * float(spread[mine].max()):
            near += [region.names[place] for place in places]
    if not near or not found.frame.located.any():
        return []
    listed = ", ".join(near[:5]) + (", ..." if len(near) > 5 else "")
    return [f"blocks differ so much that some must lie beyond the declared region of {listed}: declare a wider one"]


def block_sums(release: Release, question: AggregateQuestion) -> BlockSums:
    """Return the last sums of a release in units of the ball: what the estimate and its variance are made of."""
    last, size = release.stages[-1], len(question.region.names)
    values, noise = last.array, last.noise_variances
    upper = np.triu_indices(size)
    product = slice(size, size + len(upper[0]))
    products, spread = np.zeros((2, size, size))
    products[upper], spread[upper] = values[product], noise[product]
    products, spread = (part + np.triu(part, 1).T for part in (products, spread))
    return BlockSums(
        blocks=question.blocks,
        sums=values[:size],
        products=products,
        counts=values[-2:],
        noise_sum=float(noise[0]),
        noise_product=spread,
        noise_count=float(noise[-1]),
        laplace=release.law.family == "laplace",
    )
