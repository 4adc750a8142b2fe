from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.api import run_model
from onnx_passes.core.errors import UsageError
from onnx_passes.core.fingerprint import full_hash

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) {
    unused = Neg(x)
    y = Relu(x)
}
"""


def test_model_object_stays_as_it_is():
    model = ir.from_onnx_text(MODEL)
    before = full_hash(model)
    result = onnx_passes.apply(model, "cleanup")
    assert full_hash(model) == before
    assert result.modified
    assert [node.op_type for node in result.model.graph] == ["Relu"]


def test_in_place_changes_the_object():
    model = ir.from_onnx_text(MODEL)
    result = onnx_passes.apply(model, "cleanup", in_place=True)
    assert result.model is model
    assert model.graph.num_nodes() == 1


def test_file_is_loaded(tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text(MODEL)
    assert onnx_passes.apply(path, "cleanup").modified


def test_finding_of_an_analysis_is_kept():
    class CountNodes(onnx_passes.Analysis):
        def analyze(self, model: ir.Model) -> int:
            return model.graph.num_nodes()

    result = onnx_passes.apply(ir.from_onnx_text(MODEL), [CountNodes(), "cleanup", CountNodes])
    assert result["count-nodes"] == 1
    with pytest.raises(KeyError):
        result["nothing"]


def test_options_by_pass_name():
    result = onnx_passes.apply(ir.from_onnx_text(MODEL), "fixpoint(cleanup)", options={"fixpoint": {"max": 1}})
    assert result.steps[0].text.startswith("fixpoint{max=1}")


def test_public_names_exist():
    for name in onnx_passes.__all__:
        assert getattr(onnx_passes, name) is not None
    with pytest.raises(AttributeError):
        _ = onnx_passes.nothing


def test_rules_of_onnxscript_are_taken_as_they_are():
    from onnxscript.rewriter import pattern

    negneg = pattern.RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="NegNeg")
    unnamed = pattern.RewriteRule(lambda op, x: op.Identity(x), lambda op, x: op.Relu(x))
    text = """
        <ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) { n = Neg(x) m = Neg(n) y = Abs(m) }
    """
    for pipeline in ([negneg, "cleanup", unnamed], pattern.RewriteRuleSet([negneg, unnamed])):
        result = onnx_passes.apply(ir.from_onnx_text(text), pipeline, verify=False)
        assert [node.op_type for node in result.model.graph] == ["Relu", "Abs"]
    assert onnx_passes.apply(ir.from_onnx_text(text), negneg).modified


def test_models_run_by_name_by_order_and_on_generated_inputs():
    x = np.array([-1, 2], np.float32)
    for inputs in ({"x": x}, [x], [{"x": x}]):
        assert run_model(ir.from_onnx_text(MODEL), inputs)["y"].tolist() == [0, 2]
    assert run_model(ir.from_onnx_text(MODEL), [np.stack([x, -x])])["y"].tolist() == [[0, 2], [1, 0]]
    assert run_model(ir.from_onnx_text(MODEL))["y"].shape == (2,)


def test_what_operators_need_to_know_is_inferred_to_run_a_model():
    model = ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["": 18, "qonnx.custom_op.general": 1]>
        g (float[1, 2] x) => (float[1, 2] y) <float[2, 1] t = {0.0, 1.0}>
        {
            n = Neg (x)
            y = qonnx.custom_op.general.MultiThreshold <out_dtype = "UINT1"> (n, t)
        }
    """)
    before = full_hash(model)
    assert run_model(model, {"x": np.full((1, 2), -0.5, np.float32)})["y"].tolist() == [[1, 0]]
    assert full_hash(model) == before


def test_results_of_samples_have_to_have_one_shape_to_be_stacked():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (int64[1, N] y) { y = NonZero (x) }'
    )
    samples = np.array([[0, 0, 0, 1], [1, 1, 0, 0]], np.float32)
    with pytest.raises(UsageError, match="another shape for every sample"):
        run_model(model, [samples])
