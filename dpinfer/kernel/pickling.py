"""Whether a user's model can be sent to another process; public code is looked at, and no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cloudpickle

from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    Estimator = Callable[[Any], Any]

__all__ = ["called", "packed"]


def packed(estimator: Estimator) -> bytes:
    """Return what is sent to another process; `OptionError` for what cannot be sent."""
    try:
        return bytes(cloudpickle.dumps(estimator))
    except Exception as error:
        raise OptionError(
            "model",
            called(estimator),
            "a function that can be sent to another process (it, or a variable it uses, cannot be pickled: "
            f"{type(error).__name__}); create locks, connections and open files within the function",
        ) from error


def called(estimator: Estimator) -> str:
    """Return what errors call a model: as the user does."""
    return str(getattr(estimator, "__name__", type(estimator).__name__))
