"""Quantize, or count thresholds, before a transposition rather than behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.permutations import Permutation, inverse, permutation, permuted, untransposed
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.ops.collection import definitions
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.thresholds.nodes import Thresholds
from onnx_passes.passes.thresholds.writing import layout_of_channels
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_GENERAL = GENERAL_DOMAINS[0]
_THRESHOLDS = "float[3, 2] t = {0, 1, -1, 2, 0.5, 0.75}, float[3, 1, 2] v = {0, 1, -1, 2, 0.5, 0.75}"
_EXAMPLES = [
    f"""<ir_version: 9, opset_import: ["" : 20, "{_GENERAL}" : 1, "{OUR_DOMAIN}" : 1]>
    g (float[2, {size}, 3] x) => (float[2, 3, {size}] y)
    <float[3, 1] s = {{0.5, 0.25, 1}}, float z = {{0}}, float two = {{2}}, float b = {{4}}, float m = {{6}},
    {_THRESHOLDS}>
    {{ h = Transpose <perm = [0, 2, 1]> (x) y = {call} }}"""
    for size in (2, 4)
    for call in (
        f"{_GENERAL}.Quant <signed: int = 1, narrow: int = 0> (h, s, z, b)",
        f"{_GENERAL}.BipolarQuant (h, s)",
        f"{_GENERAL}.FloatQuant (h, s, two, two, two, m)",
        f"{_GENERAL}.Trunc (h, s, z, b, two)",
        f'{_GENERAL}.MultiThreshold <data_layout: string = "NCW"> (h, t)',
        f"{OUR_DOMAIN}.MultiThreshold (h, v)",
    )
]


@passes.verify.equality
@passes.register(tags=("layout",))
class MoveTransposePastQuantizer(Transformation, RewriteRuleSetPass):
    """Sink transposes below quantizers and thresholds of QONNX.

    Rewrites: ``Quant(Transpose(x), s, z, b)`` → ``Transpose(Quant(x, s', z', b'))`` with the axes of constant
              parameters put back, and so on for all quantizers;
              ``MultiThreshold(Transpose(x), t)`` → ``Transpose(MultiThreshold(x, t))`` with the layout before.
    Refuses:  a transposition that others use too; parameters of channels that are computed; layouts that QONNX has no
              name for; unknown ranks.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints = hints(*_EXAMPLES)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator, under the name that all have once they are imported."""
        thresholds = [_rule("MultiThreshold", domain, _past_thresholds) for domain in (_GENERAL, OUR_DOMAIN)]
        quantizers = {(each.name, each.domains[0]): None for each in definitions() if isinstance(each, Quantizer)}
        return [*(_rule(name, domain, _past_quantizer) for name, domain in quantizers), *thresholds]


def _rule(name: str, domain: str, move: Callable[[Builder, ir.Node, ir.Value, Permutation], Rewritten]) -> Rule:
    def pattern(op: Op, x: Var) -> Var:
        moved = op.Transpose(x, _outputs=["moved"])
        return getattr(op, name)(moved, _domain=domain, _allow_other_inputs=True, _outputs=["y"])

    def rewrite(op: Builder, x: ir.Value, moved: ir.Value, y: ir.Value) -> Rewritten:
        node, perm = y.producer(), permutation(moved.producer())
        assert node is not None
        if perm is None or rank(x) is None:
            return no("the rank is not known", at=moved)
        return move(op, node, x, perm)

    return Rule(pattern, rewrite, name=name if domain == _GENERAL else f"{name}Of{domain}", commute=False)


def _past_quantizer(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    given = [value for value in node.inputs[1:] if value is not None]
    if len(given) != len(node.inputs) - 1 or any((rank(value) or 0) > len(perm) for value in given):
        return no("a parameter is missing, or gives the result another rank", at=node)
    parameters = [untransposed(value, perm) for value in given]
    if any(value is None for value in parameters):
        return no("a parameter would have to be transposed", at=given[parameters.index(None)])
    return op.Transpose(_like(op.like(node, [x, *parameters]), node, perm), perm=perm)


def _past_thresholds(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    found = Thresholds.of(node)
    if isinstance(found, str):
        return no(found, at=node)
    axes = {perm[axis]: size for axis, size in found.axes.items()}
    if node.domain == OUR_DOMAIN:
        back = inverse(perm)
        given = [_put_back(constant(value), back) for value in node.inputs[1:]]
        return op.Transpose(_like(op.like(node, [x, *given]), node, perm), perm=perm)
    layout = layout_of_channels(len(perm), axes)
    if layout is None:
        return no("QONNX has no name for the layout before", at=node)
    counted = op.like(node, [x, node.inputs[1]], data_layout=layout)
    return op.Transpose(_like(counted, node, perm), perm=perm)


def _put_back(array: np.ndarray | None, back: Permutation) -> np.ndarray:
    """Put axes back in front of the one that counts thresholds."""
    assert array is not None
    more = len(back) + 1 - array.ndim
    return np.ascontiguousarray(array.reshape((1,) * more + array.shape).transpose([*back, len(back)]))


def _like(value: ir.Value, node: ir.Node, perm: Permutation) -> ir.Value:
    sizes = dims(node.outputs[0])
    value.type = node.outputs[0].type
    return shaped(value, None if sizes is None else permuted(sizes, inverse(perm)))
