"""Custom operators as functions of the model, so that a file runs wherever ONNX functions do."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.edits import copy_type, detach
from onnx_passes.ops.definition import Definition

MARK = "onnx_passes.definition"
"""The key of the metadata that tells functions made here from those that came with a model."""

_NOT_IN_NAMES = re.compile(r"\W+")
_LONG = 80

Formal = Callable[[ir.Value], ir.Value]


class Functions:
    """Makes the functions of custom operators: one for all nodes that need the same.

    A function cannot decide by the text of an attribute nor by types, so each variant of an operator has its own. Calls
    keep operator, domain and attributes; the ``overload`` says which of the variants is meant. ``imports`` are the
    operator sets that functions may use, ``taken`` the functions that there are already.
    """

    def __init__(self, imports: Mapping[str, int], taken: Collection[ir.OperatorIdentifier] = ()) -> None:
        self._imports = imports
        self._taken = set(taken)
        self._by_use: dict[tuple[Any, ...], ir.Function] = {}
        self._by_body: dict[tuple[str, str, bytes], ir.Function] = {}

    def get(self, definition: Definition, node: ir.Node) -> ir.Function:
        """Return the function that computes a node, for any contents of its inputs.

        Raises ModelError where the definition needs to know more than types and shapes of the inputs.
        """
        use = _use(node)
        known = self._by_use.get(use)
        if known is None:
            function = _function(definition, node, self._imports)
            key = (node.domain, node.op_type, _bytes(function))
            known = self._by_body.get(key)
            if known is None:
                function.overload = self._overload(definition, node)
                known = self._by_body[key] = function
            self._by_use[use] = known
        return known

    def _overload(self, definition: Definition, node: ir.Node) -> str:
        """Name a variant by its attributes, or by its type where it has none; never by nothing.

        A call without overload would take the attributes of the function for its own, whatever they say.
        """
        given = definition.checked(node)
        said = [item.name for item in definition.attributes if given.get(item.name) not in (None, "", ())]
        texts = [f"{name}_{_text(given[name])}" for name in said]
        first = node.inputs[0]
        dtype = ir.DataType.FLOAT if first is None or first.dtype is None else first.dtype
        wish = _NOT_IN_NAMES.sub("_", "_".join(texts) or dtype.name.lower())[:_LONG]
        names = (wish if number == 1 else f"{wish}_{number}" for number in count(1))
        name = next(name for name in names if (node.domain, node.op_type, name) not in self._taken)
        self._taken.add((node.domain, node.op_type, name))
        return name


def _use(node: ir.Node) -> tuple[Any, ...]:
    """Return all that the function for a node can depend on."""
    attributes = sorted((name, str(attribute.value)) for name, attribute in node.attributes.items())
    inputs = [None if value is None else (value.dtype, str(value.shape)) for value in node.inputs]
    return (*node.op_identifier(), *attributes, *inputs)


def _function(definition: Definition, node: ir.Node, imports: Mapping[str, int]) -> ir.Function:
    """Build the most general function that is right: for any shape, any of this rank, or this shape."""
    try:
        right = _build(definition, node, imports, _of_any_size)
    except ModelError:
        return _build(definition, node, imports, _of_this_shape)
    try:
        general = _build(definition, node, imports, _of_any_shape)
    except ModelError:
        return right
    return general if _bytes(general) == _bytes(right) else right


def _of_any_shape(value: ir.Value) -> ir.Value:
    return ir.Value(type=None if value.type is None else copy_type(value.type))


def _of_any_size(value: ir.Value) -> ir.Value:
    formal = _of_any_shape(value)
    formal.shape = None if value.shape is None else ir.Shape([None] * len(value.shape))
    return formal


def _of_this_shape(value: ir.Value) -> ir.Value:
    formal = _of_any_shape(value)
    formal.shape = None if value.shape is None else ir.Shape(list(value.shape))
    return formal


def _build(definition: Definition, node: ir.Node, imports: Mapping[str, int], formal: Formal) -> ir.Function:
    inputs = [ir.Value() if value is None else formal(value) for value in node.inputs]
    for value, described in zip(inputs, definition.inputs, strict=False):
        value.name = described.name
    given = [None if actual is None else value for value, actual in zip(inputs, node.inputs, strict=True)]
    call = ir.Node(node.domain, node.op_type, given, attributes=node.attributes.values())
    op = Builder(imports, initializers_allowed=False)
    try:
        result = definition.lower(op, definition.call(call))
        if result.producer() not in op.nodes:
            result = op.Identity(result)
        op.keep_only([result])
    except ModelError:
        op.discard()
        raise
    finally:
        detach(call)
    opsets = {domain: version or imports.get(domain, 1) for domain, version in op.opsets.items()}
    graph = ir.Graph(inputs, [result], nodes=op.nodes, opset_imports=opsets, name=node.op_type)
    _name_and_forget(graph, result)
    function = ir.Function(node.domain, node.op_type, graph=graph, attributes=[])
    function.doc_string = (type(definition).__doc__ or "").split("\n", maxsplit=1)[0]
    function.metadata_props[MARK] = definition.name
    return function


def _name_and_forget(graph: ir.Graph, result: ir.Value) -> None:
    """Name the values of the body, and reset types and shapes, since types are those of the call."""
    for number, node in enumerate(graph, start=1):
        for index, value in enumerate(node.outputs):
            further = f"_{index}" if index else ""
            value.name = "result" if value is result else f"{node.op_type.lower()}_{number}{further}"
            value.type = value.shape = None
    for value in graph.inputs:
        value.type = value.shape = None


def _bytes(function: ir.Function) -> bytes:
    return ir.serde.serialize_function(function).SerializeToString(deterministic=True)


def _text(value: Any) -> str:
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return "_".join(str(item).replace("-", "m") for item in items)
