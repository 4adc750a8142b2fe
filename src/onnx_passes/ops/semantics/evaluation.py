"""Evaluate a model in an algebra: what each output is, element by element, as a function of the inputs.

``Evaluation(model, algebra).outputs(inputs)`` walks the nodes in order. A node that is a function of the model is
entered; one whose inputs are constant is computed; one with an entry in the table of semantics is evaluated by it; one
that is defined here, or by the standard as a function, is expanded; what is left is an uninterpreted function.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import STANDARD
from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import Algebra, Symbol, Tensor, TooLargeError, UnsupportedError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.describe import expander
from onnx_passes.ops.number_systems.scalars import Numbers, UnsettledError
from onnx_passes.ops.semantics.bodies import body_of, computed
from onnx_passes.ops.semantics.elementwise import elementwise
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView, Place, Semantics

Attributes = Mapping[str, ir.Attr]

_DEEPEST = 40
"""Functions, expansions and subgraphs within each other."""


class Evaluation:
    """One model in one algebra; ``fold`` says whether constants are computed with, or kept as they are written."""

    def __init__(
        self, model: ir.Model, algebra: Algebra, *, fold: bool | None = None, seconds: float = math.inf
    ) -> None:
        self.model = model
        self.algebra = algebra
        self.fold = algebra.exact if fold is None else fold
        self.places: set[Place] = set()
        self._deadline = time.process_time() + seconds
        self._values: dict[ir.Value, Tensor] = {}
        self._imports: list[Mapping[str, int]] = [model.opset_imports]
        self._expand = expander(model.functions, fast=False)

    def outputs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Evaluate the graph on tensors for its inputs."""
        graph = self.model.graph
        self._values.update(zip(graph.inputs, inputs, strict=True))
        self.run(graph, {})
        return [self.value(output) for output in graph.outputs]

    def value(self, value: ir.Value | None) -> Tensor:
        """Return the tensor of a value that has been computed, or is constant."""
        assert value is not None
        found = self._values.get(value)
        if found is None:
            array = constant(value)
            if array is None:
                raise UnsupportedError(f"nothing is known of '{value.name}'")
            found = self._values[value] = Tensor(value.dtype or ir.DataType.from_numpy(array.dtype), array)
        return found

    def run(self, nodes: Iterable[ir.Node], attributes: Attributes) -> None:
        """Evaluate nodes in order; ``attributes`` are those of the function that they are in."""
        for node in nodes:
            self.node(node, attributes)

    def graph(self, graph: ir.Graph, inputs: Sequence[Tensor], attributes: Attributes) -> list[Tensor]:
        """Evaluate a subgraph, which may read values around it."""
        if len(self._imports) > _DEEPEST:
            raise UnsupportedError("functions and subgraphs are nested too deeply")
        self._values.update(zip(graph.inputs, inputs, strict=True))
        self._imports.append(self._imports[-1])
        try:
            self.run(graph, attributes)
        finally:
            self._imports.pop()
        return [self.value(output) for output in graph.outputs]

    def node(self, node: ir.Node, attributes: Attributes) -> None:
        """Evaluate a node."""
        if time.process_time() > self._deadline:
            raise TooLargeError("it takes too long")
        call = self._call(node, attributes)
        results = self._results(call)
        found = [results] if isinstance(results, Tensor) else list(results)
        for output, tensor in zip(node.outputs, found, strict=False):
            self._afford(tensor)
            self._values[output] = tensor

    def _afford(self, tensor: Tensor) -> None:
        if tensor.known is None:
            self.algebra.afford(*tensor.shape)

    def _call(self, node: ir.Node, attributes: Attributes) -> OperatorView:
        given = {
            name: attributes[ref] if (ref := attr.ref_attr_name) is not None else attr
            for name, attr in node.attributes.items()
            if attr.ref_attr_name is None or attr.ref_attr_name in attributes
        }
        inputs = [None if value is None else self.value(value) for value in node.inputs]
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = self._imports[-1].get(domain, self._imports[-1].get("ai.onnx", 1) if not domain else 1)
        return OperatorView(node, inputs, given, version, self)

    def _results(self, call: OperatorView) -> Tensor | Sequence[Tensor]:
        node = call.node
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            return self.inside(function, call)
        if call.inputs and all(tensor is None or tensor.known is not None for tensor in call.inputs):
            found = self._folded(call)
            if found is not None:
                return found if self.fold else self._unrounded(call, found)
        return self._evaluated(call)

    def _unrounded(self, call: OperatorView, folded: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return constants whose elements are not rounded, but whose numbers are known to what decides by them."""
        if not any(tensor.dtype.is_floating_point() for tensor in folded):
            return folded
        found = self._evaluated(call)
        exact = [found] if isinstance(found, Tensor) else found
        return [Tensor(a.dtype, a.known, b.elements(self.algebra)) for a, b in zip(folded, exact, strict=False)]

    def _evaluated(self, call: OperatorView) -> Tensor | Sequence[Tensor]:
        node = call.node
        defined = bool(node.domain) and definition_of(node) is not None
        semantics = _semantics_of(node) if self.algebra.decides or not defined else None
        if semantics is not None:
            try:
                return semantics(call)
            except UnsupportedError:
                # What an entry does not cover is still the same function of the same inputs.
                return self._unknown(call)
        if defined:
            return self._expanded(call)
        return self._unknown(call) if self.algebra.exact else self.by_body(call)

    def by_body(self, call: OperatorView) -> Tensor | Sequence[Tensor]:
        """Evaluate the function that an operator is by the standard; without one nothing is known of it."""
        body = body_of(call)
        return self._unknown(call) if body is None else self.inside(body, call)

    def inside(self, function: ir.Function, call: OperatorView) -> list[Tensor]:
        """Evaluate the body of a function; inputs that the call leaves out are left out inside."""
        if len(self._imports) > _DEEPEST:
            raise UnsupportedError("functions and subgraphs are nested too deeply")
        given = dict(function.attributes)
        given.update(call.attributes)
        given = {name: attr for name, attr in given.items() if attr.value is not None}
        saved = {value: self._values.pop(value, None) for value in function.inputs}
        self._values.update((v, t) for v, t in zip(function.inputs, call.inputs, strict=False) if t is not None)
        self._imports.append(function.opset_imports)
        try:
            for node in function:
                self.node(_without_missing(node, self._values), given)
            return [self.value(output) for output in function.outputs[: len(call.node.outputs)]]
        finally:
            self._imports.pop()
            self._values.update((value, tensor) for value, tensor in saved.items() if tensor is not None)

    def _expanded(self, call: OperatorView) -> list[Tensor]:
        """Evaluate what a custom operator is in terms of standard ones."""
        built = self._expand(call.node, self._imports[-1])
        if built is None:
            return self._unknown(call)
        try:
            self.run(built.nodes, {})
            return [self.value(built.nodes[-1].outputs[0])]
        finally:
            built.discard()

    def _folded(self, call: OperatorView) -> list[Tensor] | None:
        """Compute a node on constants, if all runtimes agree on the result, or as ONNX Runtime does."""
        node = call.node
        if any(attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attr in node.attributes.values()):
            return None
        semantics = None if node.domain and definition_of(node) is not None else _semantics_of(node)
        numbers = Numbers()
        if semantics is not None:
            aside = _Aside(self, numbers)
            inputs = [None if tensor is None else Tensor(tensor.dtype, tensor.known) for tensor in call.inputs]
            try:
                view = OperatorView(node, inputs, call.attributes, call.version, cast("Evaluation", aside))
                results = semantics(view)
                found = [results] if isinstance(results, Tensor) else list(results)
                return [Tensor(tensor.dtype, tensor.elements(numbers)) for tensor in found]
            except UnsettledError:
                pass
        if node.domain:
            return None
        arrays = computed(call)
        return None if arrays is None else [Tensor(ir.DataType.from_numpy(a.dtype), a) for a in arrays]

    def _unknown(self, call: OperatorView) -> list[Tensor]:
        """Make an uninterpreted function of the operator, its attributes and its inputs."""
        from onnx_passes.ops.semantics.bodies import output_types

        node = call.node
        if any(attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attr in node.attributes.values()):
            raise UnsupportedError(f"{node.op_type} has a subgraph")
        if is_random(node):
            raise UnsupportedError(f"{node.op_type} draws random numbers")
        operands = [tensor.elements(self.algebra) for tensor in call.inputs if tensor is not None]
        shapes = tuple(None if tensor is None else (tensor.dtype, tensor.shape) for tensor in call.inputs)
        results: list[Tensor] = []
        for index, (dtype, shape) in enumerate(output_types(call)):
            params = (node.domain, call.version, index, shapes, call.params())
            symbol = Symbol(node.op_type, dtype, tuple(s[0] for s in shapes if s), params)
            results.append(Tensor(dtype, None, self.algebra.opaque(symbol, operands, shape)))
        return results


class _Aside:
    """What a meaning sees of an evaluation while constants are computed."""

    def __init__(self, evaluation: Evaluation, algebra: Algebra) -> None:
        self.model = evaluation.model
        self.algebra = algebra
        self.places: set[Place] = set()


def _semantics_of(node: ir.Node) -> Semantics | None:
    found = SEMANTICS.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
    if found is not None:
        return found
    is_standard = node.domain in (*STANDARD, "ai.onnx")
    return elementwise if is_standard and traits_of(node.op_type).kind == "elementwise" else None


def _without_missing(node: ir.Node, values: Mapping[ir.Value, Tensor]) -> ir.Node:
    """Return a node of a function, without inputs that stand for parameters which the call leaves out."""
    missing = [
        value is not None and value not in values and value.producer() is None and constant(value) is None
        for value in node.inputs
    ]
    if not any(missing):
        return node
    raise UnsupportedError("a function is called with fewer inputs than it reads")
