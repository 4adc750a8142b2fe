"""Laws of Gather."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import integer
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.ops.facts.signs import is_never_negative
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Rewritten, no

_AXES_ARE_INPUTS = 13


def _cut_out(op: Builder, gather: ir.Node, row: ir.Node) -> Rewritten:
    start, end, step = row.inputs
    first, by = constant(start), constant(step)
    if by is None or by != 1 or first is None or first < 0:
        return no("the indices do not count up by one from a constant that is not negative", at=row)
    if end is None or not is_never_negative(end):
        return no("the end may be negative, and count from the end of the axis", at=row)
    if not is_only_read_by(row.outputs[0], [node for node in row.outputs[0].consumers() if _reads_as_index(node, row)]):
        return no("the indices have other consumers", at=row)
    axes = np.array([integer(gather, "axis", 0)], first.dtype)
    return op.Slice(gather.inputs[0], first.reshape(1), op.Unsqueeze(end, [0]), axes)


def _reads_as_index(node: ir.Node, row: ir.Node) -> bool:
    is_gather = (node.domain, node.op_type) == ("", "Gather") and node.graph is row.graph
    return is_gather and node.inputs[0] is not row.outputs[0]


_law = Vocabulary(_cut_out).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateGatherOfRange(LawPass):
    """Replace Gather with consecutive indices by Slice.

    Rewrites: ``Gather<axis=a>(x, Range(0, n, 1))`` → ``Slice(x, [0], [n], [a])``, which copies whole rows.
    Refuses:  steps other than one, a computed start, an end that may be negative, indices with other consumers, opsets
              below 13.
    Exactness: bit-exact for indices inside the axis, as Gather requires.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[{shape}] x, float[{counted}] z) => (float[?,?] y)
                <int64 b = {{{start}}}, int64 o = {{1}}, int64 i = {{0}}, int64[1] s, int64 e> {{
                s = Shape (z) e = Gather (s, i) r = Range (b, e, o) y = Gather <axis = {axis}> (x, r) }}"""
            for shape, counted, axis in (("N,7", "N", 0), ("5,N", "N", -1), ("6,4", "3", 1))
            for start in (0, 1)
        )
    )
    laws = (
        _law(
            "Gather(x, r := Range(...), ...) → cut_out(result, r)",
            When(f"opset >= {_AXES_ARE_INPUTS}", "opset < 13 has axes as attributes"),
            forks="duplicate",
        ),
    )
