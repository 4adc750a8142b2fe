"""Check the result of a rewrite before the model is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError, RewriteError
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.edits import may_rename, used_values
from onnx_passes.graph.schemas import misspelt
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.nesting import Nesting
from onnx_passes.rewrite.refusal import Refusal, reason_of, refusal_of
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.scope import Scope


@dataclass
class Replacement:
    """The values to use instead of those of the match, and the graphs to sort once they are in place."""

    values: list[ir.Value]
    unsorted: list[ir.Graph]


def prepare(rule: Rule, match: Match, builder: Builder, scope: Scope, nesting: Nesting) -> Replacement | str:
    """Call the rewrite and check its result; a text is the reason for a refusal."""
    built = _call(rule, match, builder)
    if isinstance(built, str):
        return built
    return check_replacement(match, built, builder, scope, nesting, simple=not rule.has_many_outputs)


def check_replacement(
    match: Match, built: Sequence[object], builder: Builder, scope: Scope, nesting: Nesting, *, simple: bool = False
) -> Replacement | str:
    """Check the replacements of the outputs of a match; a text is the reason why they are not possible.

    A ``simple`` rewrite replaces one value by a computation from values of the match, which keeps the order.
    """
    _check_interface(match, built)
    _check_opsets(builder, scope)
    _check_operators(builder, scope)
    values = [
        old if _is_copy_that_stays(old, value) else value
        for old, value in zip(match.output_values, cast(list[ir.Value], built), strict=True)
    ]
    places = [(old, value) for old, value in zip(match.output_values, values, strict=True) if old is not value]
    if not places:
        return "the rewrite returns what is there"
    builder.keep_only(values)
    used = _used_from_outside(builder, places)
    known: set[ir.Value | None] = set()
    for node in match.nodes:
        known.update(node.inputs)
        known.update(node.outputs)
    strangers = [value for value in used if value not in known]
    if simple and not strangers:
        return Replacement(values, [])
    graph = match.root.graph
    assert graph is not None
    for value in strangers:
        if not nesting.sees(graph, value):
            raise RewriteError(
                f"the rewrite uses '{value.name}', which is not known in graph '{graph.name}'",
                hint="use values of the match and values built by op",
            )
    suspects = [value for value in used if value.graph is graph or value not in known]
    if nesting.closes_cycle(match.root, [old for old, _ in places], suspects):
        return "the replacement would close a cycle"
    return Replacement(values, [graph, *(value.graph for value in strangers if value.graph is not None)])


def _call(rule: Rule, match: Match, builder: Builder) -> list[object] | str:
    try:
        new = rule.rewrite(builder, match.bindings)
    except OnnxPassesError:
        raise
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise rule.error("rewrite", error, match.root) from error
        return refusal.reason or "rewrite declined"
    if new is None or new is False or isinstance(new, Refusal) or hasattr(new, "failure_nodes_and_values"):
        return reason_of(new, "rewrite declined")
    return list(cast(Sequence[Any], new)) if isinstance(new, list | tuple) else [new]


def _check_interface(match: Match, new: Sequence[object]) -> None:
    if len(new) != len(match.output_values):
        raise RewriteError(f"the rewrite returns {len(new)} values for the {len(match.output_values)} of its pattern")
    for old, value in zip(match.output_values, new, strict=True):
        if not isinstance(value, ir.Value):
            raise RewriteError(
                f"the rewrite returns {type(value).__name__} for '{old.name}'",
                hint="return values built by op",
            )
        if old.is_graph_output() and None not in (old.dtype, value.dtype) and old.dtype != value.dtype:
            raise RewriteError(f"graph output '{old.name}' would change from {old.dtype} to {value.dtype}")


def _is_copy_that_stays(old: ir.Value, new: ir.Value) -> bool:
    """Return whether a value only keeps the name of an output for another one: replacing it would restore it."""
    copy = old.producer()
    if copy is None or (copy.domain, copy.op_type) != ("", "Identity") or copy.inputs[0] is not new:
        return False
    return old.is_graph_output() and not old.uses() and not (may_rename(new) and new.graph is old.graph)


def _check_opsets(builder: Builder, scope: Scope) -> None:
    asked = {domain: version for domain, version in builder.opsets.items() if version is not None}
    for imports in (scope.container.opset_imports, scope.model.graph.opset_imports) if asked else ():
        for domain, version in asked.items():
            if imports.get(domain, version) != version:
                raise RewriteError(
                    f"the rewrite needs opset {version} of domain '{domain}', the model imports {imports[domain]}",
                    hint="convert the opset first",
                )


def _check_operators(builder: Builder, scope: Scope) -> None:
    for node in builder.nodes:
        hint = misspelt(node.domain, node.op_type)
        if hint is not None and node.op_identifier() not in scope.model.functions:
            raise RewriteError(f"the rewrite builds '{node.op_type}', which ONNX does not have", hint=hint)


def _used_from_outside(builder: Builder, places: Sequence[tuple[ir.Value, ir.Value]]) -> list[ir.Value]:
    """Return the values of the model that the replacement uses or returns."""
    own: set[ir.Value | None] = {None, *builder.initializers}
    for node in builder.nodes:
        own.update(node.outputs)
    used = [value for node in builder.nodes for value in used_values(node) if value not in own]
    used.extend(value for _, value in places if value not in own)
    return cast(list[ir.Value], used)
