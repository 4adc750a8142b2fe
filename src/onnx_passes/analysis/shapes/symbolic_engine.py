"""Call the symbolic inference of onnx_shape_inference so that only types and shapes change, and only soundly."""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import KnownShapes, Memory
from onnx_passes.analysis.shapes.standard_engine import names_in_use
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.extents import Extent, parse
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import DEFINITIONS

if TYPE_CHECKING:
    from onnx_shape_inference import OpShapeInferenceRegistry

_OVERRIDABLE_SINCE = 4


def infer_symbolically(model: ir.Model, before: KnownShapes, memory: Memory | None = None) -> str | None:
    """Infer types and shapes in place, refining what is declared; returns what went wrong, if anything did.

    What was inferred before an error stays. If a loop makes the result doubtful, nothing does. Nodes that are as an
    earlier inference with this ``memory`` left them are not visited.
    """
    from onnx_passes.analysis.shapes.inference import Inference

    _prepare_registry(node for container in (model.graph, *model.functions.values()) for node in all_nodes(container))
    inference = Inference(model.opset_imports, model.functions, memory=memory)
    values = list(annotations.values(model.graph))
    with _tensor_names_kept(model), _overridable_hidden(model), _readable_dimensions(values) as names:
        inference.reserve_symbol_names(names)
        inference.infer(model.graph)
        inference.forget_constants()
    loop = next(_doubtful_loops(model, before), None)
    if loop is not None:
        before.restore()
        return f"{name_of(loop)} may change the shape of what it carries from one iteration to the next"
    before.drop(inference.contradicted)
    return inference.problem


def infer_alone(model: ir.Model, nodes: Sequence[ir.Node]) -> bool:
    """Infer what single nodes make of what is known of their inputs; returns whether that says anything new."""
    from onnx_passes.analysis.shapes.inference import Inference

    _prepare_registry(nodes)
    values = list({value: None for node in nodes for value in (*node.inputs, *node.outputs) if value is not None})
    before = KnownShapes(values)
    inference = Inference(model.opset_imports, model.functions)
    with _tensor_names_kept(model), _overridable_hidden(model), _readable_dimensions(values) as names:
        inference.reserve_symbol_names({*names, *names_in_use(model.graph)})
        inference.infer_alone(nodes)
        inference.forget_constants()
    return before.settle()


def _prepare_registry(nodes: Iterable[ir.Node]) -> None:
    """Complete the one registry of rules if it lacks any operator, again if operators have been added since."""
    registry = _collected()
    if all(registry.has(*operator) for operator in {(node.domain, node.op_type) for node in nodes}):
        return
    from onnx_passes.analysis.shapes.onnxruntime_shapes import SHAPES

    _complete_registry(len(SHAPES.table()), len(DEFINITIONS.table()))


@functools.cache
def _collected() -> OpShapeInferenceRegistry:
    from onnx_shape_inference import registry

    registry.collect()
    return registry


@functools.cache
def _complete_registry(rules: int, operators: int) -> None:
    from onnx_passes.analysis.shapes.onnxruntime_shapes import add_custom_operators

    add_custom_operators(_collected())


@contextmanager
def _tensor_names_kept(model: ir.Model) -> Generator[None]:
    """Take back the names that tensors of Constant nodes get where rules ask for them."""
    names = [
        (attribute.value, attribute.value.name)
        for node in all_nodes(model.graph)
        if is_constant_node(node)
        for attribute in node.attributes.values()
        if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref()
    ]
    try:
        yield
    finally:
        for tensor, name in names:
            tensor.name = name


@contextmanager
def _overridable_hidden(model: ir.Model) -> Generator[None]:
    """Hide the defaults of inputs: a caller may pass others, of other shapes."""
    hidden = {value: value.const_value for value in model.graph.inputs if value.is_initializer()}
    if model.ir_version < _OVERRIDABLE_SINCE:
        hidden.clear()
    try:
        for value in hidden:
            value.const_value = None
        yield
    finally:
        for value, tensor in hidden.items():
            value.const_value = tensor


@contextmanager
def _readable_dimensions(values: list[ir.Value]) -> Generator[set[str]]:
    """Replace dimensions that would be misread, such as ``-1``, ``?`` or ``Quant/x.1_dim_0``; gives all plain names.

    What says nothing becomes an unknown dimension, any other name comes back at the end.
    """
    dims = {dim for value in values if value.shape is not None for dim in value.shape.dims}
    names = [dim.value for dim in dims if not isinstance(dim, int) and dim.value is not None]
    aliases = _aliases(sorted(names))
    if aliases or any(isinstance(dim, int) and dim < 0 for dim in dims):
        _rename(values, aliases)
    try:
        yield {name for name in (*names, *aliases.values()) if name and name.isidentifier()}
    finally:
        if aliases:
            _rename(values, {alias: name for name, alias in aliases.items() if alias is not None})


def _aliases(names: Iterable[str]) -> dict[str, str | None]:
    """Give a plain name to all that are neither plain themselves nor arithmetic on plain ones."""
    plain = {name for name in names if name.isidentifier()}
    taken = set(plain)
    aliases: dict[str, str | None] = {}
    for name in names:
        found = parse(name)
        if isinstance(found, Extent) and found.free_symbols() <= plain:
            continue
        alias = "dim_" + re.sub(r"\W+", "_", name) if re.search(r"[^\W\d_]", name) else None
        while alias is not None and alias in taken:
            alias += "_"
        aliases[name] = alias
        taken.add(alias or "")
    return aliases


def _rename(values: list[ir.Value], names: dict[str, str | None]) -> None:
    for value in values:
        shape = value.shape
        if shape is None:
            continue
        dims = [_renamed(dim, names) for dim in shape]
        if any(new is not old for new, old in zip(dims, shape, strict=True)):
            denotations = [shape.get_denotation(axis) for axis in range(len(shape))]
            value.shape = ir.Shape(dims, denotations=denotations)


def _renamed(dim: int | ir.SymbolicDim, names: dict[str, str | None]) -> int | ir.SymbolicDim | str | None:
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    return names.get(dim.value, dim) if dim.value is not None else dim


def _doubtful_loops(model: ir.Model, before: KnownShapes) -> Iterator[ir.Node]:
    """Find loops that the engine may be wrong about; in functions that is any, as their inside is forgotten."""
    for node in all_nodes(model.graph):
        if _is_loop(node) and _is_doubtful(node, before):
            yield node
    for function in model.functions.values():
        yield from filter(_is_loop, function.all_nodes())


def _is_loop(node: ir.Node) -> bool:
    return node.op_type == "Loop" and node.domain == "" and "body" in node.attributes


def _is_doubtful(node: ir.Node, before: KnownShapes) -> bool:
    """Tell whether it matters that the engine takes the first iteration for all, and no loop to end early."""
    body = node.attributes["body"].as_graph()
    carried = max(0, len(node.inputs) - 2)
    for entering, leaving in zip(body.inputs[2:], body.outputs[1 : carried + 1], strict=False):
        if entering.shape != leaving.shape:
            return True
    return any(output.shape != before.shape(output) for output in node.outputs[carried:])
