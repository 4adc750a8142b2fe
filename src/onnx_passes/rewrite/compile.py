"""Patterns compiled to functions: structural matching with backtracking, commutativity without copies.

Each matcher gets the item, the state, and the continuation to call on success. A matcher that fails undoes its
bindings, so that alternatives, swapped inputs and failed checks all backtrack in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.traits import is_commutative
from onnx_passes.rewrite.failures import (
    describe_value,
    not_computed,
    other_attribute,
    other_constant,
    other_operator,
    two_values,
)
from onnx_passes.rewrite.match import Bindings
from onnx_passes.rewrite.patterns import (
    AnyValue,
    AttributeConstant,
    AttributePattern,
    ConstantPattern,
    NodePattern,
    OrValue,
    ResultPattern,
    Var,
    choices,
)

Continue: TypeAlias = Callable[[], bool]
MatchValue: TypeAlias = "Callable[[ir.Value | None, Bindings, Continue], bool]"
MatchNode: TypeAlias = "Callable[[ir.Node, Bindings, Continue], bool]"

_UNBOUND = object()
_LISTS = frozenset({ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS})
_FLOATS = frozenset({ir.AttributeType.FLOAT, ir.AttributeType.FLOATS})
_PLAIN = _LISTS | {ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING}


class Compiler:
    """Compiles the nodes of one pattern; a node that occurs twice is compiled once."""

    def __init__(self, *, commute: bool, constants: Collection[str] = ()) -> None:
        self.commute = commute
        self.constants = constants
        self._nodes: dict[NodePattern, MatchNode] = {}

    def node(self, pattern: NodePattern) -> MatchNode:
        """Compile a node pattern."""
        if pattern not in self._nodes:
            self._nodes[pattern] = self._compile_node(pattern)
        return self._nodes[pattern]

    def value(self, pattern: Var | None) -> MatchValue:
        """Compile a value pattern."""
        match pattern:
            case None:
                return _match_missing
            case AnyValue():
                return _match_anything
            case ResultPattern():
                return self._compile_output(pattern)
            case ConstantPattern():
                return _compile_constant(pattern)
            case OrValue():
                return self._compile_or(pattern)
            case _:
                return _compile_variable(pattern, is_constant=pattern.name in self.constants)

    def _compile_node(self, pattern: NodePattern) -> MatchNode:
        matchers = [self.value(value) for value in pattern.inputs]
        match_operator = _operator_test(pattern)
        match_attributes = _attribute_test(pattern)
        count_mismatch = _count_test(pattern)
        named = tuple((i, output.name) for i, output in enumerate(pattern.outputs) if output.name is not None)
        count = len(matchers)
        swaps = self.commute and count > 1 and is_commutative(pattern.domain, pattern.op_type)
        match_inputs = _match_in_any_order if swaps else _match_in_order

        def match_node(node: ir.Node, state: Bindings, proceed: Continue) -> bool:
            bound = state.nodes.get(pattern)
            if bound is not None:
                return proceed() if bound is node else state.failed("expected the same node as elsewhere", node)
            if not match_operator(node):
                return state.partial is not None and state.failed(other_operator(pattern, node), node)
            if node in state.taken:
                return state.failed("the node already stands for another part of the pattern", node)
            mismatch = count_mismatch(node)
            if mismatch is not None:
                return state.failed(mismatch, node)
            bindings = match_attributes(node, state)
            if bindings is None:
                return False
            for i, name in named:
                if not _agree(bindings, state, name, node.outputs[i]):
                    return state.partial is not None and state.failed(two_values(name, state, node.outputs[i]), node)
            values = node.inputs
            if len(values) < count:
                values = (*values, *([None] * (count - len(values))))
            state.nodes[pattern] = node
            state.taken.add(node)
            state.bindings.update(bindings)
            if match_inputs(matchers, 0, values, state, proceed):
                return True
            for name in bindings:
                del state.bindings[name]
            state.taken.discard(node)
            del state.nodes[pattern]
            return False

        return match_node

    def _compile_output(self, pattern: ResultPattern) -> MatchValue:
        match_node = self.node(pattern.node)
        index = pattern.index

        def match_output(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
            node = None if value is None else value.producer()
            if value is None or node is None:
                return state.partial is not None and state.failed(not_computed(pattern, value), value)
            if node.graph is not state.graph:
                return state.failed("the value comes from another graph", value)
            if value.index() != index:
                return state.partial is not None and state.failed(
                    f"expected output {index} of {node.op_type}, found output {value.index()}", value
                )
            return match_node(node, state, proceed)

        return match_output

    def _compile_or(self, pattern: OrValue) -> MatchValue:
        alternatives = [(tag, self.value(choice)) for tag, choice in choices(pattern)]
        name, tag_name = pattern.name, pattern.tag_var

        def match_or(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
            bound = state.values.get(pattern, _UNBOUND)
            if bound is not _UNBOUND:
                if bound is value:
                    return proceed()
                return state.partial is not None and state.failed(two_values(name, state, value), value)
            for tag, match_value in alternatives:
                added: dict[str, Any] = {}
                if name is not None and not _agree(added, state, name, value):
                    return state.partial is not None and state.failed(two_values(name, state, value), value)
                if tag_name is not None and not _agree(added, state, tag_name, tag):
                    continue
                state.values[pattern] = value
                state.bindings.update(added)
                if match_value(value, state, proceed):
                    return True
                for added_name in added:
                    del state.bindings[added_name]
                del state.values[pattern]
            return False

        return match_or


def _agree(added: dict[str, Any], state: Bindings, name: str, item: Any) -> bool:
    """Add a binding, unless the name is bound to something else."""
    bound = state.bindings.get(name, added.get(name, _UNBOUND))
    if bound is _UNBOUND:
        added[name] = item
        return True
    if isinstance(bound, ir.Attr) and isinstance(item, ir.Attr):
        return (bound.type, bound.ref_attr_name, bound.value) == (item.type, item.ref_attr_name, item.value)
    return bound is item or (not isinstance(bound, ir.Value) and bound == item)


def _match_in_order(
    matchers: Sequence[MatchValue], i: int, values: Sequence[ir.Value | None], state: Bindings, proceed: Continue
) -> bool:
    if i == len(matchers):
        return proceed()
    if i == len(matchers) - 1:
        return matchers[i](values[i], state, proceed)
    return matchers[i](values[i], state, lambda: _match_in_order(matchers, i + 1, values, state, proceed))


def _match_in_any_order(
    matchers: Sequence[MatchValue], i: int, values: Sequence[ir.Value | None], state: Bindings, proceed: Continue
) -> bool:
    """Try each value at the next matcher, the written order first, and a value that comes twice only once."""
    if i == len(matchers):
        return proceed()
    if i == len(matchers) - 1 and len(values) == 1:
        return matchers[i](values[0], state, proceed)
    for at, value in enumerate(values):
        if value in values[:at]:
            continue
        rest = (*values[:at], *values[at + 1 :])

        def others(rest: Sequence[ir.Value | None] = rest) -> bool:
            return _match_in_any_order(matchers, i + 1, rest, state, proceed)

        if matchers[i](value, state, others):
            return True
    return False


def _match_missing(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
    return proceed() if value is None else state.failed("expected no input here", value)


def _match_anything(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
    return proceed()


def _compile_variable(pattern: Var, *, is_constant: bool) -> MatchValue:
    name, optional = pattern.name, pattern.can_match_none
    noted = name is None or pattern.check_method is not None

    def match_variable(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
        if value is None and not optional:
            return state.partial is not None and state.failed(
                f"the input '{name}' is missing" if name else "an input is missing", None
            )
        if is_constant and not state.thorough and constant_tensor(value) is None:
            return False
        bound = state.values.get(pattern, _UNBOUND) if name is None else state.bindings.get(name, _UNBOUND)
        if bound is not _UNBOUND and bound is not value:
            return state.partial is not None and state.failed(two_values(name, state, value), value)
        binds = name is not None and bound is _UNBOUND
        notes = noted and pattern not in state.values
        if binds:
            state.bindings[cast(str, name)] = value
        if notes:
            state.values[pattern] = value
        if proceed():
            return True
        if binds:
            del state.bindings[cast(str, name)]
        if notes:
            del state.values[pattern]
        return False

    return match_variable


def _compile_constant(pattern: ConstantPattern) -> MatchValue:
    expected = pattern.value
    numbers = expected if isinstance(expected, list) else [expected]
    shape = [len(numbers)] if isinstance(expected, list) else []
    tolerance = pattern.tolerance

    def match_constant(value: ir.Value | None, state: Bindings, proceed: Continue) -> bool:
        tensor = constant_tensor(value)
        if tensor is None:
            return state.partial is not None and state.failed(other_constant(expected, describe_value(value)), value)
        if tensor.shape != shape:
            return state.partial is not None and state.failed(
                other_constant(expected, f"one of shape {tensor.shape}"), value
            )
        if not (tensor.dtype.is_integer() or tensor.dtype.is_floating_point() or tensor.dtype is ir.DataType.BOOL):
            return state.failed(f"expected the constant {expected}, found {tensor.dtype.name}", value)
        try:
            found = tensor.numpy().reshape(-1).tolist()
        except FileNotFoundError:
            return state.failed(f"expected the constant {expected}, its data is not available", value)
        # Rounding explains a difference between floats, never one between integers.
        rounded = tensor.dtype.is_floating_point()
        if all(a == b or (rounded and math.isclose(a, b, **tolerance)) for a, b in zip(found, numbers, strict=True)):
            return proceed()
        return state.partial is not None and state.failed(other_constant(expected, found), value)

    return match_constant


def _count_test(pattern: NodePattern) -> Callable[[ir.Node], str | None]:
    inputs, outputs, more_inputs = len(pattern.inputs), len(pattern.outputs), pattern.allow_other_inputs

    def count_mismatch(node: ir.Node) -> str | None:
        if len(node.outputs) < outputs:
            return f"expected {outputs} outputs, found {len(node.outputs)}"
        given = node.inputs
        if len(given) > inputs and not more_inputs and any(value is not None for value in given[inputs:]):
            return f"expected {inputs} inputs, found {len(given)}"
        return None

    return count_mismatch


def _operator_test(pattern: NodePattern) -> Callable[[ir.Node], bool]:
    if pattern.operator is None:
        return lambda node: pattern.may_be(node.op_type) and pattern.may_be_in(node.domain)
    domain, op_type = pattern.operator
    return lambda node: node.op_type == op_type and node.domain == domain


def _attribute_test(pattern: NodePattern) -> Callable[[ir.Node, Bindings], dict[str, Any] | None]:
    wanted = tuple(pattern.attributes.items())
    others = pattern.allow_other_attributes

    def match_attributes(node: ir.Node, state: Bindings) -> dict[str, Any] | None:
        bindings: dict[str, Any] = {}
        for name, attribute_pattern in wanted:
            attribute = node.attributes.get(name)
            fits = attribute_pattern.can_match_none if attribute is None else _fits(attribute_pattern, attribute)
            if not fits:
                if state.partial is not None:
                    state.failed(other_attribute(name, attribute_pattern, attribute), node)
                return None
            variable = attribute_pattern.name
            if variable is not None and not _agree(bindings, state, variable, attribute):
                if state.partial is not None:
                    state.failed(f"'{variable}' stands for another attribute already", node)
                return None
        if not others and any(name not in pattern.attributes for name in node.attributes):
            state.failed("the node has an attribute that the pattern leaves out", node)
            return None
        return bindings

    return match_attributes if wanted or not others else lambda node, state: {}


def _fits(pattern: AttributePattern, attribute: ir.Attr) -> bool:
    if not isinstance(pattern, AttributeConstant):
        return attribute.is_ref() or pattern.test is None or pattern.test(attribute)
    expected: Any = pattern.value
    is_list = isinstance(expected, Sequence) and not isinstance(expected, str)
    if attribute.is_ref() or attribute.type not in _PLAIN or is_list != (attribute.type in _LISTS):
        return False
    wanted: list[Any] = list(cast(Any, expected)) if is_list else [expected]
    found: list[Any] = list(attribute.value) if is_list else [attribute.value]
    if attribute.type in _FLOATS:
        # The file holds single precision: 0.1 is written as what a float makes of it.
        wanted = [np.float32(item) if isinstance(item, int | float) else item for item in wanted]
        found = [np.float32(item) for item in found]
    return wanted == found
