"""A procedure that says to the kernel whatever a test wants, and notes how often it is asked."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dpinfer.kernel.stage import Slot
from dpinfer.procedures.procedure import Procedure, unstored


@dataclass(frozen=True, eq=False)
class Asked(Procedure):
    """Stages are given one by one or as ``f(place, released)``; one that is a function gets its call and the same."""

    procedures = ("asked",)

    stages: Any = unstored(())
    given: Any = unstored((Slot(),))
    dealt: Any = unstored(None)
    calls: Counter = field(default_factory=Counter, metadata={"role": "unstored"})

    def text(self, schema):
        return "asked"

    def release_kind(self, context):
        return "total"

    def question(self, context):
        return {"text": "asked", "schema": context.schema.to_dict()}

    def slots(self, context):
        self.calls["slots"] += 1
        return self.given(self.calls["slots"]) if callable(self.given) else self.given

    def stage(self, place, context, released):
        self.calls[place] += 1
        if callable(self.stages):
            return self.stages(place, released)
        one = self.stages[place]
        return one(self.calls[place], released) if callable(one) else one

    def units(self, context):
        self.calls["units"] += 1
        return self.dealt(self.calls["units"]) if callable(self.dealt) else self.dealt

    def infer(self, release=None):
        return release


def ask(*stages, slots=None, units=None):
    return Asked(stages=stages, given=(Slot(),) if slots is None else slots, dealt=units)
