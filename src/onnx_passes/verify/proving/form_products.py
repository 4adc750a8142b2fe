"""Scaled-integer forms of sums of products and of elements: matrix products, convolutions, averages."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.graph.arguments import reduced_axes
from onnx_passes.graph.shapes import dimension, static_shape
from onnx_passes.numbers.reals import Reals, product
from onnx_passes.ops.ranges.convolutions import bias_behind
from onnx_passes.verify.proving.forms import Form, NoFormError, Visit

_MATRIX = 2


def matmul(visit: Visit) -> Form:
    """Multiply matrices."""
    return _product(visit, transposed=(False, False))


def gemm(visit: Visit) -> Form:
    """Multiply matrices, with factors and a bias."""
    node = visit.node
    transposed = bool(node.attributes.get_int("transA", 0)), bool(node.attributes.get_int("transB", 0))
    found = _product(visit, transposed)
    alpha, beta = (float(np.float32(node.attributes.get_float(name, 1.0))) for name in ("alpha", "beta"))
    if alpha != 1:
        found = found.times(Reals.of(alpha))
    return found.plus(visit.numbers(2).spread(_MATRIX) * Reals.of(beta)) if visit.has(2) else found


def _product(visit: Visit, transposed: tuple[bool, bool]) -> Form:
    if visit.is_constant(0) or transposed[0] or visit.form().rank < _MATRIX:
        raise refuse(visit, "its first input is constant, transposed or a vector")
    a = visit.form()
    if a.scale.shape[-1] > 1:
        a = in_one_scale(visit, a, (a.rank - 1,))
    if not visit.is_constant(1):
        return _of_two(visit, a, visit.form(1), transposed=transposed[1])
    weights = visit.weights(1)
    integers, scale = weights.integers, weights.scale
    if transposed[1]:
        integers, scale = integers.T, scale.moved(np.transpose)
    if integers.ndim != _MATRIX or scale.shape[0] > 1:
        raise refuse(visit, "scales of weights vary along the sum")
    length, matrix = visit.rank, np.abs(integers).sum(axis=0)
    most = _partial_sums(a, integers.T)
    bias = Reals.zeros(length)
    if a.has_bias:
        bias = product(a.bias, integers.astype(np.float64)) * scale.spread(length)
    reach = a.reach.max(axis=-1, keepdims=True) * (matrix * np.abs(scale.near).reshape(-1))
    roundings = a.roundings + len(integers) + 1
    key, size = ("MatMul", a.term, visit.forms.array(integers)), a.size * most
    return visit.made(key, a.scale * scale.spread(length), bias, size, reach, roundings)


def _of_two(visit: Visit, a: Form, b: Form, *, transposed: bool) -> Form:
    a, b = centred(visit, a), centred(visit, b)
    if transposed or b.rank < _MATRIX or b.scale.shape[-2] > 1:
        raise refuse(visit, "scales vary along the sum")
    terms = dimension(visit.node.inputs[0], -1) or dimension(visit.node.inputs[1], -2)
    if terms is None:
        raise refuse(visit, "it is not known how many products it adds up")
    length, size = visit.rank, a.size * b.size * terms
    reach = np.full((1,) * length, float(a.reach.max()) * float(b.reach.max()) * terms)
    roundings = a.roundings + b.roundings + terms + 1
    return visit.made(("MatMul", a.term, b.term), a.scale * b.scale, Reals.zeros(length), size, reach, roundings)


def conv(visit: Visit) -> Form:
    """Convolve with weights of integers."""
    x, weights = visit.form(), visit.weights(1)
    integers, group = weights.integers, visit.node.attributes.get_int("group", 1)
    if any(size > 1 for size in weights.scale.shape[1:]):
        raise refuse(visit, "scales of weights vary along the sum")
    channels, length = integers.shape[0], integers.ndim
    alone = integers.shape[1] == 1 and group > 1
    if any(size > 1 for size in x.scale.shape[2:]) or x.scale.shape[0] > 1:
        raise refuse(visit, "scales vary over the image")
    if x.scale.size > 1 and not alone:
        x = in_one_scale(visit, x, (1,))
    scale = x.scale
    if scale.size > 1:
        scale = scale.moved(lambda p: np.repeat(p.reshape(-1), channels // group).reshape(1, -1, *(1,) * (length - 2)))
    bias = Reals.zeros(length)
    by_channel = weights.scale.reshape(1, -1, *(1,) * (length - 2))
    if x.has_bias:
        if any(visit.node.attributes.get_ints("pads") or ()) or x.bias.size > 1:
            x = centred(visit, x)
        else:
            seen = bias_behind(visit.node, integers.astype(np.float64), np.ones(x.bias.shape))
            if seen is None:
                raise refuse(visit, "what a bias adds is not known")
            bias = Reals.of(seen) * x.bias.reshape() * by_channel
    sums = np.abs(integers).reshape(channels, -1).sum(axis=1)
    reach = float(x.reach.max()) * (sums * np.abs(weights.scale.near).reshape(-1)).reshape(1, -1, *(1,) * (length - 2))
    roundings = x.roundings + math.prod(integers.shape[1:]) + 1
    term = _term_of_conv(visit, x, integers, alone=alone)
    size = x.size * _partial_sums(x, integers.reshape(channels, -1))
    found = visit.made(term, scale * by_channel, bias, size, reach, roundings)
    return found.plus(visit.numbers(2).reshape(1, -1, *(1,) * (length - 2))) if visit.has(2) else found


def _partial_sums(x: Form, rows: np.ndarray) -> float:
    """Bound all partial sums of rows of weights, for integers of size 1: of one sign, weights of one sign add up."""
    if not x.unsigned:
        return float(np.abs(rows).sum(axis=1).max(initial=0))
    return float(max(np.maximum(rows, 0).sum(axis=1).max(initial=0), np.maximum(-rows, 0).sum(axis=1).max(initial=0)))


def _term_of_conv(visit: Visit, x: Form, integers: np.ndarray, *, alone: bool) -> tuple[Hashable, ...]:
    windows = _windows(visit, len(integers.shape) - 2)
    if alone and len(integers) == visit.node.attributes.get_int("group", 1) and (integers == 1).all():
        return ("SumPool", x.term, integers.shape[2:], windows)
    return ("Conv", x.term, visit.forms.array(integers), visit.node.attributes.get_int("group", 1), windows)


def _windows(visit: Visit, axes: int) -> Hashable:
    given, ones = visit.node.attributes, (1,) * axes
    return (
        tuple(given.get_ints("strides") or ones),
        tuple(given.get_ints("pads") or (0,) * (2 * axes)),
        tuple(given.get_ints("dilations") or ones),
        given.get_string("auto_pad", "NOTSET"),
    )


def conv_transpose(visit: Visit) -> Form:
    """Convolve backwards with weights of integers."""
    x, weights = centred(visit, visit.form()), visit.weights(1)
    integers = weights.integers
    grouped = visit.node.attributes.get_int("group", 1) > 1
    if x.scale.size > 1 or any(size > 1 for axis, size in enumerate(weights.scale.shape) if axis != 1):
        raise refuse(visit, "scales vary along the sum")
    if grouped and weights.scale.size > 1:
        raise refuse(visit, "scales of weights vary between groups")
    length, sums = integers.ndim, np.abs(integers).sum()
    by_channel = weights.scale.reshape(1, -1, *(1,) * (length - 2))
    reach = np.full((1,) * length, float(x.reach.max()) * float(sums) * float(np.abs(weights.scale.near).max()))
    term = ("ConvTranspose", x.term, visit.forms.array(integers), visit.attributes("kernel_shape"))
    roundings = x.roundings + int(np.prod(integers.shape)) + 1
    found = visit.made(term, x.scale * by_channel, Reals.zeros(length), x.size * float(sums), reach, roundings)
    return found.plus(visit.numbers(2).reshape(1, -1, *(1,) * (length - 2))) if visit.has(2) else found


def average_pool(visit: Visit) -> Form:
    """Add up windows; the number of elements goes into the scale."""
    x, given = visit.form(), visit.node.attributes
    kernel, shape = tuple(given.get_ints("kernel_shape") or ()), static_shape(visit.node.inputs[0])
    if any(size > 1 for array in (x.scale, x.bias) for size in array.shape[2:]):
        raise refuse(visit, "scale or bias vary within windows")
    padded = any(given.get_ints("pads") or ()) or given.get_string("auto_pad", "NOTSET").startswith("SAME")
    if given.get_int("ceil_mode", 0) or (padded and (not given.get_int("count_include_pad", 0) or x.has_bias)):
        raise refuse(visit, "windows hold different numbers of elements")
    if not padded and shape is not None and shape[2:] == kernel:
        return _reduced(visit, x, tuple(range(2, x.rank)), keep=True, mean=True)
    count = math.prod(kernel)
    windows = _windows(visit, len(kernel))
    term = ("SumPool", x.term, kernel, windows)
    scale = x.scale / Reals.of(float(count))
    return visit.made(term, scale, x.bias, x.size * count, x.reach, x.roundings + count + 1)


def global_average(visit: Visit) -> Form:
    """Add up images; the number of elements goes into the scale."""
    x = visit.form()
    return _reduced(visit, x, tuple(range(2, x.rank)), keep=True, mean=True)


def reduce(visit: Visit, *, mean: bool) -> Form:
    """Add up along axes; of a mean, the number of elements goes into the scale."""
    x, axes = visit.form(), reduced_axes(visit.node)
    if axes is None:
        raise refuse(visit, "its axes are not known")
    if not axes:
        return x
    keep = bool(visit.node.attributes.get_int("keepdims", 1))
    return _reduced(visit, x, tuple(sorted(int(axis) % x.rank for axis in axes)), keep=keep, mean=mean)


def _reduced(visit: Visit, x: Form, axes: tuple[int, ...], *, keep: bool, mean: bool) -> Form:
    shape = static_shape(visit.node.inputs[0])
    sizes = None if visit.node.inputs[0] is None else visit.node.inputs[0].shape
    counted = [sizes[axis] for axis in axes] if sizes is not None else [None]
    if shape is None and not all(isinstance(size, int) for size in counted):
        raise refuse(visit, "it is not known how many elements there are")
    if any(array.shape[axis] > 1 for array in (x.scale, x.bias) for axis in axes):
        raise refuse(visit, "scale or bias vary along the sum")
    count = math.prod(int(str(size)) for size in counted)
    number = Reals.of(float(count))
    scale, bias = (x.scale / number, x.bias) if mean else (x.scale, x.bias * number)
    reach = np.full((1,) * x.rank, float(x.reach.max()) * (1 if mean else count))
    if not keep:
        left = [axis for axis in range(x.rank) if axis not in axes]
        scale, bias = (array.reshape(*(array.shape[axis] for axis in left)) for array in (scale, bias))
        reach = reach.reshape((1,) * len(left))
    return visit.made(("ReduceSum", x.term, axes, keep), scale, bias, x.size * count, reach, x.roundings + count + 1)


def factors(visit: Visit, steps: np.ndarray) -> tuple[Hashable, ...]:
    """Return what tells factors from others, as part of a term: one for all elements, or each."""
    first = steps.reshape(-1)[0]
    return ("all", int(first)) if (steps == first).all() else ("each", visit.forms.array(steps.astype(np.int64)))


def refuse(visit: Visit, reason: str) -> NoFormError:
    """Say that a node has no form."""
    return NoFormError(f"{visit.node.op_type}: {reason}")


def positive(visit: Visit, form: Form) -> None:
    """Refuse scales that turn integers around."""
    if not (form.scale.signs() > 0).all():
        raise refuse(visit, "a scale is not positive")


def centred(visit: Visit, form: Form) -> Form:
    """Move a bias into the integers, of which it must be a multiple."""
    if not form.has_bias:
        return form
    steps = (form.bias / form.scale).integers()
    if steps is None:
        raise refuse(visit, "a bias is no multiple of the scale")
    term = visit.forms.term("Shift", form.term, factors(visit, steps))
    size = form.size + float(np.abs(steps).max())
    return replace(form, term=term, bias=Reals.zeros(form.rank), size=size, unsigned=False, added=None)


def in_one_scale(visit: Visit, form: Form, axes: Sequence[int]) -> Form:
    """Write a form with a scale that does not vary along axes: the least, of which the others are multiples."""
    base = form.scale
    for axis in axes:
        if base.shape[axis] > 1:
            least = np.abs(base.near).argmin(axis=axis, keepdims=True)
            base = base.moved(lambda places, at=least, axis=axis: np.take_along_axis(places, at, axis=axis))
    steps = (form.scale / base).integers()
    if steps is None:
        raise refuse(visit, "scales vary along the sum")
    term = form.term if (steps == 1).all() else visit.forms.term("Scaled", form.term, factors(visit, steps))
    unsigned = form.unsigned and bool((steps > 0).all())
    return replace(form, term=term, scale=base, size=form.size * float(np.abs(steps).max()), unsigned=unsigned)


def shrunk(array: Reals) -> Reals:
    """Keep size 1 along every axis on which all is the same."""
    for axis, size in enumerate(array.shape):
        first = array.moved(lambda places, axis=axis: np.take(places, [0], axis=axis)) if size > 1 else array
        if size > 1 and bool((array.near == first.near).all()) and array.equals(first):
            array = first
    return array
