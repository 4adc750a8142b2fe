"""What becomes no hardware is named, with the reason."""

from __future__ import annotations

import pytest

from tests.passes.export.test_export_finn import MT, SIGNS, binary_mlp, small_cnn, weights
from tests.passes.export.tools import export, network

FLOATS = "FINN has it for integers, but an input is not: see the notes of check-streamlined"
NO_LAYER = "FINN has no layer for it"


def remarks(body: str, result: str = "float[A, B] y", x: str = "float[2, 6] x") -> list[str]:
    constants = {"w": weights(6, 6), "v": weights(6, 6), "s": [0.1], "t": weights(1, 3) + 0.5}
    also = "int64[1] one = {1}, int64[2] flat = {2, -1}, int64[3] deep = {2, 2, 3}"
    model = network(x, result, body, constants, also=also)
    return [note for note in export(model, "export-finn")[1] if "hardware" in note]


@pytest.mark.parametrize("model", [small_cnn(), binary_mlp()])
def test_nothing_is_named_where_all_becomes_hardware(model: object):
    assert not [note for note in export(model, "export-finn")[1] if "hardware" in note]  # type: ignore[arg-type]


QUANTIZED = "a = q(-3, 4) x\nb = MatMul (a, w)"
PLACES = {
    "in front": (
        "[it] z = MatMul (x, w)\na = q(-3, 4) z\nb = MatMul (a, v)\ny = Mul (b, s)",
        "stays before",
        FLOATS,
    ),
    "behind": (f"{QUANTIZED}\nc = Mul (b, s)\n[it] y = Sigmoid (c)", "stays after", NO_LAYER),
    "between": (f"{QUANTIZED}\n[it] c = Sigmoid (b)\nd = q(-3, 4) c\ny = MatMul (d, v)", "splits", NO_LAYER),
    "product of floats": (f"{QUANTIZED}\nc = Mul (b, s)\n[it] d = MatMul (c, v)\ny = q(-3, 4) d", "splits", FLOATS),
    "reshaped": (
        f"{QUANTIZED}\n[it] c = Reshape (b, deep)\nd = Mul (c, s)\ny = Flatten (d)",
        "splits",
        "next to a Transpose",
    ),
    "joined along rows": (f"{QUANTIZED}\n[it] y = Concat <axis = 0> (b, a)", "stays after", "along the last axis only"),
    "largest values": (f"{QUANTIZED}\n[it] y, i = TopK (b, one)", "stays after", "drop that result"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_what_becomes_no_hardware_is_named(kind: str):
    body, place, reason = PLACES[kind]
    found = [note for note in remarks(body) if "'it" in note]
    assert found
    assert all(f"{place} the hardware: " in note and reason in note for note in found)


def test_a_quantizer_that_is_left_is_named_as_one():
    quantizer = "qonnx.custom_op.general.Quant <signed = 1, narrow = 0>"
    body = f"m = ReduceMax (x)\nd = Abs (m)\n[it] y = {quantizer} (x, d, s, bits)"
    constants = {"s": 0.0, "bits": 4.0}
    model = network("float[2, 6] x", "float[2, 6] y", body, constants)
    notes = [note for note in export(model, "export-finn")[1] if "'it" in note]
    assert notes
    assert "FINN has thresholds, not quantizers" in notes[-1]


def test_pieces_are_counted():
    body, _, _ = PLACES["between"]
    assert "FINN builds one block of hardware, which 1 node would split" in remarks(body)


def test_movement_at_the_input_is_none_of_it():
    assert not remarks("r = Reshape (x, flat)\na = q(-3, 4) r\nb = MatMul (a, w)\ny = Mul (b, s)", x="float[2, 2, 3] x")


def test_sizes_have_to_be_known():
    notes = remarks(f"a = {MT} {SIGNS} (x, t)\ny = Add (a, a)", x="float[N, 6] x")
    assert notes == ["FINN builds no hardware for 'x' of unknown size; run fix-shapes{N=1} first"]


def test_scales_that_thresholds_have_are_named():
    notes = remarks(f"[it] a = {MT} <out_scale = 0.5, out_bias = -1.0> (x, t)\ny = Mul (a, s)")
    assert any("streamline factors scales out of quantizers" in note for note in notes)
