from __future__ import annotations

import onnx_ir as ir
import pytest

import onnx_passes
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
