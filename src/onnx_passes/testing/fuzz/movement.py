"""Recipes of operators that move data: permute, reshape, slice and join."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.draws import UnbuildableError
from onnx_passes.testing.fuzz.site import RECIPES, RecipeSite
from onnx_passes.testing.fuzz.values import Shape


def axis_of(site: RecipeSite, rank: int, *, default: int = 0, name: str = "axis", optional: bool = True) -> int:
    """Choose an axis, counted from either end, and return it counted from the front."""
    if rank == 0:
        raise UnbuildableError("no axis")
    axis = site.attribute(name, [*range(rank), *range(-rank, 0)], default=default, optional=optional)
    if not -rank <= axis < rank:
        raise UnbuildableError("no such axis")
    return axis % rank


def shape_of(site: RecipeSite, index: int, hint: Shape) -> Shape:
    """Build an input and return its actual shape."""
    built = site.input(index, hint)
    return hint if built is None else built.shape


def _transpose(site: RecipeSite) -> None:
    known = site.known(0)
    rank = len(site.want if known is None else known)
    perm: list[int] = site.attribute("perm", _permutations(site, rank), default=list(range(rank))[::-1])
    if sorted(perm) != list(range(len(perm))):
        raise UnbuildableError("no permutation")
    if len(perm) != rank:
        rank = len(perm)
        site.want = tuple(shapes.dim(site.draws) for _ in range(rank))
    hint = tuple(site.want[perm.index(axis)] for axis in range(rank)) if known is None else known
    actual = shape_of(site, 0, hint)
    if len(actual) != rank and "perm" in site.attributes:
        site.attributes.pop("perm")
        site.attribute("perm", _permutations(site, len(actual)))


def _permutations(site: RecipeSite, rank: int) -> list[list[int]]:
    axes = list(range(rank))
    return [axes[::-1], axes[1:] + axes[:1], site.draws.order(axes), axes]


def _reshape(site: RecipeSite) -> None:
    hint = shapes.refactored(site.draws, math.prod(site.want))
    actual = shape_of(site, 0, hint)
    size = math.prod(actual)
    wanted = site.want if math.prod(site.want) == size else shapes.refactored(site.draws, size)
    target = list(wanted)
    if target and site.draws.often("infer a dimension", percent=30):
        at = site.draws.number(0, len(target) - 1)
        if 0 not in [*target[:at], *target[at + 1 :]]:
            target[at] = -1
    keep = [i for i, d in enumerate(target) if i < len(actual) and actual[i] == d]
    zeros = 0 in wanted
    allowzero = site.attribute("allowzero", (1,) if zeros else (0, 1), default=0)
    if keep and not allowzero and site.draws.often("copy a dimension", percent=25):
        target[site.draws.choose("copied", keep)] = 0
    site.input(1, (len(target),), values=np.array(target, np.int64))


def _flatten(site: RecipeSite) -> None:
    hint = shapes.shape(site.draws) if len(site.want) != 2 else _split_in(site, site.want)
    rank = len(shape_of(site, 0, hint))
    site.attribute("axis", [*range(rank + 1), *range(-rank, 0)], default=1)


def _split_in(site: RecipeSite, want: Shape) -> Shape:
    return (*shapes.refactored(site.draws, want[0]), *shapes.refactored(site.draws, want[1]))


def _axes(site: RecipeSite, index: int, axes: list[int]) -> None:
    """Pass axes in the form of the opset: as attribute or as input."""
    if site.has(index):
        site.input(index, (len(axes),), values=np.array(axes, np.int64))
    elif "axes" in site.op.pattern.attributes or _has_attribute(site, "axes"):
        site.attribute("axes", (axes,), optional=False)


def _has_attribute(site: RecipeSite, name: str) -> bool:
    return site.op.signature is not None and name in site.op.signature.attributes


def some_axes(site: RecipeSite, rank: int, *, among: list[int] | None = None) -> list[int]:
    """Draw axes, in any order and counted from either end."""
    chosen = site.draws.subset(list(range(rank)) if among is None else among, at_least=1)
    if site.draws.often("unordered axes", percent=20):
        chosen = site.draws.order(chosen)
    return [axis - rank if site.draws.often("negative axis", percent=25) else axis for axis in chosen]


def _squeeze(site: RecipeSite) -> None:
    wide = list(site.want)
    for _ in range(site.draws.number(1, 2)):
        wide.insert(site.draws.number(0, len(wide)), 1)
    actual = shape_of(site, 0, tuple(wide))
    ones = [axis for axis, size in enumerate(actual) if size == 1]
    if ones or site.has(1):
        _axes(site, 1, some_axes(site, len(actual), among=ones))


def _unsqueeze(site: RecipeSite) -> None:
    at = [axis for axis, size in enumerate(site.want) if size == 1]
    known = site.known(0)
    inner = tuple(size for size in site.want if size != 1) if at else site.want
    actual = shape_of(site, 0, inner if known is None else known)
    added = len(at) if at and len(actual) == len(inner) else site.draws.number(1, 2)
    rank = len(actual) + added
    axes = at if at and len(actual) == len(inner) else site.draws.order(list(range(rank)))[:added]
    _axes(site, 1, [axis - rank if site.draws.often("negative axis", percent=25) else axis for axis in axes])


def _expand(site: RecipeSite) -> None:
    hint = shapes.part(site.draws, site.want)
    actual = shape_of(site, 0, hint)
    target = site.want if shapes.broadcast([actual, site.want]) is not None else actual
    target = site.draws.choose("target", (target, shapes.part(site.draws, target), ()))
    site.input(1, (len(target),), values=np.array(target, np.int64))


def _tile(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want)
    repeats = [site.draws.choose("repeats", (1, 2, 1, 3, 0)) for _ in actual]
    site.input(1, (len(actual),), values=np.array(repeats, np.int64))


def _slice(site: RecipeSite) -> None:
    grown = tuple(size + site.draws.number(0, 2) for size in site.want)
    actual = shape_of(site, 0, grown)
    rank = len(actual)
    axes = some_axes(site, rank) if site.has(3) else list(range(site.draws.number(min(rank, 1), rank)))
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in axes:
        size = actual[axis]
        wanted = site.want[axis] if len(site.want) == rank else size
        start, end, step = site.draws.choose("slice", _ranges(size, wanted))
        starts.append(start)
        ends.append(end)
        steps.append(step if site.has(4) else 1)
    for index, numbers in enumerate((starts, ends, axes, steps), 1):
        site.input(index, (len(numbers),), values=np.array(numbers, np.int64))


def _ranges(size: int, wanted: int) -> list[tuple[int, int, int]]:
    """List ranges for a wanted size, for the whole axis, for none of it, and unusual ones."""
    usual = [(0, wanted, 1), (size - wanted, size, 1), (0, 2**63 - 1, 1), (0, -1, 1)]
    return [*usual, (-1, -(2**31), -1), (1, 1, 1), (-2, 5, 1), (0, size, 2)]


def _concat(site: RecipeSite) -> None:
    first = next(iter(site.in_order()), 0)
    actual = shape_of(site, first, site.want or (2,))
    axis = axis_of(site, len(actual), optional=False)
    for index in site.in_order():
        other = list(actual)
        other[axis] = shapes.dim(site.draws)
        site.input(index, tuple(other))


def _split(site: RecipeSite) -> None:
    count = len(site.op.pattern.outputs)
    rank = max(1, len(site.want))
    known = site.known(0)
    rank = len(known) if known else rank
    axis = axis_of(site, rank)
    want = list(site.want or (2,))
    sizes = [want[axis] if axis < len(want) else 2] * count
    if site.has(1) and site.draws.often("uneven split", percent=50):
        sizes = [shapes.dim(site.draws) for _ in range(count)]
    whole = [*want[:axis], sum(sizes), *want[axis + 1 :]]
    actual = shape_of(site, 0, tuple(whole))
    if axis >= len(actual):
        raise UnbuildableError("no such axis")
    if sum(sizes) != actual[axis]:
        base = actual[axis] // count
        sizes = [*[base] * (count - 1), actual[axis] - base * (count - 1)]
    if site.has(1):
        site.input(1, (count,), values=np.array(sizes, np.int64))
    elif _has_attribute(site, "num_outputs"):
        site.attribute("num_outputs", (count,), optional=False)


def _gather(site: RecipeSite) -> None:
    rank = max(1, len(site.want))
    known = site.known(0)
    data = site.want or (3,)
    if known is None and rank > 1 and site.draws.number(0, 1):
        data = data[1:]
    actual = shape_of(site, 0, data)
    axis = axis_of(site, len(actual))
    shape = site.draws.choose("indices", ((2,), (), (3,), (1,), (2, 2), (0,)))
    site.input(1, shape, at_most=_last_index(actual[axis]))


def _gather_elements(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (3,))
    axis = axis_of(site, len(actual))
    site.input(1, actual, at_most=_last_index(actual[axis]))


def _gather_nd(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (3,))
    depth = site.draws.number(1, len(actual)) if actual else 1
    site.input(1, (2, depth), at_most=_last_index(min(actual, default=1)))


def _last_index(size: int) -> int:
    if size == 0:
        raise UnbuildableError("no element to index")
    return size - 1


def _pad(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want)
    mode = site.attribute("mode", ("constant", "reflect", "edge", "wrap"), default="constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    options = (0, 1, 0, 2, -1) if mode == "constant" else (0, 1)
    rank = len(actual)
    axes: list[int] = list(range(rank))
    if site.has(3):
        axes = some_axes(site, rank)
    image = rank >= 3 and site.draws.often("pad images only", percent=60)
    pads = [0 if image and i % len(axes) < 2 else site.draws.choose("pad", options) for i in range(2 * len(axes))]
    if _has_attribute(site, "pads"):
        site.attribute("pads", (pads,), optional=False)
    else:
        site.input(1, (len(pads),), values=np.array(pads, np.int64))
    site.input(2, ())
    site.input(3, (len(axes),), values=np.array(axes, np.int64))


def _shape(site: RecipeSite) -> None:
    hint = shapes.shape(site.draws) if len(site.want) != 1 else (2,) * site.want[0]
    actual = shape_of(site, 0, hint)
    ends = list(range(-len(actual) - 1, len(actual) + 2))
    site.attribute("start", [0, *ends], default=0)
    site.attribute("end", [len(actual), *ends], default=len(actual))


def _constant_of_shape(site: RecipeSite) -> None:
    dtype = site.dtype("T2")
    value: Any = onnx.helper.make_tensor("value", dtype.value, [1], [site.draws.choose("filled with", (0, 1))])
    site.attribute("value", (value,), optional=dtype.name == "FLOAT")
    site.input(0, (len(site.want),), values=np.array(site.want, np.int64))


def _blocks(site: RecipeSite) -> None:
    size = site.attribute("blocksize", (2, 1, 3), optional=False)
    n, c, h, w = (*site.want, 1, 2, 2, 2)[:4]
    to_space = site.op.op_type == "DepthToSpace"
    site.input(0, (n, c * size * size, h, w) if to_space else (n, c, h * size, w * size))
    if to_space:
        site.attribute("mode", ("DCR", "CRD"), default="DCR")


RECIPES.attach(
    {
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "DepthToSpace": _blocks,
        "Expand": _expand,
        "Flatten": _flatten,
        "Gather": _gather,
        "GatherElements": _gather_elements,
        "GatherND": _gather_nd,
        "Pad": _pad,
        "Reshape": _reshape,
        "Shape": _shape,
        "Slice": _slice,
        "SpaceToDepth": _blocks,
        "Split": _split,
        "Squeeze": _squeeze,
        "Tile": _tile,
        "Transpose": _transpose,
        "Unsqueeze": _unsqueeze,
    }
)
