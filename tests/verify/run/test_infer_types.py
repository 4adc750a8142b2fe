"""Types inside a model are inferred, whatever is declared."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.verify.run.element_types import infer_types

DECLARED = {
    "an output of another size": ("float[2, 9] y", "", "Neg(x)"),
    "a value of another type": ("float[2, 3] y", "<int64[2, 3] a>", "Neg(x)"),
    "a value of another shape": ("float[2, 3] y", "<float[7, 3] a>", "Neg(x)"),
    "a value of an operator that nobody knows": ("float[2, 3] y", "<float[2, 3] a>", "mine.Neg(x)"),
}


@pytest.mark.parametrize(("output", "inside", "node"), DECLARED.values(), ids=DECLARED)
def test_a_false_declaration_does_not_keep_others_from_their_types(output: str, inside: str, node: str) -> None:
    graph = f"g (float[2, 3] x) => ({output}) {inside} {{ a = {node} b = Relu(a) c = Relu(x) y = Add(b, c) }}"
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 20, "mine": 1]> {graph}')
    infer_types(model)
    found = {str(value.name): value for each in model.graph for value in each.outputs}
    assert found["a"].dtype == found["c"].dtype == ir.DataType.FLOAT
    assert found["a"].shape == found["c"].shape == (2, 3)
