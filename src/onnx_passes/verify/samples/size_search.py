"""Search for sizes of dynamic dimensions that a model runs with, where the usual ones do not fit together.

Dimensions are related in ways that nothing declares: the total of a mask is past and present, a window has a fixed
length. A relation is supposed, and kept if the model gets further with it. What a run says of its failure, such as an
index out of bounds, tells which numbers to try.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Attempt = Callable[[Mapping[str, int]], str]
"""Runs a model with sizes of its dimensions, and returns why that fails; empty if it does not."""

_MOST_ATTEMPTS, _FEW_ATTEMPTS = 120, 6
_SECONDS, _MOST_SECONDS = 1.0, 8.0
"""What attempts may take in all; a few may take more."""
_SLOW = 0.1
"""The seconds from which on it is foreseen what an attempt with larger sizes takes."""
_LARGEST = 1024
"""Numbers beyond in a failure are not those of sizes."""
_USUAL = (256, 128, 64, 32, 16, 8, 512, 1024, 4096, 16384)
"""Lengths of windows, multiples of strides, signals of a second."""
_SMALL, _MOST = 64, 2**22
"""The most that large sizes may come to when they are multiplied."""
_CACHE_RANK = 3
"""The least number of axes of an input that may be a cache."""
_IDLE = 2
"""The changes of a dimension that leave a failure as it is, after which its other sizes come last."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_DIGITS = re.compile(r"\d+")
_REQUESTED = re.compile(r"requested shape:\{([\d,-]+)\}")
_NODE = re.compile(r"Name:'([^']*)'")


