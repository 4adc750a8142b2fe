"""Make one concatenation of nested ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import integer
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.eliminate.forms import examples
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateConcat(Transformation, RewriteRuleSetPass):
    """Merge nested Concat nodes along the same axis.

    Rewrites: ``Concat(a, Concat(b, c), d)`` → ``Concat(a, b, c, d)``.
    Refuses:  different axes, also where one is counted from the end of an unknown rank; an inner concatenation that
              others use.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
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
                """g (float[2] a) => (float[4] c, float[6] y) {
                    c = Concat <axis = 0> (a, a) d = Concat <axis = 0> (a) y = Concat <axis = 0> (c, d)
                }""",
            )
        )
    )

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        return [Rule(_pattern, _rewrite, _check, name="ConcatOfConcat")]


def _pattern(op: Any, x: Any) -> Any:
    return op.Concat(x, _allow_other_inputs=True, _outputs=["result"])


def _check(op: Match) -> Any:
    inner = next(_nested(op.root), None)
    return yes if inner is not None else no("no input is such a concatenation, for this alone", at=op.root)


def _rewrite(op: Any, result: ir.Value) -> Any:
    node = result.producer()
    assert node is not None
    nested = set(_nested(node))
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        inner = None if value is None else value.producer()
        inputs.extend([value] if inner is None or inner not in nested else inner.inputs)
    return op.Concat(*inputs, axis=integer(node, "axis", 0))


def _nested(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the concatenations among the inputs that may be taken apart."""
    for value in dict.fromkeys(node.inputs):
        inner = None if value is None else value.producer()
        if value is None or inner is None or inner.graph is not node.graph:
            continue
        if (inner.domain, inner.op_type) != ("", "Concat") or value.is_graph_output():
            continue
        if all(user is node for user in value.consumers()) and _axis(inner, node) == _axis(node, inner):
            yield inner


def _axis(node: ir.Node, other: ir.Node) -> int | None:
    """Return the axis, counted from the front if one of two nodes knows the rank."""
    axis, length = integer(node, "axis", 0), rank(node.outputs[0]) or rank(other.outputs[0])
    return axis if axis is None or axis >= 0 or length is None else axis + length
