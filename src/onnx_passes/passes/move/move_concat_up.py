"""Hoist Concat above elementwise operators: concatenate first, compute once."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dims, same_dtype
from onnx_passes.passes.move.forms import MovePass, shaped
from onnx_passes.passes.move.steady import elementwise, is_computed_as_max
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of


def _past(name: str) -> Rule:
    def pattern(op: Op) -> Var:
        first = getattr(op, name)(_allow_other_inputs=True, _outputs=["first"])
        second = getattr(op, name)(_allow_other_inputs=True)
        return op.Concat(first, second, _allow_other_inputs=True, _outputs=["result"])

    def rewrite(op: Builder, first: ir.Value, result: ir.Value) -> Rewritten:
        return _join_first(op, result.producer(), first.producer())

    return Rule(pattern, rewrite, name=name, source=source_of(_join_first))


def _join_first(op: Builder, node: ir.Node | None, first: ir.Node | None) -> Rewritten:
    assert node is not None
    assert first is not None
    if is_computed_as_max(op, first):
        return no("the sign of zeros depends on the shape", at=first)
    sources: list[ir.Value | None] = []
    for value in node.inputs:
        computed = None if value is None else value.producer()
        if value is None or computed is None or not _does_the_same(computed, first):
            return no("a part is computed differently", at=value)
        if value.is_graph_output() or any(user is not node for user in value.consumers()):
            return no("a part is used elsewhere", at=value)
        sources.append(computed.inputs[0])
    joined = shaped(op.like(node, sources), dims(node.outputs[0]))
    return op.like(first, [joined, *first.inputs[1:]])


def _does_the_same(a: ir.Node, b: ir.Node) -> bool:
    return (
        (a.domain, a.op_type, a.graph) == (b.domain, b.op_type, b.graph)
        and a.inputs[1:] == b.inputs[1:]
        and same_dtype(a.inputs[0], b.inputs[0])
        and _attributes(a) == _attributes(b)
    )


def _attributes(node: ir.Node) -> dict[str, object]:
    return {name: (a.type, a.ref_attr_name, a.value) for name, a in node.attributes.items()}


def _past_each(*, steady: bool) -> list[Rule]:
    return [_past(name) for name in elementwise(steady=steady, arity=1)]


@passes.verify.equality
@passes.register("reorder")
class MoveConcatUp(MovePass):
    """Hoist Concat above operators that treat all its operands alike.

    Rewrites: ``Concat(f(a), f(b))`` → ``f(Concat(a, b))`` for elementwise operators with one operand.
    Refuses:  operands with other operators, attributes, bounds or element types; results with other consumers; Relu of
              half precision in opset 18.
    Exactness: bit-exact; functions that round differently in other places are left to ``move-concat-up-rounding``.
    """

    moves = partial(_past_each, steady=True)


@passes.verify.tolerance
@passes.register("reorder")
class MoveConcatUpRounding(MovePass):
    """Hoist Concat above functions whose last bits depend on where an element lies in memory.

    Rewrites: as ``move-concat-up``, for transcendental functions.
    Refuses:  the cases that ``move-concat-up`` refuses.
    Exactness: up to rounding.
    """

    moves = partial(_past_each, steady=False)
