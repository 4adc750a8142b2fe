"""Find the first bad one of a row in few questions: all before it are good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verdict:
    """What is said of a model, and why; ``skip`` says that nobody can tell."""

    status: Literal["good", "bad", "skip"]
    reason: str = ""

    @property
    def bad(self) -> bool:
        """Tell whether the model is bad."""
        return self.status == "bad"


GOOD, BAD = Verdict("good"), Verdict("bad")


def first_bad(good: int, bad: int, judge: Callable[[int], Verdict]) -> tuple[int, int]:
    """Narrow down from a good and a bad number to neighbours, or as far as the judge can tell."""
    open_ = list(range(good + 1, bad))
    while open_:
        middle = open_[len(open_) // 2]
        verdict = judge(middle)
        if verdict.status == "skip":
            open_.remove(middle)
        elif verdict.bad:
            bad, open_ = middle, [number for number in open_ if number < middle]
        else:
            good, open_ = middle, [number for number in open_ if number > middle]
    return good, bad
