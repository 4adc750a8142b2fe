"""Models that Brevitas and ONNX Runtime quantized, there and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.verify.run.execute import Executor
from tests.helpers.small_models import files
from tests.passes.quant.tools import quantizers
from tests.passes.tools import operators

LINEAR = {"QuantizeLinear", "DequantizeLinear"}
INTEGER = {"QLinearConv", "QLinearMatMul", "QGemm", "QLinearGlobalAveragePool"}
LARGE = 20_000
ONLY_IN_PART = {
    *("rounding_modes_w4a4", "rounding_to_zero_w4a4", "zeropoint_asym_w4a4_nopad", "zeropoint_asym_w8a8"),
    "small_zero_points",
}
"""Models with quantizers that QuantizeLinear has no word for."""


def assert_close_to_reference(model: ir.Model, path: Path) -> None:
    """Compare with what the authors of the model computed, relative to the range of their results."""
    reference = path.with_suffix(".npz")
    if not reference.exists():
        return
    with np.load(reference) as data:
        arrays = {name: data[name] for name in data.files if "_b1__" in name}
    feeds = {name.removeprefix("in_b1__"): array for name, array in arrays.items() if name.startswith("in")}
    results = Executor().prepare(model, engine="onnxruntime").run(feeds)
    # The data have values besides that are no outputs of the model, but all outputs are among them.
    for value in model.graph.outputs:
        found, wanted = results[str(value.name)], arrays[f"out_b1__{value.name}"]
        if wanted.dtype == np.float32:
            assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
        else:
            assert np.array_equal(found, wanted)


def gives_the_same_for_nan(before: ir.Model, after: ir.Model) -> bool:
    """Return whether two models give the same results for inputs of NaN, and for NaN among numbers."""
    old, new = (Executor().prepare(model, engine="onnxruntime") for model in (before, after))
    rng = np.random.default_rng(0)
    for share in (1.0, 0.5, 0.1):
        feeds: dict[str, np.ndarray] = {}
        for value in before.graph.inputs:
            if value.is_initializer():
                continue
            numbers = rng.normal(size=[size if isinstance(size, int) else 1 for size in value.shape or ()])
            feeds[str(value.name)] = np.where(rng.random(numbers.shape) < share, np.nan, numbers).astype(np.float32)
        expected, found = old.run(feeds), new.run(feeds)
        if not all(np.array_equal(expected[name], found[name], equal_nan=True) for name in expected):
            return False
    return True


@pytest.mark.parametrize("path", files("qcdq"), indirect=True)
def test_all_of_qcdq_becomes_quant(path: Path):
    result = onnx_passes.apply(str(path), "convert-qcdq")
    assert not LINEAR & set(operators(result.model.graph))
    assert result.steps[-1].evidence is not None
    assert result.steps[-1].evidence.max_abs == 0
    # QuantizeLinear makes an integer of NaN, and Quant keeps it: where special samples show that, bits are not claimed.
    level = result.steps[-1].evidence.level
    assert level == "bits:sampled" or not gives_the_same_for_nan(ir.load(path), result.model)
    assert_close_to_reference(result.model, path)


@pytest.mark.parametrize("path", files("ort-quantized"), indirect=True)
def test_networks_of_onnx_runtime_become_quant(path: Path):
    result = onnx_passes.apply(str(path), "import-quantized")
    left = set(operators(result.model.graph))
    assert not LINEAR & left
    assert not INTEGER & left
    assert ("Quant" in left) == ("float" not in path.stem)
    worst = max(step.evidence.max_abs or 0 for step in result.steps if step.evidence is not None)
    assert worst == 0
    notes = [note for step in result.steps for note in step.notes]
    assert any("DynamicQuantizeLSTM" in note for note in notes) == ("lstm" in path.stem)


def is_small(path: Path) -> bool:
    return path.stat().st_size < LARGE


@pytest.mark.parametrize("path", files("brevitas", keep=is_small), indirect=True)
def test_quant_there_and_back(path: Path):
    prepared = onnx_passes.apply(str(path), "remove-initializers-from-inputs, lift-constants, import-qonnx").model
    before = quantizers(prepared)
    there = onnx_passes.apply(prepared, "convert-to-qcdq{rest=keep}").model
    assert_close_to_reference(there, path)
    if path.stem not in ONLY_IN_PART:
        assert "Quant" not in operators(there.graph)
    back = onnx_passes.apply(there, "convert-qcdq").model
    assert not LINEAR & set(operators(back.graph))
    # Weights of BipolarQuant come back as Quant of two levels.
    bipolar = operators(prepared.graph).count("BipolarQuant") - operators(back.graph).count("BipolarQuant")
    expected = [plain(q) for q in before]
    assert [q for q in map(plain, quantizers(back)) if q in expected] == expected
    assert len(quantizers(back)) == len(expected) + bipolar
    assert_close_to_reference(back, path)


def plain(quantizer: object) -> list[object]:
    """Return the parameters of a quantizer without regard to shapes of one element and the sign of zero."""
    bits, signed, narrow, scale, zero, rounding = quantizer  # type: ignore[misc]
    zeros = sorted(set(np.ravel(zero).astype(float) + 0.0))
    return [bits, signed, narrow, np.ravel(scale).tolist(), zeros, rounding]
