"""Data types of results that are computed element by element, or only moved."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes import BIPOLAR, IntegerType, Range
from onnx_passes.datatypes.smallest import integer_ends
from onnx_passes.graph.constants import constant
from onnx_passes.passes.datatypes.facts import (
    DATATYPES,
    QUANTIZED_DOMAINS,
    UNKNOWN,
    DatatypeRule,
    Fact,
    Facts,
    fact_of_element,
)

_UNIT = Range(-1, 1)


def given(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input, if there is one."""
    return node.inputs[index] if index < len(node.inputs) else None


def like_first(node: ir.Node, facts: Facts) -> Fact | None:
    """Take over what is known of the first input: its numbers are only moved, or some of them chosen."""
    return facts.of(given(node, 0))


def _concat(node: ir.Node, facts: Facts) -> Fact | None:
    """Join what is known of all inputs: each of them contributes numbers."""
    return reduce(Fact.joined, [facts.of(value) for value in node.inputs]) if node.inputs else None


def _arithmetic(
    operation: Callable[..., Range], arity: int | None = None, *, keeps_bipolar: bool = False
) -> DatatypeRule:
    def rule(node: ir.Node, facts: Facts) -> Fact | None:
        known = [facts.of(value) for value in node.inputs]
        ranges = [fact.range for fact in known if fact.range is not None]
        if len(ranges) < len(known) or len(ranges) != (arity or len(known)) or not ranges:
            return None
        if keeps_bipolar and all(fact.datatype == BIPOLAR for fact in known):
            return known[0]
        return facts.computed(node.outputs[0], operation(*ranges))

    return rule


def _abs(a: Range) -> Range:
    return Range(0 if 0 in a else min(abs(a.low), abs(a.high)), max(abs(a.low), abs(a.high)))


def _sum(*ranges: Range) -> Range:
    return reduce(Range.__add__, ranges)


def _max(*ranges: Range) -> Range:
    return Range(max(a.low for a in ranges), max(a.high for a in ranges))


def _min(*ranges: Range) -> Range:
    return Range(min(a.low for a in ranges), min(a.high for a in ranges))


def _sign(node: ir.Node, facts: Facts) -> Fact | None:
    """Give floats ternary signs: that of 0 is 0."""
    known = facts.of(given(node, 0))
    if known.datatype == BIPOLAR:
        return known
    return Fact.between(_UNIT if known.range is None else known.range.clamped(-1, 1))


def _relu(node: ir.Node, facts: Facts) -> Fact | None:
    known = facts.of(given(node, 0))
    if known.range is not None and known.range.low >= 0:
        return known
    return None if known.range is None else Fact.between(known.range.clamped(0, None))


def _clip(node: ir.Node, facts: Facts) -> Fact | None:
    """Clamp the range; an end that is no integer is one of the results, if it cuts something off."""
    known = facts.of(given(node, 0))
    if known.range is None:
        return None
    ends: list[int | None] = []
    for index, name in ((1, "min"), (2, "max")):
        end = _end(node, index, name)
        if end is None or math.isnan(end):
            return None
        cuts = end > known.range.low if name == "min" else end < known.range.high
        if cuts and not float(end).is_integer():
            return None
        ends.append(int(end) if cuts else None)
    return known if ends == [None, None] else Fact.between(known.range.clamped(*ends))


def _end(node: ir.Node, index: int, name: str) -> float | None:
    """Return where a Clip ends, infinity if nowhere, and nothing if that is not known beforehand."""
    value, nowhere = given(node, index), -math.inf if name == "min" else math.inf
    if value is None:
        return node.attributes.get_float(name, nowhere)
    array = constant(value)
    if array is None or array.size != 1:
        return None
    return int(array.reshape(-1)[0]) if array.dtype.kind in "iu" else float(array.reshape(-1)[0])


def _pad(node: ir.Node, facts: Facts) -> Fact | None:
    known = facts.of(given(node, 0))
    if node.attributes.get_string("mode", "constant") != "constant":
        return known
    value = given(node, 2)
    if value is not None:
        return known.joined(facts.of(value))
    return _with_number(known, node.attributes.get_float("value", 0.0))


