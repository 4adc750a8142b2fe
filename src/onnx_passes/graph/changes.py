"""Describe the differences of two aligned graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import onnx_ir as ir

from onnx_passes.graph.hashing.content import Contents, present_inputs, present_outputs, subgraphs
from onnx_passes.graph.wording import (
    attribute_differences,
    count,
    describe,
    operator_name,
    tensor_difference,
    type_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx_passes.graph.alignment import Alignment

Aspect: TypeAlias = Literal["operator", "attribute", "input", "constant", "output", "graph"]
Pairs: TypeAlias = "Sequence[tuple[ir.Value | None, ir.Value | None]]"
_BECAME = "→"


@dataclass(frozen=True)
class NodeDifference:
    """One difference of a node."""

    aspect: Aspect
    text: str


@dataclass(frozen=True)
class ChangedNode:
    """A paired node with its differences."""

    before: ir.Node
    after: ir.Node
    changes: tuple[NodeDifference, ...]


@dataclass(frozen=True)
class ChangedInitializer:
    """A paired initializer with different content."""

    before: ir.Value
    after: ir.Value
    text: str


def changed_nodes(alignment: Alignment, contents: Contents) -> Iterator[ChangedNode]:
    """Yield the pairs of nodes that differ in themselves or in their operands."""
    for before in alignment.a.graph.all_nodes():
        after = alignment.nodes.get(before)
        if after is None:
            continue
        changes = (
            *_own_changes(before, after, contents),
            *_input_changes(before, after, alignment, contents),
            *_nesting_changes(before, after, alignment),
        )
        if changes:
            yield ChangedNode(before, after, changes)


def changed_initializers(alignment: Alignment, contents: Contents) -> Iterator[ChangedInitializer]:
    """Yield the pairs of initializers with different content."""
    for before in alignment.a.constants:
        after = alignment.values.get(before)
        if after is not None and contents.initial_value(before) != contents.initial_value(after):
            text = tensor_difference(before.const_value, after.const_value, _BECAME)
            yield ChangedInitializer(before, after, text)


def _own_changes(before: ir.Node, after: ir.Node, contents: Contents) -> Iterator[NodeDifference]:
    if contents.node(before) == contents.node(after):
        return
    if before.op_identifier() != after.op_identifier():
        yield NodeDifference("operator", f"{operator_name(before)} {_BECAME} {operator_name(after)}")
    for name, text in attribute_differences(before, after, contents, _BECAME).items():
        yield NodeDifference("attribute", f"{name}: {text}")
    outputs = present_outputs(before), present_outputs(after)
    if outputs[0] != outputs[1]:
        yield NodeDifference("output", f"{count(outputs[0], 'output')} {_BECAME} {count(outputs[1], 'output')}")


def _input_changes(
    before: ir.Node, after: ir.Node, alignment: Alignment, contents: Contents
) -> Iterator[NodeDifference]:
    inputs_a, inputs_b = present_inputs(before), present_inputs(after)
    for position in range(max(len(inputs_a), len(inputs_b))):
        a = inputs_a[position] if position < len(inputs_a) else None
        b = inputs_b[position] if position < len(inputs_b) else None
        if not alignment.corresponds(a, b):
            yield NodeDifference("input", f"input {position}: {describe(a)} {_BECAME} {describe(b)}")
        elif a is not None and b is not None and _is_changed_constant(a, b, alignment, contents):
            yield NodeDifference("constant", f"constant '{b.name}' changed")


def _is_changed_constant(a: ir.Value, b: ir.Value, alignment: Alignment, contents: Contents) -> bool:
    return alignment.a.is_constant(a) and contents.initial_value(a) != contents.initial_value(b)


def _nesting_changes(before: ir.Node, after: ir.Node, alignment: Alignment) -> Iterator[NodeDifference]:
    place_a, place_b = alignment.a.holder(before), alignment.b.holder(after)
    if place_a is None or place_b is None:
        moved = place_a is not place_b
    else:
        moved = alignment.nodes.get(place_a.node) is not place_b.node or place_a[1:] != place_b[1:]
    if moved:
        yield NodeDifference("graph", "moved to another graph")
    for (name, _, graph_a), (_, _, graph_b) in zip(subgraphs(before), subgraphs(after), strict=False):
        for noun, values_a, values_b in (
            ("input", graph_a.inputs, graph_b.inputs),
            ("output", graph_a.outputs, graph_b.outputs),
        ):
            if len(values_a) != len(values_b):
                yield NodeDifference("graph", f"{name} {count(values_a, noun)} {_BECAME} {count(values_b, noun)}")
        for position, (a, b) in enumerate(zip(graph_a.outputs, graph_b.outputs, strict=False)):
            if not alignment.corresponds(a, b):
                yield NodeDifference("graph", f"{name} output {position}: {describe(a)} {_BECAME} {describe(b)}")


def interface_changes(noun: str, pairs: Pairs, contents: Contents, order_b: Sequence[ir.Value]) -> Iterator[str]:
    """Describe the inputs or outputs of a graph that were added, removed, renamed or retyped."""
    kept: list[ir.Value] = []
    for before, after in pairs:
        if before is None or after is None:
            value = before or after
            yield f"{noun} '{value.name if value else ''}' {'removed' if after is None else 'added'}"
            continue
        kept.append(after)
        if before.name != after.name:
            yield f"{noun} '{before.name}' renamed to '{after.name}'"
        types = type_text(before.type, before.shape), type_text(after.type, after.shape)
        if types[0] != types[1]:
            yield f"{noun} '{after.name}' {types[0]} {_BECAME} {types[1]}"
        if noun == "input":
            yield from _initial_value_changes(before, after, contents)
    remaining = set(kept)
    if kept != [value for value in order_b if value in remaining]:
        names = ", ".join(f"'{value.name}'" for value in order_b)
        yield f"{noun}s in another order: {names}"


def _initial_value_changes(before: ir.Value, after: ir.Value, contents: Contents) -> Iterator[str]:
    if before.is_initializer() != after.is_initializer():
        yield f"input '{after.name}' {'now has an' if after.is_initializer() else 'has no longer an'} initial value"
    elif before.is_initializer() and contents.initial_value(before) != contents.initial_value(after):
        text = tensor_difference(before.const_value, after.const_value, _BECAME)
        yield f"initial value of input '{after.name}': {text}"


def source_changes(alignment: Alignment) -> Iterator[str]:
    """Describe the outputs of a graph that are computed by another node than before."""
    for before, after in alignment.outputs:
        if before is not None and after is not None and not alignment.corresponds(before, after):
            yield f"output '{after.name}': {describe(before)} {_BECAME} {describe(after)}"


def opset_changes(a: ir.Graph, b: ir.Graph) -> Iterator[str]:
    """Describe the opset imports that have changed."""
    before, after = ({domain or "ai.onnx": version for domain, version in g.opset_imports.items()} for g in (a, b))
    for domain in sorted({*before, *after}):
        if before.get(domain) != after.get(domain):
            yield f"opset {domain} {before.get(domain, 'none')} {_BECAME} {after.get(domain, 'none')}"
