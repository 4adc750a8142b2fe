"""Sink transpositions below quantizers and thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import Permutation, permutation
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN, definitions
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.passes.move.quantizer_axes import past_quantizer, past_thresholds
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
              parameters permuted back, likewise for all quantizers;
              ``MultiThreshold(Transpose(x), t)`` → ``Transpose(MultiThreshold(x, t))`` with the layout before the
              transposition.
    Refuses:  a transposition with other consumers; per-channel parameters that are computed; layouts without a name in
              QONNX; unknown ranks.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints = hints(*_EXAMPLES)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator, under the name that it has after import."""
        thresholds = [_rule("MultiThreshold", domain, past_thresholds) for domain in (_GENERAL, OUR_DOMAIN)]
        quantizers = {(each.name, each.domains[0]): None for each in definitions() if isinstance(each, Quantizer)}
        return [*(_rule(name, domain, past_quantizer) for name, domain in quantizers), *thresholds]


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
