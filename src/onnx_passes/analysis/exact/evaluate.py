"""Evaluate networks in exact arithmetic: what a model means, before any float is rounded.

Every float of the model, and of its inputs, is the rational number that its bits say; products, sums and quotients are
rational, batch normalizations divide by square roots, other functions are enclosed in intervals as narrow as the next
quantizer needs, and quantizers round the exact quotient, halves to even where they say so. Where a pass has said what a
constant stands for (``constants.py``), that is taken instead of what it holds. It is an oracle for small networks: each
number is an object of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.arithmetic import ExactArithmetic, UnknownOperatorError
from onnx_passes.analysis.exact.arrays import exactly
from onnx_passes.analysis.exact.constants import meaning
from onnx_passes.analysis.exact.functions import FUNCTIONS, Operands, apply
from onnx_passes.analysis.exact.tensors import TENSORS
from onnx_passes.graph.traits import traits_of


def evaluate(model: ir.Model, inputs: Mapping[str, np.ndarray], also: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Return the outputs of a model, and values that are named ``also``, as arrays of exact numbers.

    Shapes of values have to be known. Raises UnknownOperatorError at an operator that is not computed exactly.
    """
    arithmetic, found = ExactArithmetic(), dict[ir.Value, Any]()
    for value in model.graph.inputs:
        if str(value.name) in inputs:
            found[value] = exactly(inputs[str(value.name)])
    for node in model.graph:
        results = _results(arithmetic, node, found)
        found.update(zip(node.outputs, results, strict=False))
    wanted = [*model.graph.outputs, *(value for value in found if value.name in also)]
    return {str(value.name): found[value] for value in wanted}


def _results(arithmetic: ExactArithmetic, node: ir.Node, found: Mapping[ir.Value, Any]) -> Sequence[np.ndarray]:
    if FUNCTIONS.get(node) is not None:
        return [_of_each(arithmetic, node, found)]
    compute = TENSORS.get(node)
    if compute is not None:
        made = compute(node, [_array(arithmetic, value, found) for value in node.inputs])
        return made if isinstance(made, list) else [made]
    if traits_of(node).kind == "movement" and node.inputs[0] is not None:
        return _moved(node, _array(arithmetic, node.inputs[0], found), found)
    if node.op_type == "Constant" and node.domain == "":
        return [_array(arithmetic, node.outputs[0], found)]
    raise UnknownOperatorError(f"{node.op_type} is not computed exactly")


def _of_each(arithmetic: ExactArithmetic, node: ir.Node, found: Mapping[ir.Value, Any]) -> np.ndarray:
    """Compute a result element by element: once of each number, where all that is done with it is the same."""
    given = [value for value in node.inputs if value is not None and value in found]
    others = [value for value in node.inputs if value is not None and value not in found]
    if len(given) != 1 or any(value.const_value is None or value.const_value.size != 1 for value in others):
        return np.asarray(apply(arithmetic, node, Operands(arithmetic, node, found)))
    x = found[given[0]]
    numbered: dict[Any, int] = {}
    places = [numbered.setdefault(number, len(numbered)) for number in x.flat]
    distinct = np.empty(len(numbered), object)
    distinct[:] = list(numbered)
    result = np.asarray(apply(arithmetic, node, Operands(arithmetic, node, {given[0]: distinct})))
    return result.reshape(-1)[np.array(places, np.intp)].reshape(x.shape)


def _array(arithmetic: ExactArithmetic, value: ir.Value | None, found: Mapping[ir.Value, Any]) -> Any:
    if value is None or value in found:
        return None if value is None else found[value]
    known = meaning(value)
    if known is None:
        raise UnknownOperatorError(f"'{value.name}' is not known")
    return arithmetic.of(known)


def _moved(node: ir.Node, x: np.ndarray, found: Mapping[ir.Value, Any]) -> list[np.ndarray]:
    """Move elements: the reference of ONNX says where each comes from."""
    from onnx.reference import ReferenceEvaluator

    places = ir.Value(name="places", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape(x.shape))
    given: list[ir.Value | None] = [places]
    weights: list[ir.Value] = []
    for number, value in enumerate(node.inputs[1:]):
        if value is None:
            given.append(None)
            continue
        if value in found or value.const_value is None:
            raise UnknownOperatorError(f"where {node.op_type} moves elements is computed")
        weight = ir.Value(name=f"w{number}", const_value=value.const_value, type=value.type, shape=value.shape)
        weights.append(weight)
        given.append(weight)
    copy = ir.Node(node.domain, node.op_type, given, tuple(node.attributes.values()), num_outputs=len(node.outputs))
    for number, output in enumerate(copy.outputs):
        output.name, output.type = f"o{number}", ir.TensorType(ir.DataType.INT64)
    opset = {"": node.graph.opset_imports.get("", 17) if node.graph is not None else 17}
    graph = ir.Graph([places], copy.outputs, nodes=[copy], initializers=weights, opset_imports=opset, name="movement")
    reference: Any = ReferenceEvaluator(ir.to_proto(ir.Model(graph, ir_version=10)))
    results = reference.run(None, {"places": np.arange(x.size, dtype=np.int64).reshape(x.shape)})
    return [x.reshape(-1)[np.asarray(result)] for result in results]
