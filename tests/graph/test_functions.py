"""How large models are with their functions in place."""

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.errors import ModelError, PassFailedError
from onnx_passes.graph.functions import MOST_NODES, expanded_size
from onnx_passes.graph.load import load
from onnx_passes.passes.analyse.inspection import inspect

HEAD = '<ir_version: 10, opset_import: ["" : 20, "l" : 1]>'


def doubling(levels: int) -> ir.Model:
    """Return a model whose functions call each other twice each."""
    functions = [f"F{n} (a) => (b) {{ t = l.F{n - 1}(a) b = l.F{n - 1}(t) }}" for n in range(1, levels)]
    bodies = ["F0 (a) => (b) { t = Neg(a) b = Neg(t) }", *functions]
    imports = '<domain: "l", opset_import: ["" : 20, "l" : 1]>'
    graph = f"g (float[1] x) => (float[1] y) {{ y = l.F{levels - 1}(x) }}"
    return load(f"{HEAD} {graph} {' '.join(f'{imports} {body}' for body in bodies)}".encode())


def test_the_size_is_that_of_the_inlined_model():
    model = doubling(5)
    size = expanded_size(model)
    assert size == 2**5
    inlined = onnx_passes.apply(model, "inline-functions").model
    assert len(inlined.graph) == size == expanded_size(inlined)


def test_recursion_is_counted_without_end_in_sight():
    text = f"""{HEAD} g (float x) => (float y) {{ y = l.F(x) }}
    <domain: "l", opset_import: ["" : 20, "l" : 1]> F (a) => (b) {{ t = l.G(a) b = l.F(t) }}
    <domain: "l", opset_import: ["" : 20, "l" : 1]> G (a) => (b) {{ b = l.F(a) }}"""
    assert expanded_size(load(text.encode())) > 0


def test_functions_that_explode_are_left_alone():
    model = doubling(24)
    assert expanded_size(model) > MOST_NODES
    found = inspect(model)
    assert found.trial is None
    with pytest.raises(ModelError, match="expand to 16777216 nodes"):
        onnx_passes.run_model(model)
    with pytest.raises(PassFailedError, match="expand to 16777216 nodes"):
        onnx_passes.apply(model, "inline-functions")
    result = onnx_passes.apply(model, "shape-inference, cleanup")
    assert len(result.model.functions) == 24
