"""Choices: every decision of the generator, drawn from hypothesis or from a random generator."""

from __future__ import annotations

import contextlib
import importlib
import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from onnx_passes.core.errors import UsageError

T = TypeVar("T")

_FREE_CASES = 5
"""One in this many cases ignores experience."""
_FREE_ANSWERS = 12
"""In the other cases, one in this many answers differs from that of the example."""
_EXAMPLES = 24
_TELLING = 8
"""Weight of a telling example."""
_PREFERRED = "_maybe_draw_constant"


class UnbuildableError(Exception):
    """Choices for which no model exists."""


class Source(Protocol):
    """Source of choices; small numbers are the simple ones."""

    def pick(self, count: int) -> int:
        """Return a number below ``count``."""
        ...


class RandomSource:
    """Choices from a seed, for scouting."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - choices of a test, not secrets

    def pick(self, count: int) -> int:
        """Return a number below ``count``."""
        return self._random.randrange(count)


class HypothesisSource:
    """Choices that hypothesis draws, replays and shrinks.

    They are drawn one by one below its strategies: hypothesis marks a span around each strategy that is drawn, and
    often copies one span over others of its kind, which makes most models alike.
    """

    def __init__(self, data: Any) -> None:
        self._draw = data.conjecture_data.draw_integer

    def pick(self, count: int) -> int:
        """Return a number below ``count``."""
        return self._draw(0, count - 1) if count > 1 else 0


def require_hypothesis() -> Any:
    """Import hypothesis, or raise an error that says how to install it."""
    try:
        import hypothesis
    except ImportError as error:
        raise UsageError("fuzzing needs hypothesis", hint="pip install onnx-passes[testing]") from error
    return hypothesis


@contextlib.contextmanager
def no_favourite_numbers() -> Generator[None]:
    """Keep hypothesis from preferring numbers in the source of all loaded modules.

    Reading them takes seconds, and makes the choices of a seed depend on the process.
    """
    provider: Any = importlib.import_module("hypothesis.internal.conjecture.providers").HypothesisProvider
    preferred = getattr(provider, _PREFERRED, None)
    if preferred is None:
        yield
        return
    setattr(provider, _PREFERRED, _none)
    try:
        yield
    finally:
        setattr(provider, _PREFERRED, preferred)


def _none(*_: object, **__: object) -> None:
    """Return no preferred numbers."""


@dataclass(frozen=True)
class Experience:
    """Complete answers of successful cases, to be varied, and for each question the answers worth trying."""

    examples: Sequence[Mapping[str, Sequence[str]]] = ()
    preferred: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


class Draws:
    """Answers questions by choices, records the answers, and prefers those of experience.

    Choices of zero ignore experience and give the simplest answers, so that shrinking ends there.
    """

    every_type: ClassVar[bool] = False
    """Whether rare element types are offered besides the usual ones."""

    def __init__(self, source: Source, experience: Experience | None = None) -> None:
        self._source = source
        self._preferred: Mapping[str, frozenset[str]] = {}
        self._example: dict[str, list[str]] = {}
        self.answers: list[tuple[str, str]] = []
        if experience is not None and experience.examples and source.pick(_FREE_CASES):
            chosen = experience.examples[source.pick(len(experience.examples))]
            self._example = {question: list(answers) for question, answers in chosen.items()}
            self._preferred = experience.preferred

    def choose(self, question: str, options: Sequence[T]) -> T:
        """Choose one of the options, of which the first is the simplest; repeated ones are likelier."""
        if not options:
            raise UnbuildableError(question)
        answer = self._from_experience(question, options) if self._example else None
        if answer is None:
            answer = options[self._source.pick(len(options))]
        self.answers.append((question, repr(answer)))
        return answer

    def _from_experience(self, question: str, options: Sequence[T]) -> T | None:
        known = self._example.get(question)
        before = known.pop(0) if known else None
        if self._source.pick(_FREE_ANSWERS):
            same = next((option for option in options if repr(option) == before), None)
            if same is not None:
                return same
        preferred = self._preferred.get(question, ())
        good = [option for option in options if repr(option) in preferred]
        return good[self._source.pick(len(good))] if good else None

    def freely(self, options: Sequence[T]) -> T:
        """Choose one of the options, ignoring experience: variation that every rule must handle."""
        return options[self._source.pick(len(options))]

    def often(self, question: str, *, percent: int) -> bool:
        """Return True with a probability; False is the simple answer."""
        return self.choose(question, _likely(percent))

    def happens(self, *, percent: int) -> bool:
        """Return True with a probability, ignoring experience."""
        return self.freely(_likely(percent))

    def number(self, low: int, high: int) -> int:
        """Choose a number, both ends included; low ones are simple."""
        return low + self._source.pick(max(1, high - low + 1))

    def order(self, items: Sequence[T]) -> list[T]:
        """Shuffle; the given order is the simple one."""
        rest = list(items)
        return [rest.pop(self._source.pick(len(rest))) for _ in items]

    def subset(self, items: Sequence[T], *, at_least: int = 0) -> list[T]:
        """Choose some of the items, in order."""
        chosen = [self.choose("take", (False, True)) for _ in items]
        picked = [item for item, taken in zip(items, chosen, strict=True) if taken]
        return picked if len(picked) >= at_least else list(items[:at_least])


def _likely(percent: int) -> Sequence[bool]:
    yes = round(percent / 5)
    return (False,) * (20 - yes) + (True,) * yes


class Lessons:
    """Learns from cases which answers to try again."""

    def __init__(self) -> None:
        self.cases = 0
        self.good = 0
        self.has_telling = False
        self._examples: list[Mapping[str, Sequence[str]]] = []
        self._given: dict[str, Counter[str]] = {}
        self._good: dict[str, Counter[str]] = {}

    def add(self, answers: Sequence[tuple[str, str]], *, good: bool, telling: bool = False) -> None:
        """Record the result of a case; telling ones are varied more often."""
        self.cases += 1
        self.good += good
        self.has_telling |= telling
        for question, answer in dict.fromkeys(answers):
            self._given.setdefault(question, Counter())[answer] += 1
            self._good.setdefault(question, Counter())[answer] += good
        if good and (telling or len(self._examples) < _EXAMPLES):
            example: dict[str, list[str]] = {}
            for question, answer in answers:
                example.setdefault(question, []).append(answer)
            self._examples.extend([example] * (_TELLING if telling else 1))

    def experience(self) -> Experience:
        """Return examples, and for each question the answers that do not fail far more often than usual."""
        usual = self.good / max(1, self.cases)
        preferred: dict[str, frozenset[str]] = {}
        for question, given in self._given.items():
            good = self._good[question]
            expected = {answer: count * usual for answer, count in given.items()}
            preferred[question] = frozenset(a for a, n in expected.items() if n < 2 or good[a] > 0.3 * n)
        return Experience(tuple(self._examples), preferred)
