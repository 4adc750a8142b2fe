"""Patterns compiled to functions: structural matching with backtracking, commutativity without copies.

Each matcher takes what it looks at, the state, and the continuation to call when it fits. A matcher that
fails takes its bindings back, so that alternatives, swapped inputs and failed checks all backtrack alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.graph.constants import constant
from onnx_passes.rewrite.match import State
from onnx_passes.rewrite.traits import is_commutative

Continue: TypeAlias = Callable[[], bool]
MatchValue: TypeAlias = "Callable[[ir.Value | None, State, Continue], bool]"
MatchNode: TypeAlias = "Callable[[ir.Node, State, Continue], bool]"

_MOST_PERMUTED = 5
_UNBOUND = object()


class Compiler:
    """Compiles the nodes of one pattern; a node that occurs twice is compiled once."""

    def __init__(self, *, commute: bool) -> None:
        self.commute = commute
        self._nodes: dict[language.NodePattern, MatchNode] = {}

    def node(self, pattern: language.NodePattern) -> MatchNode:
        """Compile a node pattern."""
        if pattern not in self._nodes:
            self._nodes[pattern] = self._compile_node(pattern)
        return self._nodes[pattern]

    def value(self, pattern: language.ValuePattern | None) -> MatchValue:
        """Compile a value pattern."""
        match pattern:
            case None:
                return _match_missing
            case language.AnyValue():
                return _match_anything
            case language.NodeOutputPattern():
                return self._compile_output(pattern)
            case language.Constant():
                return _compile_constant(pattern)
            case language.BacktrackingOr():
                tags, values = pattern._tag_values, pattern._values  # pyright: ignore[reportPrivateUsage]
                return self._compile_or(pattern, list(zip(tags, values, strict=True)))
            case language.OpIdDispatchOr():
                return self._compile_or(pattern, list(pattern._op_to_pattern.values()))  # pyright: ignore[reportPrivateUsage]
            case _:
                return _compile_variable(pattern)

    def _compile_node(self, pattern: language.NodePattern) -> MatchNode:
        inputs = [self.value(value) for value in pattern.inputs]
        match_operator = _operator_test(pattern)
        match_attributes = _attribute_test(pattern)
        outputs = tuple((i, output.name) for i, output in enumerate(pattern.outputs))
        orders = self._orders(pattern)
        fixed = tuple(range(len(inputs)))
        count_mismatch = _count_test(len(inputs), len(outputs), more_inputs=pattern.allow_other_inputs)

        def match_node(node: ir.Node, state: State, proceed: Continue) -> bool:
            bound = state.nodes.get(pattern)
            if bound is not None:
                return proceed() if bound is node else state.failed("pattern node fits two nodes", node)
            if not match_operator(node):
                return state.failed(f"expected {pattern.op_type}, found {node.op_type}", node)
            mismatch = count_mismatch(node, state)
            if mismatch is not None:
                return state.failed(mismatch, node)
            bindings = match_attributes(node, state)
            if bindings is None:
                return False
            for i, name in outputs:
                if name is not None and not _agree(bindings, state, name, node.outputs[i]):
                    return state.failed(f"'{name}' is bound to two values", node)
            given = node.inputs

            values = [*given[: len(inputs)], *([None] * (len(inputs) - len(given)))]
            state.nodes[pattern] = node
            state.taken.add(node)
            state.bindings.update(bindings)
            alternatives = orders if len(given) == len(inputs) else (fixed,)
            for order in alternatives:
                if _match_inputs(inputs, [values[i] for i in order], 0, state, proceed):
                    return True
            for name in bindings:
                del state.bindings[name]
            state.taken.discard(node)
            del state.nodes[pattern]
            return False

        return match_node

    def _orders(self, pattern: language.NodePattern) -> tuple[tuple[int, ...], ...]:
        """List the orders in which inputs may be tried, the written one first."""
        count = len(pattern.inputs)
        swaps = self.commute and is_commutative(str(pattern.domain), pattern.op_type)
        if swaps and 1 < count <= _MOST_PERMUTED:
            return tuple(itertools.permutations(range(count)))
        return (tuple(range(count)),)

    def _compile_output(self, pattern: language.NodeOutputPattern) -> MatchValue:
        match_node = self.node(pattern.producer())
        index = pattern.output_index

        def match_output(value: ir.Value | None, state: State, proceed: Continue) -> bool:
            node = None if value is None else value.producer()
            if value is None or node is None:
                return state.failed("expected a computed value", value)
            if node.graph is not state.graph:
                return state.failed("value comes from another graph", value)
            if value.index() != index:
                return state.failed(f"expected output {index}, found output {value.index()}", value)
            return match_node(node, state, proceed)

        return match_output

    def _compile_or(
        self, pattern: language.BacktrackingOr | language.OpIdDispatchOr, choices: Sequence[tuple[Any, Any]]
    ) -> MatchValue:
        alternatives = [(tag, self.value(choice)) for tag, choice in choices]
        names = (pattern.name, pattern.tag_var)

        def match_or(value: ir.Value | None, state: State, proceed: Continue) -> bool:
            for tag, match_value in alternatives:
                added: dict[str, Any] = {}
                if all(
                    name is None or _agree(added, state, name, item)
                    for name, item in zip(names, (value, tag), strict=True)
                ):
                    state.bindings.update(added)
                    if match_value(value, state, proceed):
                        return True
                    for name in added:
                        del state.bindings[name]
            return False

        return match_or


def _agree(added: dict[str, Any], state: State, name: str, item: Any) -> bool:
    """Note a binding to be made, unless the name already stands for something else."""
    bound = state.bindings.get(name, added.get(name, _UNBOUND))
    if bound is _UNBOUND:
        added[name] = item
        return True
    return bound is item or (not isinstance(bound, ir.Value) and bound == item)


def _match_inputs(
    matchers: Sequence[MatchValue], values: Sequence[ir.Value | None], i: int, state: State, proceed: Continue
) -> bool:
    if i == len(matchers):
        return proceed()
    return matchers[i](values[i], state, lambda: _match_inputs(matchers, values, i + 1, state, proceed))


def _match_missing(value: ir.Value | None, state: State, proceed: Continue) -> bool:
    return proceed() if value is None else state.failed("expected no input here", value)


def _match_anything(value: ir.Value | None, state: State, proceed: Continue) -> bool:
    return proceed()


def _compile_variable(pattern: language.ValuePattern) -> MatchValue:
    name, optional = pattern.name, pattern.can_match_none
    checked = cast(Any, pattern).check_method is not None

    def match_variable(value: ir.Value | None, state: State, proceed: Continue) -> bool:
        if value is None and not optional:
            return state.failed(f"input '{name}' is missing", None)
        known: dict[Any, Any] = state.values if name is None else state.bindings
        key: Any = pattern if name is None else name
        bound = known.get(key, _UNBOUND)
        if bound is not _UNBOUND:
            return proceed() if bound is value else state.failed(f"'{name}' is bound to two values", value)
        known[key] = value
        if checked:
            state.values[pattern] = value
        if proceed():
            return True
        del known[key]
        if checked:
            state.values.pop(pattern, None)
        return False

    return match_variable


def _compile_constant(pattern: language.Constant) -> MatchValue:
    expected = pattern.value
    is_list = isinstance(expected, list)
    numbers = expected if isinstance(expected, list) else [expected]
    relative, absolute = pattern._rel_tol, pattern._abs_tol  # pyright: ignore[reportPrivateUsage]

    def match_constant(value: ir.Value | None, state: State, proceed: Continue) -> bool:
        array = constant(value)
        if array is None:
            return state.failed(f"expected the constant {expected}", value)
        if array.shape != ((len(numbers),) if is_list else ()):
            return state.failed(f"expected the constant {expected}, found one of shape {array.shape}", value)
        if array.dtype.kind in "OUS":
            return state.failed(f"expected the constant {expected}, found text", value)
        for found, number in zip(array.reshape(-1).tolist(), numbers, strict=True):
            if not math.isclose(found, number, rel_tol=relative, abs_tol=absolute):
                return state.failed(f"expected the constant {expected}, found {array.tolist()}", value)
        return proceed()

    return match_constant


def _count_test(inputs: int, outputs: int, *, more_inputs: bool) -> Callable[[ir.Node, State], str | None]:
    def count_mismatch(node: ir.Node, state: State) -> str | None:
        if node in state.taken:
            return "node is already bound to another part of the pattern"
        if len(node.outputs) < outputs:
            return f"expected {outputs} outputs, found {len(node.outputs)}"
        if len(node.inputs) > inputs and not more_inputs:
            return f"expected {inputs} inputs, found {len(node.inputs)}"
        return None

    return count_mismatch


def _operator_test(pattern: language.NodePattern) -> Callable[[ir.Node], bool]:
    op, domain = pattern.op, pattern.domain
    if isinstance(op, language.StringConstantPattern) and isinstance(domain, language.StringConstantPattern):
        op_type, domain_name = op.value(), domain.value()
        return lambda node: node.op_type == op_type and node.domain == domain_name
    return lambda node: op.matches(node.op_type) and domain.matches(node.domain)


def _attribute_test(pattern: language.NodePattern) -> Callable[[ir.Node, State], dict[str, Any] | None]:
    wanted = tuple(pattern.attributes.items())
    others = pattern.allow_other_attributes

    def match_attributes(node: ir.Node, state: State) -> dict[str, Any] | None:
        bindings: dict[str, Any] = {}
        for name, attribute_pattern in wanted:
            attribute = node.attributes.get(name)
            if attribute is None:
                fits = attribute_pattern.can_match_none
            elif attribute.is_ref():
                fits = not isinstance(attribute_pattern, language.AttrConstantPattern)
            else:
                fits = attribute_pattern.matches(attribute)
            if not fits:
                state.failed(f"attribute '{name}' differs", node)
                return None
            variable = attribute_pattern.name
            if variable is not None and not _agree(bindings, state, variable, attribute):
                state.failed(f"'{variable}' is bound to two attributes", node)
                return None
        if not others and len(node.attributes) > sum(1 for name, _ in wanted if name in node.attributes):
            state.failed("node has other attributes", node)
            return None
        return bindings

    return match_attributes if wanted or not others else lambda node, state: {}


def children(pattern: language.ValuePattern | None) -> Iterator[language.NodePattern]:
    """Iterate over the node patterns that may produce a value: several for an alternative."""
    match pattern:
        case language.NodeOutputPattern():
            yield pattern.producer()
        case language.BacktrackingOr():
            for choice in pattern._values:  # pyright: ignore[reportPrivateUsage]
                yield from children(choice)
        case language.OpIdDispatchOr():
            for _, choice in pattern._op_to_pattern.values():  # pyright: ignore[reportPrivateUsage]
                yield from children(choice)
        case _:
            return
