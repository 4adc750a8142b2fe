"""Choices of a family of models: as the fuzzer draws them, but small, and each kind of answer in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from onnx_passes.testing.fuzz.draws import Draws, Experience, RandomSource

T = TypeVar("T")

RANKS = (0, 1, 2, 3, 4)
SIZES = (2, 3, 1, 0)
OPSETS = (20, 21, 18, 13, 22, 17, 23)
_DIMS = (2, 3, 2, 3, 2, 1, 1, 3, 2, 0)
_EXACT_CONSTANTS = (
    *("mixed", "ramp", "one", "zero", "minus-one", "two", "half", "positive", "power"),
    *("identity", "diagonal"),
)
"""Small dyadic numbers: what a rule computes of them is not rounded."""
_FREE = 4
"""One in so many models draws its type and rank freely, as experience has it."""


@dataclass(frozen=True)
class Stratum:
    """Where in the family a model stands: its number decides its rank, types, operator set and declaration."""

    number: int
    exact: bool

    @property
    def is_free(self) -> bool:
        """Tell whether rank and types are left to experience."""
        return self.number % _FREE == _FREE - 1

    def turn(self, options: Sequence[Any], period: int = 1) -> Any:
        """Choose by turns: another answer for every so many models."""
        return options[self.number // period % len(options)]


class StratifiedDraws(Draws):
    """Answers questions by turns where the family must cover all answers, by chance elsewhere.

    Nothing surrounds the pattern: how rules deal with branches, loops and names is not theirs, but that of the driver.
    """

    every_type: ClassVar[bool] = True

    def __init__(self, stratum: Stratum, seed: int, experience: Experience | None = None) -> None:
        super().__init__(RandomSource(seed), experience)
        self._stratum = stratum
        self._asked: set[str] = set()

    def choose(self, question: str, options: Sequence[T]) -> T:
        """Choose one of the options."""
        fixed = self._fixed(question, options)
        if fixed is None:
            return super().choose(question, options)
        self.answers.append((question, repr(fixed)))
        return fixed

    def _fixed(self, question: str, given: Sequence[Any]) -> Any:
        """Answer what is not left to chance."""
        kind = question.partition(":")[0]
        first = question not in self._asked
        self._asked.add(question)
        match kind:
            case "opset":
                return self._stratum.turn(OPSETS, 3)
            case "kind of argument":
                return given[-1] if self._stratum.is_free else given[0]
            case "kind of constant" | "kind of variable" | "fixed":
                return given[0]
            case "dim":
                return self._any([size for size in _DIMS if size in given])
            case "rank" if first and not self._stratum.is_free:
                return self._stratum.turn(RANKS)
            case "dtype" if not self._stratum.is_free:
                return self._stratum.turn(list(dict.fromkeys(given)), len(RANKS))
            case "recipe" if self._stratum.exact:
                return self._any([each for each in given if each in _EXACT_CONSTANTS])
            case _:
                return None

    def _any(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def freely(self, options: Sequence[T]) -> T:
        """Leave out what surrounds a pattern: the simplest of it is nothing."""
        return options[0]