def _im2col(node: ir.Node, facts: Facts) -> Fact | None:
    known = facts.of(given(node, 0))
    padded = any(node.attributes.get_ints("pad_amount", ()))
    return _with_number(known, float(node.attributes.get_int("pad_value", 0))) if padded else known


def _with_number(fact: Fact, number: float) -> Fact:
    if bool(fact.datatype.allowed(np.array(number))):
        range_ = None if fact.range is None else fact.range | Range(int(number), int(number))
        return Fact(fact.datatype, range_)
    return fact.joined(Fact.between(Range(int(number), int(number)))) if number == int(number) else UNKNOWN


def _trilu(node: ir.Node, facts: Facts) -> Fact | None:
    return _with_number(facts.of(given(node, 0)), 0.0)


def _where(node: ir.Node, facts: Facts) -> Fact | None:
    return facts.of(given(node, 1)).joined(facts.of(given(node, 2)))


def _scatter(node: ir.Node, facts: Facts) -> Fact | None:
    if node.attributes.get_string("reduction", "none") != "none":
        return None
    return facts.of(given(node, 0)).joined(facts.of(given(node, 2)))


def _resize(node: ir.Node, facts: Facts) -> Fact | None:
    extrapolates = node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    nearest = node.attributes.get_string("mode", "nearest") == "nearest"
    return facts.of(given(node, 0)) if nearest and not extrapolates else None


def _cast(node: ir.Node, facts: Facts) -> Fact | None:
    known, output = facts.of(given(node, 0)), node.outputs[0]
    target = ir.DataType(node.attributes.get_int("to", 0))
    if target.is_floating_point() and known.datatype.fits(target.name):
        return known
    if known.range is None or target is ir.DataType.BOOL:
        return fact_of_element(target)
    found = facts.computed(output, known.range) if output.dtype is target else fact_of_element(target)
    return known if found.range == known.range else found


def _round(node: ir.Node, facts: Facts) -> Fact | None:
    known = facts.of(given(node, 0))
    return known if isinstance(known.datatype, IntegerType) else None


def _constant_of_shape(node: ir.Node, facts: Facts) -> Fact | None:
    attribute = node.attributes.get("value")
    array = np.array(0.0, np.float32) if attribute is None else attribute.as_tensor().numpy()
    ends = integer_ends(array)
    return None if ends is None else Fact.between(Range(*ends))


def _dropout(node: ir.Node, facts: Facts) -> Fact | None:
    training = given(node, 2)
    array = constant(training)
    return facts.of(given(node, 0)) if training is None or (array is not None and not array.any()) else None


MOVEMENT = (
    "Compress", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "GlobalMaxPool", "Identity", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "ReverseSequence", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze",
)  # fmt: skip

DATATYPES.attach(
    {
        **dict.fromkeys(MOVEMENT, like_first),
        "Abs": _arithmetic(_abs, 1),
        "Add": _arithmetic(Range.__add__, 2),
        "Cast": _cast,
        "Ceil": _round,
        "Clip": _clip,
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "Dropout": _dropout,
        "Floor": _round,
        "Max": _arithmetic(_max),
        "Min": _arithmetic(_min),
        "Mul": _arithmetic(Range.__mul__, 2, keeps_bipolar=True),
        "Neg": _arithmetic(Range.__neg__, 1, keeps_bipolar=True),
        "Pad": _pad,
        "Relu": _relu,
        "Resize": _resize,
        "Round": _round,
        "Scatter": _scatter,
        "ScatterElements": _scatter,
        "ScatterND": _scatter,
        "Sign": _sign,
        "Sub": _arithmetic(Range.__sub__, 2),
        "Sum": _arithmetic(_sum),
        "Trilu": _trilu,
        "Upsample": _resize,
        "Where": _where,
    }
)
DATATYPES.attach(
    {
        "Im2Col": _im2col,
        "MaxPoolNHWC": like_first,
        "MaxPool": like_first,
        "DebugMarker": like_first,
    },
    domains=QUANTIZED_DOMAINS,
)
