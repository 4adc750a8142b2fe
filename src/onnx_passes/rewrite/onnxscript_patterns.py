"""Patterns of onnxscript as ours: those of its rules, and parts that patterns of ours are written with."""

from __future__ import annotations

import functools
from typing import Any, cast

from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.rewrite.patterns import (
    ANY_VALUE,
    AttributeConstant,
    AttributePattern,
    ConstantPattern,
    GraphPattern,
    NodePattern,
    OrValue,
    TextPattern,
    Var,
)


def graph_of(pattern: language.GraphPattern) -> GraphPattern:
    """Return the pattern of a rule."""
    return GraphPattern(list(map(value_of, pattern.inputs)), list(map(value_of, pattern.outputs)))


# The same part each time: a pattern may name a part twice, and means one value then.
@functools.lru_cache(maxsize=4096)
def value_of(pattern: language.ValuePattern) -> Var:
    """Return a value."""
    given = cast("Any", pattern)
    match pattern:
        case language.AnyValue():
            return ANY_VALUE
        case language.NodeOutputPattern():
            return _node_of(pattern.producer()).outputs[pattern.output_index]
        case language.Constant():
            return ConstantPattern(pattern.value, relative=given._rel_tol, absolute=given._abs_tol)
        case language.BacktrackingOr():
            return OrValue(given._values, pattern.name, pattern.tag_var, given._tag_values if pattern.tag_var else None)
        case language.OpIdDispatchOr():
            tags, values = zip(*given._op_to_pattern.values(), strict=True)
            return OrValue(values, pattern.name, pattern.tag_var, tags if pattern.tag_var else None)
        case _:
            return Var(pattern.name, check=given.check_method, can_match_none=pattern.can_match_none)


def attribute_of(pattern: language.AttrPattern | language.ValuePattern) -> AttributePattern:
    """Return an attribute."""
    if isinstance(pattern, language.AttrConstantPattern):
        return AttributeConstant(cast("Any", pattern)._value)
    test = pattern.matches if isinstance(pattern, language.AttrPattern) else None
    return AttributePattern(pattern.name, can_match_none=pattern.can_match_none, test=test)


@functools.lru_cache(maxsize=4096)
def _node_of(pattern: language.NodePattern) -> NodePattern:
    return NodePattern(
        _text_of(pattern.domain),
        _text_of(pattern.op),
        [None if value is None else value_of(value) for value in pattern.inputs],
        {name: attribute_of(attribute) for name, attribute in pattern.attributes.items()},
        [output.name for output in pattern.outputs],
        allow_other_attributes=pattern.allow_other_attributes,
        allow_other_inputs=pattern.allow_other_inputs,
        check=cast("Any", pattern).check_method,
    )


def _text_of(pattern: Any) -> str | TextPattern:
    return pattern.value() if isinstance(pattern, language.StringConstantPattern) else pattern
