"""Definitions are found wherever their nodes are, and refuse attributes that they cannot do without."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import FINN_DOMAIN, definition_of
from onnx_passes.ops.describe import uses_custom_operators

Q = "qonnx.custom_op.general"
HEAD = f'<ir_version: 10, opset_import: ["": 20, "{Q}": 1, "{FINN_DOMAIN}": 1, "onnx_passes": 1]>'
SIGN = f"{Q}.BipolarQuant(x, s)"


def model(body: str, kind: str = "float[4]") -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} g ({kind} x, bool c) => ({kind} y) <float s = {{1}}> {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Abs(x) y = Relu(a)", False),
        (f"y = {SIGN}", True),
        (f"a = Abs(x) b = {SIGN} y = Add(a, b)", True),
        (
            f"y = If (c) <then_branch = t () => (float[4] p) {{ h = Neg(x) k = {SIGN} p = Add(h, k) }},"
            " else_branch = e () => (float[4] q) { q = Neg(x) }>",
            True,
        ),
        ("y = some.where.Unknown(x)", False),
    ],
)
def test_one_node_of_an_operator_that_is_defined_here_is_enough(body: str, expected: bool):
    assert uses_custom_operators(model(body).graph) == expected


def test_attributes_that_are_required_are_demanded():
    node = model(f"y = {FINN_DOMAIN}.GlobalAccPool(x)", "float[1,2,2,3]").graph[0]
    definition = definition_of(node)
    assert definition is not None
    with pytest.raises(ModelError, match="NumChannels"):
        definition.checked(node)
    node.attributes.add(ir.AttrInt64("NumChannels", 3))
    assert definition.checked(node)["NumChannels"] == 3


def test_texts_are_text():
    text = 'y = onnx_passes.LayoutConverter <from_layout = "NCHW", to_layout = "NHWC"> (x)'
    node = model(text, "float[1,2,2,3]").graph[0]
    definition = definition_of(node)
    assert definition is not None
    assert definition.checked(node) == {"from_layout": "NCHW", "to_layout": "NHWC"}
