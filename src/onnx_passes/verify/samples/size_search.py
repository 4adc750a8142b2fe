"""Search for sizes of dynamic dimensions that a model runs with, where the usual ones do not fit together.

Dimensions are related in ways that nothing declares: the total of a mask is past and present, a window has a fixed
length. A relation is supposed, and kept if the model gets further with it. What a run says of its failure, such as an
index out of bounds, tells which numbers to try.
"""

from __future__ import annotations

import heapq
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

Attempt = Callable[[Mapping[str, int]], str]
"""Runs a model with sizes of its dimensions, and returns why that fails; empty if it does not."""

_MOST_ATTEMPTS = 120
_SECONDS = 8.0
_LARGEST = 1024
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_NODE = re.compile(r"Name:'([^']*)'")


@dataclass(frozen=True)
class Relations:
    """Sizes that follow from others: a number, or the sum of other dimensions and a number."""

    terms: Mapping[str, tuple[tuple[str, ...], int]]

    def sizes(self, free: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of all dimensions, those that follow from none as they are given."""
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


def search_sizes(
    least: Mapping[str, int], attempt: Attempt, order: Mapping[str, int], fixed: Mapping[str, int]
) -> Relations | None:
    """Return relations of dimensions with which a model runs; None if none are found in bounded time.

    ``least`` is the smallest size of each dimension, ``fixed`` are sizes that must stay, ``order`` the place of each
    node in the order of execution: the later a run fails, the better are its sizes.
    """
    free = {name: size * (place + 2) for place, (name, size) in enumerate(least.items())}
    started, count = time.perf_counter(), itertools.count()
    waiting: list[tuple[int, int, int, Relations]] = [
        (0, 0, next(count), Relations({name: ((), size) for name, size in fixed.items()}))
    ]
    tried: set[tuple[int, ...]] = set()
    while waiting and len(tried) < _MOST_ATTEMPTS and time.perf_counter() - started < _SECONDS:
        *_, relations = heapq.heappop(waiting)
        sizes = relations.sizes(free)
        key = tuple(sizes.values())
        if key in tried or max(key, default=0) > _LARGEST:
            continue
        tried.add(key)
        failure = attempt(sizes)
        if not failure:
            return _generalized(relations, free, attempt, fixed)
        node = _NODE.search(failure)
        reached = order.get(node[1], 0) if node else 0
        for more in _supposed(relations, failure, sizes):
            heapq.heappush(waiting, (-reached, len(more.terms), next(count), more))
    return None


def _generalized(
    relations: Relations, free: Mapping[str, int], attempt: Attempt, fixed: Mapping[str, int]
) -> Relations:
    """Return relations in which a number that is the sum of dimensions is written so, if the model runs then, too."""
    sizes = relations.sizes(free)
    others = {name: size + place + 1 for place, (name, size) in enumerate(free.items())}
    for name, (terms, number) in relations.terms.items():
        known = [each for each in sizes if each != name]
        sums = [pair for pair in itertools.combinations(known, 2) if sum(map(sizes.__getitem__, pair)) == number]
        for pair in () if terms or name in fixed else sums:
            supposed = relations.with_term(name, pair, 0)
            if supposed is not None and not attempt(supposed.sizes(others)):
                return _generalized(supposed, free, attempt, fixed)
    return relations


def _supposed(relations: Relations, failure: str, sizes: Mapping[str, int]) -> Iterator[Relations]:
    """Yield the relations with one more: numbers of the failure first, then sums of dimensions."""
    numbers = sorted({int(text) for text in _NUMBER.findall(failure) if int(text) < _LARGEST})
    named = [number for number in numbers if number > 0 and number not in sizes.values()]
    free = [name for name in sizes if name not in relations.terms]
    terms = itertools.chain(
        ((name, (), number) for number in named for name in free),
        # An index that is out of bounds needs one more than its number.
        ((name, (), number + 1) for number in named for name in free),
        ((name, pair, 0) for name in free for pair in itertools.combinations(sizes, 2) if name not in pair),
        ((name, (other,), number) for number in (0, 1) for name in free for other in sizes if name != other),
    )
    yield from filter(None, (relations.with_term(*term) for term in terms))
