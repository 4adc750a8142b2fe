"""Repeat a run up to a step, whose number is the same in every run, and find the first bad one in few questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument, StopAfter
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan


class Replay:
    """Repeats a run from the model that it started with, which ``source`` returns anew each time."""

    def __init__(self, plan: Plan, source: Callable[[], ir.Model]) -> None:
        self.plan = plan
        self.source = source

    def after_step(self, step: int, *watchers: Instrument) -> ir.Model:
        """Return the model as it was after a step; 0 is before the first."""
        return self._run(StopAfter(step), *watchers) if step else self.source()

    def _run(self, *instruments: Instrument) -> ir.Model:
        return Manager(instruments).run(self.plan, self.source()).model


@dataclass(frozen=True)
class Mark:
    """A model marked as good or bad, as in ``git bisect``, and why; ``skip`` is one that cannot be judged."""

    status: Literal["good", "bad", "skip"]
    reason: str = ""

    @property
    def bad(self) -> bool:
        """Return whether the model is bad."""
        return self.status == "bad"


GOOD, BAD = Mark("good"), Mark("bad")


def first_bad(good: int, bad: int, judge: Callable[[int], Mark]) -> tuple[int, int]:
    """Narrow down from a good and a bad number to neighbours, or as far as the judge can tell."""
    open_ = list(range(good + 1, bad))
    while open_:
        middle = open_[len(open_) // 2]
        mark = judge(middle)
        if mark.status == "skip":
            open_.remove(middle)
        elif mark.bad:
            bad, open_ = middle, [number for number in open_ if number < middle]
        else:
            good, open_ = middle, [number for number in open_ if number > middle]
    return good, bad
