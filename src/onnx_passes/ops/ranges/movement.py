"""Range rules of operators that move elements, and properties along axes through changes of shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from onnx_passes.graph.arguments import integers
from onnx_passes.numbers.grid import Grid, aligned
from onnx_passes.numbers.range import UNKNOWN, Range
from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.ops.ranges.elementwise import either
from onnx_passes.ops.ranges.site import RANGES, Site, axis_of, dims_of

Dims = Sequence[int | str | None]


class _Group(NamedTuple):
    """Axes that hold the same elements before and after; without sizes it is not known how."""

    before: range
    after: range
    is_known: bool


def regrouped(found: Range, before: Dims, after: Dims) -> Range:
    """Return the range of a reshaped tensor."""
    groups = _groups(before, after)
    lost = [axis for group in groups if not group.is_known for axis in group.before]
    return found.joined(lost).mapped(lambda array: _reshaped(array, groups, before, after))


def _reshaped(array: np.ndarray, groups: Sequence[_Group], before: Dims, after: Dims) -> np.ndarray:
    expanded, shape = list(array.shape), list[int]()
    for group in groups:
        if all(array.shape[axis] == 1 for axis in group.before):
            shape += [1] * len(group.after)
            continue
        if len(group.before) == len(group.after) == 1:
            shape.append(array.shape[group.before[0]])
            continue
        for axis in group.before:
            size = before[axis]
            assert isinstance(size, int)
            expanded[axis] = size
        shape += [size for size in after[group.after.start : group.after.stop] if isinstance(size, int)]
    return np.broadcast_to(array, expanded).reshape(shape)


def _groups(before: Dims, after: Dims) -> list[_Group]:
    start, end = 0, 0
    shorter = min(len(before), len(after))
    while start < shorter and _equal(before[start], after[start]):
        start += 1
    while end < shorter - start and _equal(before[-1 - end], after[-1 - end]):
        end += 1
    first = [_Group(range(axis, axis + 1), range(axis, axis + 1), True) for axis in range(start)]
    last = [
        _Group(range(len(before) - back, len(before) - back + 1), range(len(after) - back, len(after) - back + 1), True)
        for back in range(end, 0, -1)
    ]
    return [*first, *_middle(before, after, (start, start), (len(before) - end, len(after) - end)), *last]


def _middle(before: Dims, after: Dims, start: tuple[int, int], end: tuple[int, int]) -> list[_Group]:
    """Take axes from the side of fewer elements until both sides hold as many."""
    (i, j), (i_end, j_end) = start, end
    groups: list[_Group] = []
    while i < i_end and j < j_end:
        first, second = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while isinstance(left, int) and isinstance(right, int) and left != right:
            following = before[i] if left < right and i < i_end else after[j] if left > right and j < j_end else None
            if not isinstance(following, int):
                left = None
            elif left < right:
                left, i = left * following, i + 1
            else:
                right, j = right * following, j + 1
        if not (isinstance(left, int) and isinstance(right, int)):
            return [*groups, _Group(range(first, i_end), range(second, j_end), False)]
        groups.append(_Group(range(first, i), range(second, j), True))
    return [*groups, _Group(range(i, i_end), range(j, j_end), False)] if i < i_end or j < j_end else groups


def _equal(a: int | str | None, b: int | str | None) -> bool:
    return a is not None and a == b


def _same(site: Site) -> Range:
    return site[0]


def _transpose(site: Site) -> Range:
    rank = site.rank()
    if rank is None:
        return site[0]
    order = site.attr_ints("perm") or list(reversed(range(rank)))
    return site[0].mapped(lambda array: np.transpose(array, order))


def _reshape(site: Site) -> Range:
    before, after = site.dims(), dims_of(site.node.outputs[0])
    if before is None or after is None or 0 in before or 0 in after:
        return site[0].overall()
    return regrouped(site[0], before, after)


def _tile(site: Site) -> Range:
    repeats, rank = site.integers(1), site.rank()
    if repeats is None or rank is None or len(repeats) != rank or 0 in repeats:
        return site[0].overall()
    return site[0].mapped(
        lambda array: np.tile(
            array, [count if size > 1 else 1 for count, size in zip(repeats, array.shape, strict=True)]
        )
    )


def _slice(site: Site) -> Range:
    x, rank = site[0], site.rank()
    if rank is None:
        return x
    starts, ends, axes = (integers(site.node, *where) for where in ((1, "starts"), (2, "ends"), (3, "axes")))
    if not site.has(3) and axes is None and starts is not None:
        axes = list(range(len(starts)))
    steps = site.integers(4) if site.has(4) else [1] * len(starts or ())
    if starts is None or ends is None or axes is None or steps is None:
        return x.joined(range(rank))
    parts = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        before = step < 0 and end < -(2**30)
        parts[axis % rank] = slice(start, None if before else end, step)
    # Where to start and to end depends on a size that may not be known.
    x = x.joined([axis for axis, dim in enumerate(site.dims() or []) if not isinstance(dim, int)])
    return x.mapped(lambda array: array[tuple(_cut(part, size) for part, size in zip(parts, array.shape, strict=True))])


def _cut(part: slice, size: int) -> slice:
    return part if size > 1 else slice(None)


def _gather(site: Site) -> Range:
    x, axis, rank = site[0], axis_of(site, 0), site.rank(1)
    if axis is None or rank is None:
        return x.overall()
    shape = site.shape(1)
    places = site.integers(1)
    if places is None or shape is None or not places:
        found = x.joined([axis])
        return found.mapped(lambda array: array.reshape((*array.shape[:axis], *(1,) * rank, *array.shape[axis + 1 :])))
    index = np.array(places).reshape(shape)

    def picked(array: np.ndarray) -> np.ndarray:
        if array.shape[axis] > 1:
            return np.take(array, index, axis=axis, mode="wrap")
        return array.reshape((*array.shape[:axis], *(1,) * rank, *array.shape[axis + 1 :]))

    return x.mapped(picked)


def _any_element(site: Site) -> Range:
    return site[0].overall()


def _any_along_axes(site: Site) -> Range:
    rank = site.rank()
    return site[0] if rank is None else site[0].joined(range(rank))


def _split(site: Site) -> Sequence[Range | None]:
    axis, x = axis_of(site, 0), site[0]
    sizes: list[int] = []
    for output in site.node.outputs:
        dims = dims_of(output)
        size = dims[axis] if dims is not None and axis is not None else None
        if not isinstance(size, int):
            found = x.overall() if axis is None else x.joined([axis])
            return [found] * len(site.node.outputs)
        sizes.append(size)
    starts = np.cumsum([0, *sizes])
    return [x.mapped(_part(axis or 0, int(start), size)) for start, size in zip(starts, sizes, strict=False)]


def _part(axis: int, start: int, size: int) -> Callable[[np.ndarray], np.ndarray]:
    def part(array: np.ndarray) -> np.ndarray:
        if array.shape[axis] == 1 or size == 0:
            return array
        return array[(slice(None),) * axis + (slice(start, start + size),)]

    return part


def _concat(site: Site) -> Range:
    parts = [found or UNKNOWN for found in site.ranges]
    axis = axis_of(site, 0)
    if axis is None:
        return reduce(either, [part.overall() for part in parts])
    sizes = [(site.dims(index) or [])[axis] for index in range(len(parts))]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return reduce(either, [part.joined([axis]) for part in parts])
    pairs = [(part, size) for part, size in zip(parts, known, strict=True) if size]
    if not pairs:
        return UNKNOWN
    low = concatenated([(part.low, size) for part, size in pairs], axis)
    if all(part.is_point for part, _ in pairs):
        return Range(low, low, _concatenated_grid(pairs, axis))
    return Range(low, concatenated([(part.high, size) for part, size in pairs], axis), _concatenated_grid(pairs, axis))


def _concatenated_grid(pairs: Sequence[tuple[Range, int]], axis: int) -> Grid | None:
    grids = [part.grid for part, _ in pairs]
    whole = [grid for grid in grids if grid is not None]
    if len(whole) < len(grids):
        return None
    whole = aligned(whole) or whole
    sizes = [size for _, size in pairs]

    def together(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return concatenated(list(zip(arrays, sizes, strict=True)), axis)

    return Grid.of(
        together([grid.scale for grid in whole]),
        together([grid.bias for grid in whole]),
        together([grid.low for grid in whole]),
        together([grid.high for grid in whole]),
    )


def concatenated(parts: Sequence[tuple[np.ndarray, int]], axis: int) -> np.ndarray:
    """Put arrays one after the other, each as many elements along the axis as it stands for."""
    first = parts[0][0]
    if all(
        array.shape == first.shape and array.shape[axis] == 1 and np.array_equal(array, first) for array, _ in parts
    ):
        return first
    rank = first.ndim
    shape = [max(array.shape[other] for array, _ in parts) for other in range(rank)]
    return np.concatenate(
        [np.broadcast_to(array, [*shape[:axis], size, *shape[axis + 1 :]]) for array, size in parts], axis=axis
    )


def _pad(site: Site) -> Range:
    x, rank = site[0], site.rank()
    pads = integers(site.node, 1, "pads")
    if rank is not None:
        touched = _touched(pads, site.integers(3) if site.has(3) else None, rank)
        if site.has(3) and site.integers(3) is None:
            touched = list(range(rank))
        x = x.joined(touched)
    if site.attr_text("mode", "constant") != "constant" or (pads is not None and all(pad <= 0 for pad in pads)):
        return x
    if site.has(2):
        around = site[2].overall()
    else:
        around = Range.point(np.asarray(0.0 if site.has(1) else site.attr_float("value", 0.0)))
    return either(x, around)


def _touched(pads: list[int] | None, axes: list[int] | None, rank: int) -> list[int]:
    if pads is None:
        return list(range(rank))
    half = len(pads) // 2
    named = [axis % rank for axis in axes] if axes is not None else list(range(half))
    return [axis for axis, before, after in zip(named, pads[:half], pads[half:], strict=True) if before or after]


def _resize(site: Site) -> Range:
    x, before, after = site[0], site.dims(), dims_of(site.node.outputs[0])
    mode = site.attr_text("mode", "nearest")
    if before is None or after is None:
        found = x.overall()
    else:
        found = x.joined([axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b or a is None])
    if site.attr_text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        outside = site.attr_float("extrapolation_value", 0.0)
        found = either(found, Range.of(outside, outside)).without_grid()
    if mode == "nearest":
        return found
    if mode not in ("linear", "bilinear"):
        return UNKNOWN
    slack = found.size * 1e-5
    return Range(found.low - slack, found.high + slack)


def _cast(site: Site) -> Range:
    x = site[0]
    source, target = site.value(0), site.node.outputs[0].dtype
    if target is None or source is None or source.dtype is None:
        return x if target is not None and not target.is_integer() else UNKNOWN
    if not target.is_integer() or source.dtype.is_integer():
        return UNKNOWN if target.name == "BOOL" else x
    low, high = np.trunc(x.low), np.trunc(x.high)
    return Range(low, high, Grid.integers(low, high))


def _top_k(site: Site) -> Sequence[Range | None]:
    axis = axis_of(site, -1)
    if axis is None:
        return [site[0].overall(), None]
    return [site[0].joined([axis]), _indices(site, axis)]


def _arg(site: Site) -> Range:
    axis = axis_of(site, 0)
    return UNKNOWN if axis is None else _indices(site, axis)


def _indices(site: Site, axis: int) -> Range:
    size = (site.dims() or [])[axis]
    return Range.integers(0, size - 1) if isinstance(size, int) and size else UNKNOWN


def _im2col(site: Site) -> Range:
    """Repeat the channels once for each tap; around the image there is the padding."""
    rank, size = site.rank(), site.attr_ints("kernel_size")
    x = site[0]
    if rank is None or size is None:
        return x.overall()
    if any(site.attr_ints("pad_amount") or []):
        value = float(site.attr_int("pad_value", 0))
        x = either(x.joined(range(1, rank - 1)), Range.point(np.full((1,) * rank, value)))
    taps = int(np.prod(size))
    return x.joined(range(1, rank - 1)).mapped(
        lambda array: np.tile(array, [1] * (rank - 1) + [taps]) if array.shape[-1] > 1 else array
    )


def _shape(site: Site) -> Range:
    dims = site.dims()
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return Range.of(0, np.inf)
    chosen = dims[site.attr_int("start", 0) : site.node.attributes.get_int("end", len(dims))]
    return Range.point(np.array(chosen, dtype=np.int64)) if chosen else UNKNOWN


def _constant_of_shape(site: Site) -> Range:
    given = site.node.attributes.get_tensor("value")
    return Range.point(np.zeros(()) if given is None else given.numpy().reshape(()))


RANGES.attach(
    {
        "ArgMax": _arg,
        "ArgMin": _arg,
        "Cast": _cast,
        "CastLike": _cast,
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "DepthToSpace": _any_along_axes,
        "Dropout": lambda site: None if site.has(2) else [site[0]],
        "Expand": _same,
        "Flatten": _reshape,
        "Gather": _gather,
        "GatherElements": _any_element,
        "GatherND": _any_element,
        "Identity": _same,
        "Pad": _pad,
        "Reshape": _reshape,
        "Resize": _resize,
        "ReverseSequence": _any_along_axes,
        "Shape": _shape,
        "Slice": _slice,
        "SpaceToDepth": _any_along_axes,
        "Split": _split,
        "Squeeze": _reshape,
        "Tile": _tile,
        "TopK": _top_k,
        "Transpose": _transpose,
        "Trilu": lambda site: either(site[0].overall(), Range.point(np.zeros(()))),
        "Unsqueeze": _reshape,
        "Upsample": _resize,
    }
)
RANGES.attach({"DebugMarker": _same, "Im2Col": _im2col}, domains=GENERAL_DOMAINS)
