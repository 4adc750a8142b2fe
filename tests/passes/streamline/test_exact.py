"""Streamlined networks compute what the network means in exact arithmetic, ties included."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.build import collect
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.semantics.exact import evaluate, exact_value, has_exact_value
from onnx_passes.passes.streamline.semantics import QuantizedPipeline
from onnx_passes.testing.tied_networks import tied_inputs, tied_network
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor


def run(model: ir.Model, batch: np.ndarray) -> np.ndarray:
    return Executor().prepare(model, engine="onnxruntime").run({"x": batch})["y"]


def is_exact(result: onnx_passes.Result) -> bool:
    return not any("not exact" in note for step in result.record.steps for note in step.notes)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_on_edges_of_levels(seed: int):
    model = tied_network(seed)
    batch = tied_inputs(model, seed, 12)
    result = onnx_passes.apply(model, "streamline", verify=False)
    inferred = onnx_passes.apply(model, "shape-inference", verify=False).model
    meant = nearest(evaluate(inferred, {"x": batch})["y"])
    if is_exact(result):
        np.testing.assert_allclose(run(result.model, batch), meant, rtol=1e-5, atol=1e-6 * np.abs(meant).max())


@pytest.mark.parametrize("seed", [0, 6])
def test_flips_are_excused_and_the_new_levels_are_right(seed: int):
    result = onnx_passes.apply(tied_network(seed), "streamline", verify=Verification(seed=seed))
    notes = [note for step in result.record.steps for note in step.notes if "flipped at ties" in note]
    assert notes
    assert all("the old one at 0" in note for note in notes)


def test_floats_decide_if_that_is_asked_for():
    model = tied_network(0)
    batch = tied_inputs(model, 0, 50)
    texts = ("streamline{semantics=float}", "streamline")
    floats, exact = (onnx_passes.apply(model, text, verify=False).model for text in texts)
    assert (run(floats, batch) == run(model, batch)).all()
    assert (run(exact, batch) != run(model, batch)).any()


def expecting_floats(model: ir.Model) -> Verification:
    batch = tied_inputs(model, 0, 50)
    return Verification(inputs=[{"x": batch}], expect=[{"y": run(model, batch)}])


@pytest.mark.parametrize("pipeline", ["streamline", "finn"])
def test_expected_outputs_are_not_excused_at_ties(pipeline: str):
    model = tied_network(0)
    with pytest.raises(PostconditionError, match=r"expected as given: with the option semantics=float") as failed:
        onnx_passes.apply(model, pipeline, verify=expecting_floats(model))
    assert "--tolerance" not in str(failed.value)
    result = onnx_passes.apply(model, f"{pipeline}{{semantics=float}}", verify=expecting_floats(model))
    assert not any("flipped at ties" in note for step in result.record.steps for note in step.notes)


def test_members_of_quantized_pipelines_take_the_semantics():
    for pipeline in ("streamline", "finn", "hls4ml"):
        (made,) = collect(f"{pipeline}{{semantics=float}}")
        assert isinstance(made, QuantizedPipeline)
        texts = list(map(str, made.body))
        assert any(text.startswith("infer-thresholds{") for text in texts)
        assert all("semantics=float" in text for text in texts if text.startswith(("infer-thresholds", "settle-")))
        assert list(map(str, type(made)(semantics="float").body)) == texts


def test_what_scales_stand_for_goes_along_and_ends_with_the_tensor():
    head = '<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]>'
    quant = 'qonnx.custom_op.general.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND">'
    text = f"""{head} g (float[1,3] x) => (float[1,2] y)
        <float s = {{0.1}}, float t = {{0.3}}, float z = {{0}}, float b = {{4}}, float[3,2] w = {{1,2,-1,0.5,0.25,3}}>
        {{ q = {quant} (x, s, z, b) v = {quant} (w, t, z, b) y = MatMul (q, v) }}"""
    passes = "import-qonnx, shape-inference, extract-quant-scale-zeropoint, aggregate-scales"
    after = onnx_passes.apply(ir.from_onnx_text(text), passes, verify=False).model
    (scale,) = [node.inputs[1] for node in after.graph if node.op_type == "Mul"]
    assert scale is not None
    product = float(np.float32(0.1)) * float(np.float32(0.3))
    said = exact_value(scale)
    assert said is not None
    assert float(said[0]) == product != float(np.float32(product))
    assert has_exact_value(scale)
    scale.const_value = ir.Tensor(np.full((1, 1), product, np.float32))
    assert not has_exact_value(scale)


def test_a_float_sum_before_a_quantizer_is_said_not_to_be_exact():
    head = '<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]>'
    quant = 'qonnx.custom_op.general.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND">'
    text = f"""{head} g (float[1,3] x) => (float[1,3] y) <float s = {{0.1}}, float t = {{0.37}}, float z = {{0}},
        float b = {{4}}>
        {{ q = {quant} (x, s, z, b) r = {quant} (x, t, z, b) a = Add (q, r) y = {quant} (a, s, z, b) }}"""
    result = onnx_passes.apply(ir.from_onnx_text(text), "streamline", verify=False)
    notes = [note for step in result.record.steps for note in step.notes if "not exact" in note]
    assert len(notes) == 1
    assert "before it rounds to floats" in notes[0]