@dataclass(frozen=True)
class Relations:
    """Sizes that follow from others: a number, or the sum of other dimensions and a number."""

    terms: Mapping[str, tuple[tuple[str, ...], int]]

    def sizes(self, free: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of all dimensions; dimensions that follow from no others keep the given size."""
        found = {name: size for name, size in free.items() if name not in self.terms}
        for _ in self.terms:
            for name, (others, number) in self.terms.items():
                if all(other in found for other in others):
                    found[name] = sum(found[other] for other in others) + number
        return {name: found.get(name, size) for name, size in free.items()}

    def with_term(self, name: str, others: tuple[str, ...], number: int) -> Relations | None:
        """Return these relations and one more; None if a dimension would follow from itself."""
        terms = {**self.terms, name: (others, number)}
        return None if self._circular(name, terms) else replace(self, terms=terms)

    def __str__(self) -> str:
        texts = (
            " + ".join([*others, *([str(number)] if number or not others else [])])
            for others, number in self.terms.values()
        )
        return ", ".join(f"{name} = {text}" for name, text in zip(self.terms, texts, strict=True))

    @staticmethod
    def _circular(name: str, terms: Mapping[str, tuple[tuple[str, ...], int]]) -> bool:
        waiting, seen = list(terms[name][0]), set[str]()
        while waiting:
            each = waiting.pop()
            if each == name:
                return True
            if each not in seen:
                seen.add(each)
                waiting += terms.get(each, ((), 0))[0]
        return False


@dataclass(frozen=True)
class Place:
    """First place of a dimension: the type of the input, its sizes, None for unknown ones, and the axis."""

    dtype: str
    others: tuple[int | None, ...]
    axis: int


@dataclass(frozen=True)
class Misfit:
    """The sizes with which a model ran furthest, and why it failed with these."""

    sizes: Mapping[str, int]
    failure: str

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"no sizes of dynamic dimensions were found that fit together; with {sizes}: {self.failure}"


@dataclass(frozen=True)
class _Change:
    """Relations to try, the dimension in which they differ from others, and how these failed."""

    relations: Relations
    name: str = ""
    failure: str = ""


class _Cost:
    """The time that attempts have taken, and the sizes that would exceed the remaining time."""

    def __init__(self, attempt: Attempt, clock: Callable[[], float]) -> None:
        self._attempt, self._clock = attempt, clock
        self._spent, self._count, self._rate = 0.0, 0, 0.0

    def attempt(self, sizes: Mapping[str, int]) -> str:
        """Make an attempt, and record its time."""
        started = self._clock()
        failure = self._attempt(sizes)
        seconds = self._clock() - started
        self._spent, self._count = self._spent + seconds, self._count + 1
        if seconds > _SLOW:
            self._rate = max(self._rate, seconds / math.prod(sizes.values()))
        return failure

    @property
    def is_affordable(self) -> bool:
        """Return whether one more attempt may be made."""
        if self._spent > _MOST_SECONDS or self._count >= _MOST_ATTEMPTS:
            return False
        return self._spent < _SECONDS or self._count < _FEW_ATTEMPTS

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the time that is left may do for sizes, and they are not beyond those of any model."""
        foreseen = self._rate * math.prod(sizes.values())
        large = math.prod(size for size in sizes.values() if size > _SMALL)
        return self._spent + foreseen <= _SECONDS and large <= _MOST


def search_sizes(
    least: Mapping[str, int],
    attempt: Attempt,
    order: Mapping[str, int],
    fixed: Mapping[str, int],
    clock: Callable[[], float] = time.process_time,
    places: Mapping[str, Place] | None = None,
) -> Relations | Misfit:
    """Return relations of dimensions with which a model runs, or the best sizes if none are found in bounded time.

    ``least`` is the smallest size of each dimension, ``fixed`` are sizes that must stay, ``order`` the place of each
    node in the order of execution: the later a run fails, the better are its sizes. Of failures at the same node, one
    of a new kind is taken for progress. Attempts are bounded by what they take by the ``clock``. ``places`` are those
    of dimensions in inputs: like inputs are likely to have like sizes.
    """
    free = {name: size + place + (size == 1) for place, (name, size) in enumerate(least.items())}
    count, best = itertools.count(), (-1, -1, Misfit(free, ""))
    cost = _Cost(attempt, clock)
    # Ordered by how far a run came, how new its failure was, how much was supposed since the start, whether the failure
    # seems to have nothing to do with the dimension that changes, and by what is most likely to help.
    waiting = [(-math.inf, 0, 0, False, 0, next(count), _Change(start)) for start in _starts(free, fixed, places or {})]
    others = {name: size + place + 1 for place, (name, size) in enumerate(free.items())}
    tried: set[tuple[int, ...]] = set()
    kinds: dict[str, int] = {}
    idle: Counter[tuple[str, str]] = Counter()
    while waiting and cost.is_affordable:
        reached, kind, depth, is_last, place, number, change = heapq.heappop(waiting)
        if not is_last and idle[change.name, change.failure] >= _IDLE:
            heapq.heappush(waiting, (reached, kind, depth, True, place, number, change))
            continue
        relations = change.relations
        sizes = relations.sizes(free)
        key = tuple(sizes.values())
        if key in tried or not cost.allows(sizes):
            continue
        tried.add(key)
        failure = cost.attempt(sizes)
        if not failure:
            if attempt(relations.sizes(others)):
                relations = _freed(relations, sizes, others, attempt, fixed)
            return _generalized(relations, free, others, attempt, fixed)
        idle[change.name, failure] += failure == change.failure
        node = _NODE.search(failure)
        reached = order.get(node[1], 0) if node else 0
        kind = kinds.setdefault(_without_digits(failure), len(kinds))
        if (reached, kind) > best[:2]:
            best = reached, kind, Misfit(sizes, failure)
        supposed = _supposed(relations, failure, sizes, [name for name in least if name not in fixed])
        for place, (name, more) in enumerate(itertools.islice(supposed, _MOST_ATTEMPTS)):
            change = _Change(more, name, failure)
            heapq.heappush(waiting, (-reached, -kind, depth + 1, False, place, next(count), change))
    return best[2]


def _starts(free: Mapping[str, int], fixed: Mapping[str, int], places: Mapping[str, Place]) -> Iterator[Relations]:
    """Yield the fixed sizes alone, then also equal sizes of more and more dimensions.

    First of those at one place in like inputs with three axes or more, such as caches, then of all first axes, then of
    dimensions whose names differ in a number, or in the input.
    """
    relations = Relations({name: ((), size) for name, size in fixed.items()})
    yield relations

    def of_caches(name: str) -> Hashable:
        place = places.get(name)
        return place if place is not None and len(place.others) >= _CACHE_RANK else name

    def of_first_axes(name: str) -> Hashable:
        place = places.get(name)
        return 0 if place is not None and place.axis == 0 else name

    alike: tuple[Callable[[str], Hashable], ...] = (of_caches, of_first_axes, _without_digits, _batch, _axis)
    for key_of in alike:
        first: dict[Hashable, str] = {}
        before = relations
        for name in free:
            other = first.setdefault(key_of(name), name)
            if other != name and name not in relations.terms:
                relations = relations.with_term(name, (other,), 0) or relations
        if relations is not before:
            yield relations


def _freed(
    relations: Relations,
    sizes: Mapping[str, int],
    others: Mapping[str, int],
    attempt: Attempt,
    fixed: Mapping[str, int],
) -> Relations:
    """Return relations of sizes that fit by chance: numbers, but for dimensions that may have other sizes, too."""
    terms: dict[str, tuple[tuple[str, ...], int]] = {name: ((), size) for name, size in sizes.items()}
    for name in sorted(sizes.keys() - fixed.keys(), key=lambda name: name not in relations.terms):
        rest = {other: term for other, term in terms.items() if other != name}
        freed = {**rest, name: relations.terms[name]} if name in relations.terms else rest
        if not attempt(Relations(freed).sizes(others)):
            terms = freed
    return Relations(terms)


def _generalized(
    relations: Relations,
    free: Mapping[str, int],
    others: Mapping[str, int],
    attempt: Attempt,
    fixed: Mapping[str, int],
) -> Relations:
    """Return relations in which a number that is the sum of dimensions is written so, if the model runs then, too.

    A number that any other may stand in for is left out.
    """
    sizes = relations.sizes(free)
    for name, (terms, number) in relations.terms.items():
        rest = replace(relations, terms={other: term for other, term in relations.terms.items() if other != name})
        if not terms and name not in fixed and not attempt(rest.sizes(others)):
            return _generalized(rest, free, others, attempt, fixed)
        known = [each for each in sizes if each != name]
        sums = [pair for pair in itertools.combinations(known, 2) if sum(map(sizes.__getitem__, pair)) == number]
        for pair in () if terms or name in fixed else sums:
            supposed = relations.with_term(name, pair, 0)
            if supposed is not None and not attempt(supposed.sizes(others)):
                return _generalized(supposed, free, others, attempt, fixed)
    return relations


def _without_digits(text: str) -> str:
    return _DIGITS.sub("", text)


def _batch(name: str) -> str:
    """Return one name for all first dimensions that have none."""
    return "[0]" if name.endswith("[0]") else name


def _axis(name: str) -> str:
    """Return one name for all dimensions along the same axis that have none."""
    return name[name.rindex("[") :] if name.endswith("]") else name


def _supposed(
    relations: Relations, failure: str, sizes: Mapping[str, int], names: Sequence[str]
) -> Iterator[tuple[str, Relations]]:
    """Yield a dimension, and the relations with one more, of this dimension.

    What the failure speaks of comes first, then sums, then usual lengths.
    """
    spoken_of = {int(text) for text in _NUMBER.findall(failure) if int(text) < _LARGEST}
    if shape := _REQUESTED.search(failure):
        spoken_of.add(math.prod(int(text) for text in shape[1].split(",") if int(text) > 0))
    numbers = sorted(spoken_of)
    named = [number for number in numbers if number > 0 and number not in sizes.values()]
    free = [name for name in names if name not in relations.terms]
    numbered = [name for name in names if not relations.terms.get(name, ((), 0))[0]]
    spoken = [name for name, size in sizes.items() if size in numbers]
    terms = itertools.chain(
        ((name, (), number) for number in named for name in free),
        ((name, (other,), 0) for name in spoken if name in free for other in spoken if name != other),
        # An index that is out of bounds needs one more than its number.
        ((name, (), number + 1) for number in reversed(numbers) for name in free),
        ((name, pair, 0) for name in free for pair in itertools.combinations(sizes, 2) if name not in pair),
        ((name, (other,), number) for number in (0, 1) for name in free for other in sizes if name != other),
        ((name, (), size) for size in _USUAL for name in numbered if size != sizes[name]),
    )
    for name, others, number in terms:
        if (more := relations.with_term(name, others, number)) is not None:
            yield name, more
