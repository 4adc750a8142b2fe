"""Put standard operators in the place of thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.builder import Builder
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import Definition
from onnx_passes.passes.thresholds.examples import examples
from onnx_passes.passes.thresholds.nodes import DOMAINS
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class InlineThresholds(Transformation, RewriteRuleSetPass):
    """Lower thresholds to comparisons in standard operators: one by one, or by bisection if there are many.

    Rewrites: ``MultiThreshold(x, T)`` → ``Cast(x >= T[:, 0]) + Cast(x >= T[:, 1]) + …``; quantizers stay, unlike with
              inline-qonnx.
    Refuses:  thresholds whose number is not known, channels on an axis that is not known, and operators that the model
              has a function for.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples()
    functions = True
    converts = MappingProxyType({"MultiThreshold": "it is not defined with so many inputs"})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each domain."""
        return [Rule(_pattern(domain), _rewrite, _check, name=f"Inline of {domain}") for domain in DOMAINS]


def _pattern(domain: str) -> Callable[..., Var]:
    def pattern(op: Op, x: Var) -> Var:
        return op.MultiThreshold(x, _domain=domain, _allow_other_inputs=True, _outputs=["y"])

    return pattern


def _defined(y: ir.Value) -> tuple[ir.Node, Definition]:
    node = y.producer()
    assert node is not None
    definition = definition_of(node)
    assert definition is not None
    return node, definition


def _check(match: Match, y: ir.Value) -> Refusal | bool:
    node, definition = _defined(y)
    if node.op_identifier() in match.model.functions:
        return no("the model has a function for it", at=y)
    try:
        definition.call(node)
    except ModelError as error:
        return no(error.what, at=y)
    return yes


def _rewrite(op: Builder, y: ir.Value) -> Rewritten:
    node, definition = _defined(y)
    try:
        return definition.lower(op, definition.call(node))
    except ModelError as error:
        return no(error.what, at=y)
