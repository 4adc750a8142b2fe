"""Laws of scalars that become vectors of one element: compute vectors from the start."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import integer, integers
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.passes.eliminate.scalars import ELEMENTWISE, VectorPlan, gains, makes_vector, picked, unsqueezed
from onnx_passes.rewrite.hints import hints, in_opset
from onnx_passes.rewrite.laws import LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


def _gathered_as_vector(op: Builder, unsqueeze: ir.Node, gather: ir.Node) -> Rewritten:
    axis, index = integer(gather, "axis", 0), constant(gather.inputs[1])
    if index is None or index.ndim != 0 or axis is None:
        return no("the index is not one constant number", at=gather)
    length = rank(gather.inputs[0])
    if not _brings_back(unsqueeze, axis, length):
        return no("the Unsqueeze does not just restore the gathered axis", at=unsqueeze)
    scalar = gather.outputs[0]
    back = [node for node in scalar.consumers() if node.graph is gather.graph and _brings_back(node, axis, length)]
    if not is_only_read_by(scalar, back):
        return no("the gathered scalar has other consumers", at=gather)
    return op.Gather(gather.inputs[0], index.reshape(1), axis=axis % length if length else axis)


def _brings_back(node: ir.Node, axis: int, length: int | None) -> bool:
    """Return whether a node only restores ``axis``, which was removed from ``length`` axes."""
    axes = integers(node, 1, "axes") if (node.domain, node.op_type) == ("", "Unsqueeze") else None
    if axes is None or len(axes) != 1:
        return False
    return axes[0] == axis or bool(length and axes[0] % length == axis % length)


def _gathered(op: Builder, squeeze: ir.Node, cut: ir.Node) -> Rewritten:
    found = picked(squeeze, cut)
    if isinstance(found, Refusal):
        return found
    axis, index = found
    return op.Gather(cut.inputs[0], np.array(index, np.int64), axis=axis)


def _computed_with_vectors(op: Builder, unsqueeze: ir.Node) -> Rewritten:
    plan = VectorPlan(unsqueeze)
    twin = unsqueezed(plan.scalar, unsqueeze) if makes_vector(unsqueeze) else None
    if twin is not None:
        return twin
    if plan.refusal is not None:
        return plan.refusal
    if not gains(plan):
        return no("the scalars have other consumers: no node would be saved", at=unsqueeze)
    return plan.build(op)


_law = Vocabulary(_computed_with_vectors, _gathered, _gathered_as_vector, Elementwise=sorted(ELEMENTWISE)).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateUnsqueezeOfScalar(LawPass):
    """Hoist Unsqueeze above scalar arithmetic that ends in vectors of one element.

    Rewrites: ``Unsqueeze(Gather<axis=a>(x, i), [a])`` → ``Gather<axis=a>(x, [i])``;
              ``Unsqueeze(Sub(Squeeze(v), 1), [0])`` → ``Sub(v, [1])``, likewise for chains of elementwise operators
              on scalars that are constant, squeezed, gathered from a vector, or unsqueezed elsewhere;
              ``Squeeze(Slice(x, [i], [i + 1], [a]), [a])`` → ``Gather<axis=a>(x, i)``.
    Refuses:  indices and axes that are not constant; scalars with other consumers, if no node would be saved; slices
              with other consumers, or along an axis of unknown size, which may be empty.
    Exactness: bit-exact.
    """

    # Every rewrite removes a Squeeze or Unsqueeze for good, so that rewriting terminates.
    fuzz_hints = hints(
        *(
            f"g ({kind}[{x}] x) => ({kind}[{y}] y) <{index} i = {{{i}}}, int64[1] a = {{{to}}}>"
            f" {{ s = Gather <axis = {axis}> (x, i) y = Unsqueeze (s, a) }}"
            for kind, x, y, index, i, axis, to in (
                ("int64", "4", "1", "int64", -1, 0, 0),
                ("float", "2,3,4", "2,1,4", "int32", 2, 1, -2),
                ("bool", "2,3", "2,1", "int64", -3, -1, 1),
            )
        ),
        *(
            f"g (int64[1] v, int64[3] w) => ({kind}[1] y) <int64 two = {{2}}, int64 i = {{-1}}, int64[1] a = {{{to}}}>"
            f" {{ s = Squeeze (v) t = Gather (w, i) {body} y = Unsqueeze (z, a) }}"
            for kind, to, body in (
                ("int64", 0, "z = Sub (s, t)"),
                ("int64", 0, "z = Mul (s, s)"),
                ("int64", 0, "z = Pow (t, two)"),
                ("int64", -1, "z = Neg (s)"),
                ("int64", -1, "r = Mul (two, t) z = Max (r, s, t)"),
                ("int64", 0, "r = Abs (s) q = Add (r, t) z = Sub (q, r)"),
                ("int64", 0, "r = Greater (s, t) z = Where (r, two, t)"),
                ("float", 0, "z = Cast <to = 1> (s)"),
                ("float", -1, "r = Cast <to = 1> (t) q = Cast <to = 1> (s) z = Div (r, q)"),
                ("bool", 0, "z = Less (two, t)"),
                ("bool", -1, "r = Equal (s, t) z = Not (r)"),
                ("double", -1, "r = Cast <to = 11> (t) z = Sqrt (r)"),
            )
        ),
        in_opset(
            11,
            "g (float16[1] v, float16[3] w) => (float16[1] y) <float16 c = {2}, int64 i = {1}>"
            " { s = Squeeze <axes = [0]> (v) t = Gather (w, i) r = Div (s, c) z = Add (r, t)"
            " y = Unsqueeze <axes = [0]> (z) }",
        ),
        *(
            f"g (float[{x}] x) => (float[{y}] y) <int64[1] b = {{{start}}}, int64[1] e = {{{end}}},"
            f" int64[1] a = {{{axis}}}> {{ s = Slice (x, b, e, a) y = Squeeze (s, a) }}"
            for x, y, start, end, axis in (
                ("4", "", -1, 9223372036854775807, 0),
                ("2,3,4", "2,4", 1, 2, 1),
                ("N,3", "N", -3, -2, -1),
            )
        ),
    )
    laws = (
        _law(
            "Unsqueeze(s := Gather(x, ...), ...) → gathered_as_vector(result, s)",
            name="UnsqueezeOfGather",
            forks="duplicate",
        ),
        _law("Squeeze(s := Slice(x, ...), ...) → gathered(result, s)", name="SqueezeOfSlice", forks="duplicate"),
        _law(
            "Unsqueeze(Elementwise(...), ...) → computed_with_vectors(result)",
            name="UnsqueezeOfElementwise",
            commute=False,
            forks="duplicate",
        ),
    )
