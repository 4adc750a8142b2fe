"""Sink transpositions below elementwise operators and other data movement."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import permutation
from onnx_passes.graph.shapes import dims, is_integral
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.move import axes
from onnx_passes.passes.move.forms import MovePass, exchange, is_forked, shaped, slots
from onnx_passes.passes.move.steady import elementwise
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_MOST_PARTS = 4
"""Maximum number of outputs of a Split with a rule."""


def _past_elementwise(*, steady: bool) -> list[Rule]:
    return [
        exchange(name, "Transpose", _past_operands, slot=slot, forks="duplicate")
        for name in elementwise(steady=steady)
        for slot in slots(name)
    ]


def _past_operands(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    if is_forked(transpose.outputs[0], node):
        return no("the transposed value is used elsewhere", at=transpose.outputs[0])
    x, perm = transpose.inputs[0], permutation(transpose)
    if traits_of(node).arity == 1 and "broadcast" not in node.attributes:
        inner = shaped(op.like(node, [x, *node.inputs[1:]]), dims(x))
        return op.like(transpose, [inner])
    if x is None or perm is None:
        return no("a rank is not known", at=node)
    return axes.elementwise(op, node, x, perm)


def _past_axes(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    x, perm = transpose.inputs[0], permutation(transpose)
    if x is None or perm is None:
        return no("the rank is not known", at=transpose)
    if node.op_type in axes.EXTREMES and not is_integral(x):
        return no("the choice between NaN and zeros of both signs depends on the order in memory", at=x)
    handler = axes.AXES.get(node)
    assert handler is not None
    return handler(op, node, x, perm)


def _past_steady() -> list[Rule]:
    return [
        *_past_elementwise(steady=True),
        *(exchange(name, "Transpose", _past_axes) for name in axes.STEADY),
        exchange("Concat", "Transpose", _past_axes, slot=1),
        *(
            exchange("Split", "Transpose", _past_axes, outputs=count, name=f"SplitIn{count}")
            for count in range(2, _MOST_PARTS + 1)
        ),
    ]


def _past_unsteady() -> list[Rule]:
    return [*_past_elementwise(steady=False), *(exchange(name, "Transpose", _past_axes) for name in axes.UNSTEADY)]


@passes.verify.equality
@passes.register("reorder")
class MoveTransposeDown(MovePass):
    """Sink transposes towards the outputs, where they meet and cancel.

    Rewrites: ``f(Transpose(x))`` → ``Transpose(f(x))`` for elementwise operators, if each other operand has the same
              transposition, is constant (and transposed back), or has only axes of size one where axes move; likewise
              for Concat, Expand, Gather, Pad, Slice, Split, Squeeze, Unsqueeze, QuantizeLinear, DequantizeLinear,
              ArgMax, ArgMin, and ReduceMax and ReduceMin of integers, whose axes are mapped.
    Refuses:  a transposition with other consumers, unless these only join it with results of this consumer; unknown
              ranks; computed axes, pads or targets; operands that would have to be transposed; Relu of half precision
              in opset 18.
    Exactness: bit-exact; operators that round differently in other places are left to
              ``move-transpose-down-rounding``.
    """

    moves = partial(_past_steady)


@passes.verify.tolerance
@passes.register("reorder")
class MoveTransposeDownRounding(MovePass):
    """Sink transposes below operators whose last bits depend on the order of elements in memory.

    Rewrites: ``f(Transpose(x))`` → ``Transpose(f(x))`` for transcendental functions, Max, Min and Where; for sums,
              means, norms and products along axes, Softmax, LogSoftmax and LpNormalization, whose axes are mapped;
              LayerNormalization, if the normalized axes stay where they are.
    Refuses:  the cases that ``move-transpose-down`` refuses; Softmax before opset 13, along rows of a matrix; Pow of
              integers.
    Exactness: up to rounding, and the sign of zeros for Max, Min and Where; vectors are summed in another order,
              and where they overflow, infinities and NaN may change.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    moves = partial(_past_unsteady)
