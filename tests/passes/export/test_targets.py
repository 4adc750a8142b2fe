"""Engines that exports are made for: what one of them cannot read or compute is written in a form that it can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import onnx_passes
from onnx_passes.core.errors import OptionError
from onnx_passes.passes.export.export_integer import ExportInteger
from onnx_passes.passes.export.targets import TARGETS, target_of
from tests.passes.export.test_export_integer import WIDE, wide_layer
from tests.passes.export.tools import assert_same_bits, export, network, results
from tests.passes.quant.tools import quantized
from tests.passes.tools import operators

QUANT = "qonnx.custom_op.general.Quant"


class MatMulInteger(OpRun):
    """Multiplies matrices of integers in single precision, as OpenVINO does."""

    def _run(self, a: np.ndarray, b: np.ndarray, za: Any = 0, zb: Any = 0) -> tuple[np.ndarray]:
        left, right = (x.astype(np.float32) - np.float32(z or 0) for x, z in ((a, za), (b, zb)))
        # One product after the other: libraries add up in an order of their own, which may round nothing.
        total = np.zeros((*left.shape[:-1], right.shape[-1]), np.float32)
        for place in range(left.shape[-1]):
            total = total + left[..., place, None] * right[place]
        return (total.astype(np.int32),)


class ConvInteger(OpRun):
    """Convolves integers in single precision, with padding alone."""

    def _run(self, x: np.ndarray, w: np.ndarray, zero: Any = 0, **attributes: Any) -> tuple[np.ndarray]:
        pads = np.array(attributes["pads"]).reshape(2, -1).T.tolist()
        image = np.pad(x.astype(np.float32) - np.float32(zero or 0), [(0, 0), (0, 0), *pads])
        windows = sliding_window_view(image, w.shape[2:], axis=(2, 3))
        rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(*image.shape[:1], *windows.shape[2:4], -1)
        found = rows @ w.astype(np.float32).reshape(len(w), -1).T
        return (np.ascontiguousarray(found.transpose(0, 3, 1, 2)).astype(np.int32),)


class GreaterOrEqual(OpRun):
    """Compares in single precision."""

    def _run(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        return (a.astype(np.float32) >= b.astype(np.float32),)


def in_single_precision(model: ir.Model, inputs: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """Run a model as an engine does that computes with integers in floats."""
    run = ReferenceEvaluator(ir.to_proto(model), new_ops=[MatMulInteger, ConvInteger, GreaterOrEqual]).run
    return [run(None, sample) for sample in inputs]


@pytest.mark.parametrize("low", [0, -127])
@pytest.mark.parametrize("name", WIDE)
def test_openvino_adds_up_and_compares_no_integers_that_floats_round(name: str, low: int):
    streamed, inputs, expected = wide_layer(name, low)
    exported, notes = export(streamed, "export-integer{target=openvino}")
    assert notes == []
    assert_same_bits(exported, expected, inputs)
    for found, wanted in zip(in_single_precision(exported, inputs), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_others_do():
    streamed, inputs, expected = wide_layer("MatMul", 0)
    found = in_single_precision(export(streamed)[0], inputs)
    assert any(not np.array_equal(a[1], b[1]) for a, b in zip(found, expected, strict=True))


def test_openvino_finds_levels_of_floats_by_comparisons_alone():
    steps = np.arange(-7, 8, dtype=np.float32)[None, :] * np.float32(0.25)
    body = 'y = qonnx.custom_op.general.MultiThreshold <out_dtype = "INT32", out_bias = -8.0> (x, t)'
    model = network("float[1, 31] x", "float[1, 31] y", body, {"t": steps})
    inputs = [{"x": np.concatenate([steps, np.nextafter(steps, np.float32(-9)), [[0.1]]], axis=1, dtype=np.float32)}]
    expected = results(model, inputs)
    assert {"Sub", "Mul"} <= set(operators(export(model)[0].graph))
    exported, _ = export(model, "export-integer{target=openvino}")
    assert not {"Sub", "Mul"} & set(operators(exported.graph))
    assert_same_bits(exported, expected, inputs)


SIXTEEN = "float s = {0.5}, float z = {0}, float b = {16}"


@pytest.mark.parametrize("signed", [0, 1])
def test_quantizers_that_openvino_passes_over_are_written_as_rounding(signed: int):
    model = quantized(SIXTEEN, f"y = {QUANT} <signed = {signed}, narrow = 0> (x, s, z, b)", opset=21)
    result = onnx_passes.apply(model, "convert-to-qcdq{target=openvino}")
    assert "Round" in operators(result.model.graph)
    assert not {"QuantizeLinear", "Quant"} & set(operators(result.model.graph))
    notes = [note for step in result.steps for note in step.notes]
    assert any("openvino has no quantizers of" in note for note in notes)
    assert operators(onnx_passes.apply(model, "convert-to-qcdq").model.graph) == ["QuantizeLinear", "DequantizeLinear"]


def test_a_target_of_ones_own_is_a_file(tmp_path: Path):
    path = tmp_path / "signed.yaml"
    path.write_text("quantizers: [INT8]\n", "utf-8")
    for bits, expected in (
        (4, ["QuantizeLinear", "Clip", "DequantizeLinear"]),
        (8, ["Div", "Clip", "Round", "Mul"]),
    ):
        text = f"float s = {{0.5}}, float z = {{0}}, float b = {{{bits}}}"
        model = quantized(text, f"y = {QUANT} <signed = 0, narrow = 0> (x, s, z, b)")
        found = onnx_passes.apply(model, f'convert-to-qcdq{{target="{path}"}}').model
        assert [name for name in operators(found.graph) if name in expected] == expected
    assert target_of(str(path)).exact == TARGETS["onnxruntime"].exact


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantisers: [INT8]", "has no 'quantisers'"),
        ("quantizers: INT8", "list of names"),
        ("quantizers: [INT9]", "no type 'INT9'"),
        ("exact: much", "whole number"),
        ("saturates: 1", "true or false"),
        ("[1]", "is a mapping"),
        ("a: [", "cannot be read"),
    ],
)
def test_files_that_describe_no_target(tmp_path: Path, text: str, message: str):
    path = tmp_path / "mine.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(OptionError, match=message):
        ExportInteger(target=str(path))


def test_targets_that_are_not_known():
    with pytest.raises(OptionError, match="no target 'openvin'") as caught:
        ExportInteger(target="openvin")
    assert "openvino" in str(caught.value.hint)
    with pytest.raises(OptionError, match="cannot be read"):
        ExportInteger(target="missing.yaml")
