"""Fuzz an operator: ONNX Runtime against the numpy definition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import Definition
from onnx_passes.rewrite.rule import Rule


def rule_of(definition: Definition) -> Rule:
    """Make a rule that folds an operator of constants in numpy, and otherwise lowers it to standard operators."""

    def rewrite(op: Any, y: ir.Value) -> Any:
        node = y.producer()
        assert node is not None
        call = definition.call(node)
        held = [array for value in node.inputs if (array := constant(value)) is not None]
        if len(held) < len(node.inputs):
            return definition.lower(op, call)
        return op.Identity(definition.compute(held, call.attributes))

    return Rule(_pattern(definition), rewrite, name=definition.name, commute=False)


def _pattern(definition: Definition) -> Callable[..., Any]:
    names = [given.name for given in definition.inputs]

    def pattern(op: Any, *inputs: Any) -> Any:
        build = getattr(op, definition.name)
        return build(*inputs, _domain=definition.domains[0], _allow_other_attributes=True, _outputs=["y"])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in ("op", *names)])
    setattr(pattern, "__signature__", signature)  # noqa: B010 - functions have no such attribute in their type
    return pattern
