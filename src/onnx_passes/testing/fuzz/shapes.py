"""Shapes: drawn, made compatible, and broadcast."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_passes.testing.fuzz.draws import Draws
from onnx_passes.testing.fuzz.values import Shape

RANKS = (1, 2, 2, 3, 3, 0, 4)
DIMS = (2, 3, 2, 3, 1, 2, 3, 1, 5, 4, 2, 3, 0)


def dim(draws: Draws) -> int:
    """Draw a dimension: mostly small, prime and not one."""
    return draws.choose("dim", DIMS)


def shape(draws: Draws) -> Shape:
    """Draw a shape of rank 0 to 4."""
    return tuple(dim(draws) for _ in range(draws.choose("rank", RANKS)))


def part(draws: Draws, whole: Shape) -> Shape:
    """Draw a shape that broadcasts with another: mostly the same, else smaller, sometimes larger."""
    how = draws.choose("broadcast", ("same", "same", "same", "drop", "ones", "scalar", "last", "expand"))
    match how:
        case "drop":
            return whole[draws.number(0, len(whole)) :]
        case "ones":
            return tuple(1 if draws.choose("one", (False, True)) else size for size in whole)
        case "scalar":
            return ()
        case "last":
            return whole[-1:]
        case "expand":
            wider = tuple(dim(draws) if size == 1 else size for size in whole)
            return (2, *wider) if wider == whole and len(whole) < 4 else wider
        case _:
            return whole


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """Broadcast shapes; return None if they do not fit."""
    result: Shape = ()
    for other in shapes:
        rank = max(len(result), len(other))
        pairs = zip((1,) * (rank - len(result)) + result, (1,) * (rank - len(other)) + other, strict=True)
        merged: list[int] = []
        for a, b in pairs:
            if a != b and 1 not in (a, b):
                return None
            merged.append(b if a == 1 else a)
        result = tuple(merged)
    return result


def refactored(draws: Draws, size: int) -> Shape:
    """Draw a shape with a number of elements."""
    if size == 0:
        return draws.choose("empty", ((0,), (0, 2), (2, 0), (0, 0)))
    dims: list[int] = []
    rest = size
    for prime in (2, 3, 5, 7):
        while rest % prime == 0:
            dims.append(prime)
            rest //= prime
    if rest > 1:
        dims.append(rest)
    dims = draws.order(dims)
    merged: list[int] = []
    for factor in dims:
        if merged and draws.number(0, 1):
            merged[-1] *= factor
        else:
            merged.append(factor)
    if draws.often("unit dim", percent=20):
        merged.insert(draws.number(0, len(merged)), 1)
    return tuple(merged)
