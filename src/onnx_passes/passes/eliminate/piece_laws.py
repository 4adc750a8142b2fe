"""Laws of Concat, Pad and Slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer, integers, is_given, text
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank, stays
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Refusal, Rewritten, no, yes

_REPEATABLE = ("constant", "edge")
_TO_THE_END = 2**31 - 1
"""The end that the standard recommends for dimensions of unknown size; larger ones count as well."""
_LARGEST = 2**63 - 1


def _has_nested(node: ir.Node) -> Answer:
    inner = next(_mergeable(node), None)
    return yes if inner is not None else no("no input is a Concat read only by Concat nodes of the same axis", at=node)


def _joined_once(op: Builder, node: ir.Node) -> Rewritten:
    nested = set(_mergeable(node))
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        inner = None if value is None else value.producer()
        inputs.extend([value] if inner is None or inner not in nested else inner.inputs)
    return op.Concat(*inputs, axis=integer(node, "axis", 0))


def _mergeable(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the Concat nodes among the inputs that can be merged."""
    for value in dict.fromkeys(node.inputs):
        inner = None if value is None else value.producer()
        if value is None or inner is None:
            continue
        if (inner.domain, inner.op_type) != ("", "Concat") or value.is_graph_output():
            continue
        if all(_continues(user, inner) for user in value.consumers()):
            yield inner


def _continues(node: ir.Node, inner: ir.Node) -> bool:
    """Return whether a node concatenates a Concat result further along the same axis."""
    is_concat = (node.domain, node.op_type) == ("", "Concat") and node.graph is inner.graph
    return is_concat and _axis(inner, node) == _axis(node, inner)


def _axis(node: ir.Node, other: ir.Node) -> int | None:
    """Return the axis, counted from the front if the rank of either node is known."""
    axis, length = integer(node, "axis", 0), rank(node.outputs[0]) or rank(other.outputs[0])
    return axis if axis is None or axis >= 0 or length is None else axis + length


def _adds_nothing(node: ir.Node) -> Answer:
    pads = integers(node, 1, "pads")
    if pads is None:
        return no("the amounts are not constant", at=node)
    return no("a pad is not zero", at=node) if any(pads) else yes


def _padded_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    x, length = inner.inputs[0], rank(inner.inputs[0])
    mode = text(inner, "mode", "constant")
    if mode not in _REPEATABLE or mode != text(outer, "mode", "constant"):
        return no("the modes differ, or are not constant or edge", at=outer)
    if mode == "constant" and not _same_filling(inner, outer):
        return no("the values differ, or are not constant", at=outer)
    first, second = _amounts(inner, length), _amounts(outer, length)
    if first is None or second is None or len(first) != len(second):
        return no("the amounts are not constant, or the axes differ", at=outer)
    if any(amount < 0 for amount in (*first, *second)):
        return no("a pad is negative", at=outer)
    pads = [p + q for p, q in zip(first, second, strict=True)]
    if argument(outer, 1) is None:
        return op.Pad(x, mode=mode, pads=pads, value=outer.attributes.get("value"))
    filling = argument(outer, 2)
    value = [] if filling is None else [filling]
    return op.Pad(x, np.array(pads, np.int64), *value, mode=mode)


def _amounts(node: ir.Node, length: int | None) -> list[int] | None:
    """Return the pads of all axes: first the starts, then the ends."""
    pads, given = integers(node, 1, "pads"), argument(node, 3)
    if pads is None or given is None:
        return pads
    axes = integers(node, 3)
    if axes is None or length is None:
        return None
    spread = [0] * (2 * length)
    for at, axis in enumerate(axes):
        spread[axis % length] = pads[at]
        spread[axis % length + length] = pads[at + len(axes)]
    return spread


def _same_filling(inner: ir.Node, outer: ir.Node) -> bool:
    if argument(outer, 1) is None:
        values = [node.attributes.get("value") for node in (inner, outer)]
        return all(value is None for value in values)
    first, second = argument(inner, 2), argument(outer, 2)
    if first is None and second is None:
        return True
    return first is second or _bits(first, outer) == _bits(second, inner) is not None


def _bits(filling: ir.Value | None, other: ir.Node) -> bytes | None:
    """Return the bits of a constant padding value; a missing one is zero."""
    array = constant(filling)
    if array is not None:
        return array.tobytes() if array.dtype != object else None
    like = constant(argument(other, 2)) if filling is None else None
    return None if like is None or like.dtype == object else np.zeros_like(like).tobytes()


@dataclass(frozen=True)
class _Cut:
    start: int
    end: int
    step: int


def _cuts(node: ir.Node) -> dict[int, _Cut] | Refusal:
    """Return the slices by axis; axes count from the front if the rank is known."""
    starts, ends = integers(node, 1, "starts"), integers(node, 2, "ends")
    if starts is None or ends is None:
        return no("start or end is not constant", at=node)
    axes = integers(node, 3, "axes") if is_given(node, 3, "axes") else list(range(len(starts)))
    steps = integers(node, 4) if is_given(node, 4, "steps") else [1] * len(starts)
    if axes is None or steps is None:
        return no("axes or steps are not constant", at=node)
    length = rank(node.inputs[0])
    if length is None and any(axis < 0 for axis in axes):
        return no("an axis is counted from an unknown end", at=node)
    axes = [axis + (length or 0) if axis < 0 else axis for axis in axes]
    return {axis: _Cut(*cut) for axis, *cut in zip(axes, starts, ends, steps, strict=True)}


