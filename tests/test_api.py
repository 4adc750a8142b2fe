from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import examples
from onnx_passes.api import run_model
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.records import Application
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.verify.failure import PostconditionError

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


class Program:
    """As ``torch.onnx.ONNXProgram``: holds a model, and makes a message of it when asked."""

    def __init__(self, text: str) -> None:
        self.model = ir.from_onnx_text(text)

    @property
    def model_proto(self) -> onnx.ModelProto:
        return ir.to_proto(self.model)


class MessageOnly:
    """A program of a library whose model is of another kind."""

    def __init__(self, text: str) -> None:
        self.model = object()
        self.model_proto = ir.to_proto(ir.from_onnx_text(text))


def sources() -> dict[str, Any]:
    proto = ir.to_proto(ir.from_onnx_text(MODEL))
    return {
        "ModelProto": proto,
        "bytes": proto.SerializeToString(),
        "text": MODEL.strip().encode(),
        "file": io.BytesIO(proto.SerializeToString()),
        "program": Program(MODEL),
        "message": MessageOnly(MODEL),
    }


@pytest.mark.parametrize("kind", list(sources()))
def test_every_kind_of_model_is_taken_and_left_as_it_is(kind):
    source = sources()[kind]
    held = source if kind == "ModelProto" else getattr(source, "model_proto", None)
    before = None if held is None else held.SerializeToString(deterministic=True)
    result = onnx_passes.apply(source, "cleanup", paranoid=True)
    assert [node.op_type for node in result.model.graph] == ["Relu"]
    after = source if kind == "ModelProto" else getattr(source, "model_proto", None)
    assert before is None or (after is not None and after.SerializeToString(deterministic=True) == before)


def test_in_place_does_not_reach_a_message():
    proto = ir.to_proto(ir.from_onnx_text(MODEL))
    before = proto.SerializeToString(deterministic=True)
    onnx_passes.apply(proto, "cleanup", in_place=True)
    assert proto.SerializeToString(deterministic=True) == before


def test_what_is_no_model_is_said_so():
    with pytest.raises(ModelError, match="int is not a model"):
        onnx_passes.apply(3, "cleanup")  # pyright: ignore[reportArgumentType]


def test_a_wrong_pass_is_found_whatever_the_model_came_from():
    class Breaks(onnx_passes.Transformation):
        claims = (Claim("equality"),)

        def call(self, model: ir.Model) -> onnx_passes.PassResult:
            node = next(node for node in model.graph if node.op_type == "Relu")
            node.op_type = "Abs"
            return onnx_passes.PassResult(model, True)

    for source in sources().values():
        with pytest.raises(PostconditionError):
            onnx_passes.apply(source, Breaks())


def test_result_is_saved_and_given_as_a_message(tmp_path):
    result = onnx_passes.apply(MODEL.strip().encode(), "cleanup")
    report = result.save(tmp_path / "out.onnx")
    assert report.path == tmp_path / "out.onnx"
    saved = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in saved.graph.node] == [node.op_type for node in result.proto.graph.node] == ["Relu"]


def test_message_of_a_result_holds_weights_that_came_from_a_data_file(tmp_path):
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 20]>
        g (float[4096] x) => (float[4096] y) { y = Relu(x) }""")
    weight = ir.Value(name="w", const_value=ir.tensor(np.arange(4096, dtype=np.float32), name="w"))
    model.graph.register_initializer(weight)
    model.graph[0].replace_input_with(0, weight)
    onnx_passes.save(model, tmp_path / "m.onnx", external=True)
    (tensor,) = onnx_passes.apply(tmp_path / "m.onnx", "cleanup").proto.graph.initializer
    assert not tensor.external_data
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), np.arange(4096, dtype=np.float32))


def test_what_a_notebook_shows_is_short():
    result = onnx_passes.apply(onnx_passes.load(examples.path("digits-cnn")), "streamline", verify=False)
    record, steps = result.record, result.steps
    assert record.plan is not None
    shown = [result, record, record.plan, *record.plan.steps, *steps]
    shown += [onnx_passes.diff(examples.path("digits-cnn"), result.model), onnx_passes.inspect(result.model)]
    for thing in shown:
        assert len(repr(thing)) < 400, repr(thing)
    assert "streamline" in repr(result)
    assert f"{record.before.nodes} → {record.after.nodes} nodes" in repr(result)
    assert repr(steps[0]).startswith("<StepRecord 1 ")


def test_applications_are_short_too():
    class Watch(onnx_passes.Instrument):
        shown: ClassVar[list[str]] = []

        def after_rewrite(self, application: Application) -> None:
            self.shown.append(repr(application))

    onnx_passes.apply(TWO.encode(), "eliminate", verify=False, instruments=[watch := Watch()])
    assert watch.shown
    assert max(map(len, watch.shown)) < 200


TWO = """<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) <float one = {1.0}> { s = Mul(x, one) y = Relu(s) }"""


def test_ranges_by_name():
    found = onnx_passes.ranges(TWO.encode(), {"x": (-3, 5)})
    assert (found["y"].low.item(), found["y"].high.item()) == (0, 5)
    assert onnx_passes.ranges(TWO.encode(), {"x": "INT4"})["y"].integer_grid is not None


def test_questions_take_models_of_every_kind():
    for source in (TWO.encode(), ir.to_proto(ir.from_onnx_text(TWO)), ir.from_onnx_text(TWO), Program(TWO)):
        assert onnx_passes.inspect(source).summary.size.nodes == 2
        assert not onnx_passes.diff(source, MODEL.strip().encode()).is_empty
        assert not onnx_passes.why(source, "s", "eliminate").present
        assert onnx_passes.why_not(source, "eliminate-neutral-element", at="s").applies
        assert not onnx_passes.bisect(source, "eliminate").found


def test_a_failure_is_reduced():
    class BreaksRelu(onnx_passes.RewriteRulePass, onnx_passes.Transformation):
        claims = (Claim("equality"),)

        def pattern(self, op: onnx_passes.Op, x: onnx_passes.Var) -> onnx_passes.Var:
            return op.Relu(x)

        def rewrite(self, op: onnx_passes.Builder, x: ir.Value) -> ir.Value:
            return op.Abs(x)

    reduced = onnx_passes.reduce(TWO.encode(), BreaksRelu())
    assert [node.op_type for node in reduced.model.graph] == ["Relu"]
    assert len(reduced.samples) == 1
    assert isinstance(reduced.error, PostconditionError)
    assert len(repr(reduced)) < 1500


def test_one_source_of_inputs_needs_no_list(tmp_path):
    x = np.array([-1, 2], np.float32)
    np.save(tmp_path / "x.npy", x)
    for inputs in (str(tmp_path / "x.npy"), tmp_path / "x.npy", x, {"x": x}):
        result = onnx_passes.apply(ir.from_onnx_text(MODEL), "cleanup", inputs=inputs)
        assert max(step.evidence.samples for step in result.steps if step.evidence) == 1
        measured = onnx_passes.apply(ir.from_onnx_text(MODEL), "cleanup", inputs=inputs, metrics={"psnr": None})
        assert measured.record.metrics["psnr"] == np.inf
        assert run_model(ir.from_onnx_text(MODEL), inputs)["y"].tolist() == [0, 2]
    with pytest.raises(UsageError, match=r"x\.npz: there is no such file"):
        onnx_passes.apply(ir.from_onnx_text(MODEL), "cleanup", inputs=str(tmp_path / "x.npz"))
