"""From releases to estimates, intervals and tests: functions of released numbers alone."""

from dpinfer.inference.base import Inference

__all__ = ["Inference"]
