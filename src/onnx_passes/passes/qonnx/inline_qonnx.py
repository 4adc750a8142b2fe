"""Replace operators of QONNX, Brevitas and FINN by standard ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import MappingProxyType

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.operators import Key
from onnx_passes.ops.definition import DEFINITIONS, definition_of
from onnx_passes.passes.qonnx.dialect import is_backend_node
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.leftovers import ANY
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("inline", tags=("qonnx",))
class InlineQonnx(Transformation, RewriteRuleSetPass):
    """Lower operators of QONNX, Brevitas and FINN to standard ones, including subgraphs and functions.

    Rewrites: ``Quant(x, s, z, b)`` → ``(Round(Clip(x / s + z)) - z) * s``, likewise for all operators that are defined
              here; constant subexpressions are folded.
    Refuses:  operators that the model overrides by a function (inline them with inline-functions; functions made by
              inject-ops or version 0.4 are removed by eject-ops before), and operators with attributes of an enclosing
              function.
    Exactness: bit-exact.
    """

    needs = ("eject-ops", "shape-inference")

    functions = True
    converts = MappingProxyType({ANY: "there is no such operator of QONNX"})

    def is_wanted(self, node: ir.Node) -> bool:
        """Return whether a node is in a domain of defined operators, and not hardware."""
        return any(node.domain == domain for domain, _ in DEFINITIONS.table()) and not is_backend_node(node)

    def reaches(self, rule: str) -> list[tuple[str, str]]:
        """Return the modules that define the operator of a rule."""
        versions = [each for (_, name), each in DEFINITIONS.table().items() if rule == _rule_name(name)]
        modules = {type(each).__module__.rpartition(".") for definitions in versions for each in definitions}
        return sorted((package, module) for package, _, module in modules)

    def compile(self) -> RuleIndex:
        """Compile a rule for each defined operator, once for all passes."""
        return _compiled(frozenset(DEFINITIONS.table()))


@cache
def _compiled(operators: frozenset[Key]) -> RuleIndex:
    return RuleIndex(inlining(operators))


def inlining(operators: Iterable[Key]) -> list[Rule]:
    """Return one rule for each operator that replaces it by its definition."""
    return [
        node_rule(name, _lowered, _check, domain=domain, name=_rule_name(name)) for domain, name in sorted(operators)
    ]


def _rule_name(operator: str) -> str:
    return f"Inline{operator}"


def _check(match: Match, node: ir.Node) -> Answer:
    if node.op_identifier() in match.model.functions:
        return no("the model has a function for the operator", at=node)
    definition = definition_of(node)
    if definition is None:
        return no("the operator has no version with this number of inputs", at=node)
    try:
        definition.call(node)
    except ModelError as error:
        return no(error.what, at=node)
    return yes


def _lowered(op: Builder, node: ir.Node) -> Rewritten:
    definition = definition_of(node)
    assert definition is not None
    return definition.lower(op, definition.call(node))