def _takes_everything(node: ir.Node) -> Answer:
    steps = integers(node, 4) if is_given(node, 4, "steps") else [1]
    if steps is not None and all(step > 0 for step in steps) and stays(node):
        return yes
    cuts = _cuts(node)
    if isinstance(cuts, Refusal):
        return cuts
    for axis, cut in cuts.items():
        size = dimension(node.inputs[0], axis)
        if size is None:
            whole = (cut.start, cut.step) == (0, 1) and cut.end >= _TO_THE_END
        else:
            taken = len(range(*slice(cut.start, cut.end, cut.step).indices(size)))
            whole = taken == size and (cut.step == 1 or size <= 1)
        if not whole:
            return no("it drops elements, or the size is unknown", at=node)
    return yes


def _sliced_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    first, second = _cuts(inner), _cuts(outer)
    if isinstance(first, Refusal):
        return first
    if isinstance(second, Refusal):
        return second
    cuts = {**first, **second}
    for axis in first.keys() & second.keys():
        both = _composed(first[axis], second[axis])
        if both is None:
            return no("an axis is sliced twice, not both forwards by steps of one", at=outer)
        cuts[axis] = both
    axes = sorted(cuts)
    starts, ends = [cuts[axis].start for axis in axes], [cuts[axis].end for axis in axes]
    x = inner.inputs[0]
    if argument(outer, 1) is None:
        return op.Slice(x, starts=starts, ends=ends, axes=axes)
    steps = [cuts[axis].step for axis in axes]
    return op.Slice(x, *(np.array(numbers, np.int64) for numbers in (starts, ends, axes, steps)))


def _composed(first: _Cut, second: _Cut) -> _Cut | None:
    """Compose two slices of one axis that count from the front."""
    if first.step != 1 or second.step != 1 or min(first.start, first.end, second.start, second.end) < 0:
        return None
    start = min(first.start + second.start, _LARGEST)
    return _Cut(start, min(first.end, first.start + second.end), 1)


_law = Vocabulary(_adds_nothing, _has_nested, _joined_once, _padded_once, _sliced_once, _takes_everything).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateConcat(LawPass):
    """Merge nested Concat nodes along the same axis.

    Rewrites: ``Concat(a, Concat(b, c), d)`` → ``Concat(a, b, c, d)``.
    Refuses:  different axes, also where one is counted from the end of an unknown rank; an inner Concat with consumers
              other than Concat nodes along its axis.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            graph.replace("float", kind)
            for kind in ("float", "int64", "bool")
            for graph in (
                """g (float[2,N] a, float[2,M] b) => (float[2,K] y) {
                    c = Concat <axis = 1> (a, b) y = Concat <axis = -1> (b, c, a)
                }""",
                """g (float[2] a, float[3] b) => (float[12] y) {
                    c = Concat <axis = 0> (a, b) y = Concat <axis = 0> (c, a, c)
                }""",
                """g (float[2] a, float[0] b) => (float[2] y) {
                    c = Concat <axis = 0> (a, b) y = Concat <axis = 0> (b, c)
                }""",
                """g (float[2,2] a, float[1,2] b) => (float[6,2] y) {
                    c = Concat <axis = -2> (a, b) d = Concat <axis = 0> (c, b) y = Concat <axis = 0> (a, d)
                }""",
                """g (float[2] a, float[N] b) => (float[K] y, float[L] z) {
                    c = Concat <axis = 0> (a, b) y = Concat <axis = 0> (c, a) z = Concat <axis = 0> (b, c)
                }""",
                """g (float[2] a) => (float[4] c, float[6] y) {
                    c = Concat <axis = 0> (a, a) d = Concat <axis = 0> (a) y = Concat <axis = 0> (c, d)
                }""",
            )
        )
    )
    laws = (_law("Concat(x, ...) → joined_once(result)", When("has_nested(result)"), name="ConcatOfConcat"),)


@passes.verify.equality
@passes.register("eliminate")
class EliminatePad(LawPass):
    """Remove Pad nodes without effect, and merge consecutive ones.

    Rewrites: ``Pad(x, [0, …])`` → ``x``; ``Pad(Pad(x, p), q)`` → ``Pad(x, p + q)``, if both pad with the same constant
              or both repeat the edge.
    Refuses:  computed pads; negative pads in a pair; different modes, values or axes.
    Exactness: bit-exact.
    """

    laws = (
        _law("Pad(x, ...) → x", When("adds_nothing(result)")),
        _law("Pad(inner := Pad(x, ...), ...) → padded_once(result, inner)", name="PadOfPad", forks="duplicate"),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateSlice(LawPass):
    """Remove slices that take everything, and merge consecutive ones.

    Rewrites: ``Slice(x, [0], [INT_MAX])`` → ``x``, and other ways to take everything forwards;
              ``Slice(Slice(x))`` → ``Slice(x)``, if no axis is sliced twice except forwards by steps of one.
    Refuses:  backward slices of more than one element; computed arguments; the same axis twice, with other steps or
              counted from an unknown end.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[{shape}] x) => (float[?,?] y) <int64[1] a = {{1}}, int64[1] b = {{{end}}},
                int64[1] k = {{{axis}}}, int64[1] c = {{{start}}}, int64[1] d = {{99}}, int64[1] l = {{{other}}},
                int64[1] o = {{0}}> {{ {body} }}"""
            for shape in ("6,8", "N,7")
            for end, axis, start, other in ((5, 1, 1, 1), (7, 1, 0, 0), (4, -1, 1, -2), (6, 1, 2, 1))
            for body in (
                "s = Slice (x, a, b, k) y = Slice (s, c, d, l)",
                "y = Slice (x, o, d, l)",
            )
        )
    )
    laws = (
        _law("Slice(x, ...) → x", When("takes_everything(result)")),
        _law("Slice(inner := Slice(x, ...), ...) → sliced_once(result, inner)", name="SliceOfSlice", forks="duplicate"),
    )
