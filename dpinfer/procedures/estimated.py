"""Questions that are answered by estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpinfer.inference.moment_inference import METHODS
from dpinfer.procedures.options import REPLICATES, SEED, TARGET, inferred, one_of
from dpinfer.procedures.procedure import Procedure

__all__ = ["Estimated"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimated(Procedure):
    """A question that is answered by estimates, with intervals and tests by several methods."""

    target: str = inferred("population", TARGET)
    inference: str = inferred("auto", one_of(METHODS))
    replicates: int = inferred(999, REPLICATES)
    seed: int = inferred(0, SEED)

    @property
    def _inference_options(self) -> dict[str, Any]:
        """How it is inferred."""
        return {name: getattr(self, name) for name in ("target", "inference", "replicates", "seed")}
