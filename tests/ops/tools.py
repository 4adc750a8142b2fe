"""Run one operator in every way that its definition gives: numpy, ONNX Runtime fast and portable, reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Definition
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.verify.run.execute import Executor


def one_node(
    definition: type[Definition],
    x: np.ndarray,
    *constants: Any,
    opset: int = 18,
    domain: str | None = None,
    fed: bool = False,
    **attributes: Any,
) -> ir.Model:
    """Make a model of one node: an input ``x``, other inputs constant or ``fed`` by the caller, an output ``y``."""
    first = ir.Value(name="x", type=ir.TensorType(ir.DataType.from_numpy(x.dtype)), shape=ir.Shape(x.shape))
    others: list[ir.Value | None] = []
    for number, given in enumerate(constants, start=1):
        if given is None:
            others.append(None)
            continue
        tensor = ir.Tensor(np.asarray(given), name=f"c{number}")
        others.append(
            ir.Value(name=f"c{number}", const_value=tensor, type=ir.TensorType(tensor.dtype), shape=tensor.shape)
        )
    place = definition.domains[0] if domain is None else domain
    node = ir.node(definition.name, [first, *others], attributes, domain=place)
    output = node.outputs[0]
    dtype = ir.DataType.from_numpy(x.dtype)
    output.name, output.type = "y", ir.TensorType(dtype if dtype.is_floating_point() else ir.DataType.FLOAT)
    graph = ir.Graph(
        [first, *(value for value in others if fed and value is not None)],
        [output],
        nodes=[node],
        initializers=[value for value in others if value is not None],
        opset_imports={"": opset, place: 1},
        name="one_node",
    )
    return ir.Model(graph, ir_version=8)


def results(model: ir.Model, x: np.ndarray) -> dict[str, np.ndarray]:
    """Run in every way there is."""
    from onnx_passes.ops.definition import definition_of

    node = model.graph[0]
    definition = definition_of(node)
    assert definition is not None
    arrays = [x] + [value.const_value.numpy() for value in node.inputs[1:] if value is not None and value.const_value]
    found = {"numpy": definition.compute(arrays, definition.checked(node))}
    held = {value.name: value.const_value.numpy() for value in model.graph.inputs if value.const_value}
    feeds = {value.name or "": held.get(value.name, x) for value in model.graph.inputs}
    found["fast"] = Executor().prepare(model, engine="onnxruntime").run(feeds)["y"]
    portable = model.clone()
    assert expand_nodes(portable) == 1
    found["portable"] = Executor().prepare(portable, engine="onnxruntime").run(feeds)["y"]
    return found


def assert_computes(model: ir.Model, x: np.ndarray, expected: np.ndarray) -> None:
    """Check that all ways agree, down to the sign of zero."""
    for way, array in results(model, x).items():
        assert_same(array, expected, way)


def assert_same(array: np.ndarray, expected: np.ndarray, way: str = "") -> None:
    """Compare types, shapes and all bits but those of NaN."""
    assert array.dtype == expected.dtype, way
    assert array.shape == expected.shape, way
    np.testing.assert_array_equal(array, expected, err_msg=way)
    signs = np.signbit(array) | np.isnan(array), np.signbit(expected) | np.isnan(expected)
    np.testing.assert_array_equal(*signs, err_msg=way)
