"""What one stage released: noisy integers that remember their noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import ReleaseFormatError
from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["StageRelease"]


@dataclass(frozen=True)
class StageRelease:
    """Noisy integer sums of one stage, or choices.

    Attributes
    ----------
    names : tuple of str, length m
        What each is.
    values : tuple of int, length m
        The noisy sums, or the places that were chosen.
    steps : tuple of float, length m
        Size of one integer step of each.
    law : NoiseLaw
        The noise they carry.
    settings : mapping
        Public, JSON-ready numbers that the stage was built from.
    """

    names: tuple[str, ...]
    values: tuple[int, ...] = field(repr=False)
    steps: tuple[float, ...] = field(repr=False)
    law: NoiseLaw = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def array(self) -> NDArray[np.float64]:
        """The noisy sums in units of the scaled features, (m,)."""
        return np.fromiter(map(mul, self.values, self.steps), np.float64, len(self.values))

    @property
    def noise_variances(self) -> NDArray[np.float64]:
        """Variance of the noise in `array`, (m,)."""
        result: NDArray[np.float64] = self.law.variances * np.asarray(self.steps) ** 2
        return result

    def simulate(self, rng: np.random.Generator) -> StageRelease:
        """Return the same with fresh simulated noise added to these values."""
        drawn = self.law.rvs(1, rng)[0]
        return replace(self, values=tuple(v + int(noise) for v, noise in zip(self.values, drawn, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """Return the stage as a JSON-ready mapping."""
        return {
            "settings": dict(self.settings),
            "law": self.law.to_dict(),
            "sums": [
                {"name": name, "value": value, "step": step}
                for name, value, step in zip(self.names, self.values, self.steps, strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StageRelease:
        """Read what `to_dict` wrote; a `ReleaseFormatError` names the field that is damaged."""
        sums, settings = stored["sums"], stored["settings"]
        if not isinstance(settings, dict):
            raise ReleaseFormatError("settings is of a wrong type")
        law = NoiseLaw.from_dict(stored["law"])
        if len(sums) != len(law.scales):
            raise ReleaseFormatError(f"{len(sums)} sums but {len(law.scales)} noise scales")
        if not all(type(one["value"]) is int for one in sums):
            raise ReleaseFormatError("value: a noisy sum is not a whole number")
        if not all(type(one["step"]) in (int, float) and 1e-150 < one["step"] < 1e150 for one in sums):
            raise ReleaseFormatError("step: not a positive number")
        if not all(isinstance(one["name"], str) for one in sums):
            raise ReleaseFormatError("name is of a wrong type")
        return cls(
            names=tuple(one["name"] for one in sums),
            values=tuple(one["value"] for one in sums),
            steps=tuple(float(one["step"]) for one in sums),
            law=law,
            settings=settings,
        )
