"""Constants between levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.constants import held
from onnx_passes.passes.streamline.fold_quantized_weights import folded_quantizer

QUANT = "qonnx.custom_op.general.Quant"
S, W = np.float32(0.1), np.float32([0.35, 0.25, 0.1, -0.45, 0.15, 0.05])
"""Some of these are next to halves of steps: floats round quotients to the very half, and halves to even."""


def model_of(mode: str = "ROUND") -> ir.Model:
    numbers = ", ".join(map(repr, W.tolist()))
    return ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]> g (float[6] x) => (float[6] y)
        <float[6] w = {{{numbers}}}, float s = {{{float(S)!r}}}, float z = {{0}}, float b = {{4}}>
        {{ v = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "{mode}"> (w, s, z, b)
           y = Add (x, v) }}"""
    )


def levels(model: ir.Model) -> list[int]:
    (node,) = [node for node in model.graph if node.op_type == "Quant"]
    folded = folded_quantizer(node)
    assert folded is not None
    return np.rint(folded / S).astype(int).tolist()


def meant() -> list[int]:
    return [round(Fraction(float(w)) / Fraction(float(S))) for w in W]


def test_the_exact_quotient_decides():
    model = model_of()
    assert levels(model) != meant()
    after = onnx_passes.apply(model, "settle-quantized-constants", verify=False)
    assert levels(after.model) == meant()
    assert not onnx_passes.apply(after.model, "settle-quantized-constants").modified


def test_floats_decide_if_that_is_asked_for():
    model = model_of()
    after = onnx_passes.apply(model, "settle-quantized-constants{semantics=float}")
    assert after.modified
    assert levels(after.model) == levels(model)
    (node,) = [node for node in after.model.graph if node.op_type == "Quant"]
    assert [round(Fraction(float(w)) / Fraction(float(S))) for w in held(node.inputs[0])] == levels(model)  # pyright: ignore[reportArgumentType]


def test_flips_of_weights_are_excused():
    result = onnx_passes.apply(model_of(), "settle-quantized-constants")
    notes = [note for step in result.record.steps for note in step.notes]
    assert any("levels flipped at ties" in note and "the old one at 0" in note for note in notes)


@pytest.mark.parametrize("mode", ["FLOOR", "CEIL", "UP", "DOWN", "HALF_UP", "HALF_DOWN"])
def test_all_ways_of_rounding(mode: str):
    after = onnx_passes.apply(model_of(mode), "settle-quantized-constants", verify=False).model
    (node,) = [node for node in after.graph if node.op_type == "Quant"]
    from onnx_passes.numbers.arithmetic import rounded

    assert levels(after) == [int(rounded(mode, Fraction(float(w)) / Fraction(float(S)))) for w in W]
    assert node.inputs[0] is not None


def test_constants_off_all_edges_stay():
    model = model_of()
    model.graph.initializers["w"].const_value = ir.Tensor(W * np.float32(1.01))
    assert not onnx_passes.apply(model, "settle-quantized-constants").modified
