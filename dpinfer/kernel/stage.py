"""What a procedure may say of rows: stages, with slots of the price; and the data that runs them, seen from outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpinfer.checks import of_type
from dpinfer.errors import OptionError, type_of
from dpinfer.privacy.units import GDP, NEIGHBORS, ZCDP, ApproxDP, Neighbors, Privacy, PureDP
from dpinfer.release.laws import MOST_DRAWS
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.kernel.rows.products import ReplicateSum
    from dpinfer.kernel.rows.scores import ScoreSum
    from dpinfer.kernel.rows.tree import PointRows
    from dpinfer.privacy.accounting import ChoiceLaw
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.release import Release


@dataclass(frozen=True, slots=True)
class Slot:
    """What a stage may take: a share of the price, and how many numbers it releases at most.

    Attributes
    ----------
    share : Fraction
        Of the amount that composes (epsilon, rho, mu^2); the shares of a procedure add up to at most 1.
    most : int
        Coordinates with noise, at most; of an adaptive stage the price is charged for so many.
    adaptive : bool
        Whether the stage is built from what earlier ones released.
    """

    share: Fraction = Fraction(1)
    most: int = 2**22
    adaptive: bool = False

    def __post_init__(self) -> None:
        if type(self.share) not in (Fraction, int) or not 0 < self.share <= 1:
            raise OptionError("share", self.share, "an exact fraction above 0 and at most 1")
        if type(self.most) is not int or self.most < 1:
            raise OptionError("most", self.most, "a positive whole number")
        if type(self.adaptive) is not bool:
            raise OptionError("adaptive", self.adaptive, (True, False))


@dataclass(frozen=True, slots=True)
class Noise:
    """Which noise a sum gets, where a price allows several; its scale is the kernel's alone.

    Attributes
    ----------
    draws : int
        Average so many independent Laplace draws, each at its share of a `PureDP` price.
    tulap : bool
        Discrete Laplace noise with a uniform fraction, for one count at a `PureDP` price.
    """

    draws: int = 1
    tulap: bool = False

    def __post_init__(self) -> None:
        if type(self.draws) is not int or not 1 <= self.draws <= MOST_DRAWS:
            raise OptionError("draws", self.draws, f"a whole number from 1 to {MOST_DRAWS}")
        if type(self.tulap) is not bool:
            raise OptionError("tulap", type_of(self.tulap), (True, False))


@dataclass(frozen=True, eq=False, slots=True)
class Sum:
    """Release noisy sums.

    Attributes
    ----------
    rows : RowSum
        One of the kernel's own types.
    weights : tuple of float, one for each part of ``rows``, optional
        Noise of the parts relative to each other; by default all have the same.
    shares : tuple of float, one for each part, optional
        Instead of weights: which share of the stage's price each part gets.
    """

    rows: RowSum
    weights: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What is released."""
        return self.rows.names


@dataclass(frozen=True, eq=False, slots=True)
class Largest:
    """Release the place of the largest noisy score, and nothing else.

    Attributes
    ----------
    rows : ScoreSum
    law : {"gumbel", "exponential"}
        "gumbel" is the exponential mechanism, "exponential" permute-and-flip.
    """

    rows: ScoreSum
    law: ChoiceLaw

    @property
    def names(self) -> tuple[str, ...]:
        """What is released."""
        return ("selected",)


@dataclass(frozen=True, eq=False, slots=True)
class Above:
    """Release which sums are at least their thresholds, up to a number of those that are; and nothing else.

    Attributes
    ----------
    rows : ScoreSum
        The queries, in the order in which they are answered.
    thresholds : tuple of int, one for each query
        In steps of the sums.
    answers : int
        After so many that are above, no query is answered.
    """

    rows: ScoreSum
    thresholds: tuple[int, ...]
    answers: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """What is released: for each query 1 if it is above, 0 if below, -1 if it was not reached."""
        return tuple(score.text for score in self.rows.scores)


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """Release for each group and probability a point of a fine grid, chosen as the quantile.

    Attributes
    ----------
    rows : PointRows
    probabilities : tuple of Fraction
        Multiples of 2^-20 from 0 to 1.
    """

    rows: PointRows
    probabilities: tuple[Fraction, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is released: group by group a point for each probability."""
        chosen = [f"q={float(p):.6g}" for p in self.probabilities]
        return tuple(f"{group} | {one}" if group else one for group in self.rows.tree.group_names for one in chosen)


@dataclass(frozen=True, eq=False, slots=True)
class Resampled:
    """Release sums under several sets of random weights.

    Attributes
    ----------
    rows : ReplicateSum
    """

    rows: ReplicateSum

    @property
    def names(self) -> tuple[str, ...]:
        """What is released."""
        return self.rows.names


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """One question to the rows.

    Attributes
    ----------
    measure : Sum, Largest, Above, Place or Resampled
    noise : Noise
    settings : mapping
        Public, JSON-ready numbers that the stage was built from; stored in the release, never computed again.
    """

    measure: Sum | Largest | Above | Place | Resampled
    noise: Noise = Noise()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """What is public about a run.

    Attributes
    ----------
    schema : Schema
    neighbors : {"add_remove", "replace_one"}
    privacy : Privacy
        The price.
    nobs : int or None
        The number of rows where it is public.
    public : bool
        Whether the rows need no protection.
    """

    schema: Schema
    neighbors: Neighbors
    privacy: Privacy
    nobs: int | None = None
    public: bool = False

    def __post_init__(self) -> None:
        if type(self.privacy) not in (PureDP, ZCDP, GDP, ApproxDP):  # not a subclass, whose amount may change
            raise OptionError(
                "privacy", self.privacy, "an amount such as ZCDP(0.1), PureDP(1.0), GDP(0.5), ApproxDP(1.0, 1e-6)"
            )
        of_type(Schema, "schema", self.schema, "a Schema, or a procedure that is bound to data")
        if self.neighbors not in NEIGHBORS:
            raise OptionError("neighbors", self.neighbors, NEIGHBORS)


class Data(ABC):
    """Rows with a public schema and a neighbour relation, as a procedure sees them: it can only ask them to run it."""

    __slots__ = ()  # so that no instance has another context or way to run

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The public schema."""

    @property
    @abstractmethod
    def neighbors(self) -> Neighbors:
        """The relation that is protected."""

    @property
    @abstractmethod
    def nobs(self) -> int | None:
        """Number of rows where it is public; else None."""

    @property
    @abstractmethod
    def public(self) -> bool:
        """Whether the rows need no protection."""

    @property
    def ledger(self) -> Ledger | None:
        """Where releases are charged; None where nobody is protected."""
        return None

    def cite(self, release: Release) -> None:  # noqa: B027  (rows that cite nothing)
        """Let later releases of these rows note what a release of their quality advises; see `dpinfer.quality`."""

    @property
    def version(self) -> str | None:
        """The declared version of the rows, which is public; None where none is declared."""
        return None

    @abstractmethod
    def run(
        self, procedure: Any, privacy: Privacy, *, charge_id: str | None = None, seen: int | None = None
    ) -> Release:
        """Price, charge, measure; see `dpinfer.kernel.run.run`.

        ``charge_id`` is the id that the charge will have, new and of 32 hexadecimal digits. With ``seen`` nothing is
        charged if the ledger does not keep exactly so many releases: `LedgerMovedError`.
        """

    def context(self, privacy: Privacy) -> Context:
        """Return what is public about a run at a price."""
        return Context(self.schema, self.neighbors, privacy, self.nobs, self.public)
