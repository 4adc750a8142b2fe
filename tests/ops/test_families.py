"""Families of operators, and what these call their inputs."""

from __future__ import annotations

import pytest

from onnx_passes.ops.describe import family_of, key_of, operand_names


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Conv", "product"),
        ("QuantizeLinear", "quantizer"),
        ("qonnx.custom_op.general::Quant", "quantizer"),
        ("qonnx.custom_op.general::MultiThreshold", "quantizer"),
        ("com.microsoft::QuantizeLinear", "quantizer"),
        ("Add", "arithmetic"),
        ("Sigmoid", "activation"),
        ("LayerNormalization", "normalization"),
        ("Transpose", "movement"),
        ("MaxPool", "reduction"),
        ("ReduceMean", "reduction"),
        ("Loop", "control"),
        ("of.nobody::Thing:overload", "other"),
    ],
)
def test_family(name, family):
    assert family_of(key_of(name)) == family


def test_inputs_are_called_as_their_definition_calls_them():
    assert operand_names(key_of("Conv")) == ("X", "W", "B")
    assert operand_names(key_of("qonnx.custom_op.general::BipolarQuant"))[1] == "scale"
    assert operand_names(key_of("of.nobody::Thing")) == ()
