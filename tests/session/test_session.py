from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from onnx_passes import EditorPass, RewriteRulePass, Rule, Transformation, Verification, examples, passes
from onnx_passes.core.errors import OptionError, PassFailedError, UsageError
from onnx_passes.core.evidence import Finding, reaches
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.testing import assert_same_graph
from onnx_passes.verify.comparison.evidence import Limits
from onnx_passes.verify.failure import PostconditionError

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2, 3] x) => (float[2, 3] y)
<float zero = {0.0}, float two = {2.0}>
{
  [identity] a = Identity(x)
  [first] b = Add(a, zero)
  [second] c = Mul(b, two)
  [third] y = Relu(c)
}
"""


class DropAdd(Transformation, RewriteRulePass):
    def pattern(self, op, x, c):
        return op.Add(x, c)

    def rewrite(self, op, x, c):
        return op.Identity(x)


class DropSub(Transformation, RewriteRulePass):
    def pattern(self, op, x, c):
        return op.Sub(x, c)

    def rewrite(self, op, x, c):
        return op.Identity(x)


class DropMul(Transformation, RewriteRulePass):
    """Wrong on purpose."""

    def pattern(self, op, x, c):
        return op.Mul(x, c)

    def rewrite(self, op, x, c):
        return op.Identity(x)


def session(**options) -> onnx_passes.Session:
    return onnx_passes.open(ir.from_onnx_text(MODEL), **options)


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_apply_goes_on_from_the_last_step():
    s = session()
    assert s.apply("eliminate-identity").modified
    s.apply(DropAdd)
    assert operators(s.model) == ["Identity", "Mul", "Relu"]
    assert [state.text for state in s.steps] == ["original", "eliminate-identity", "drop-add"]
    first, second, third = (state.evidence for state in s.steps)
    assert (first, third) == ("", "tolerance:sampled")
    assert reaches(second, Finding("bits", "sampled"))


def test_the_given_model_stays_as_it_is():
    given = ir.from_onnx_text(MODEL)
    before = full_hash(given)
    onnx_passes.open(given).apply("simplify")
    assert full_hash(given) == before


def test_undo_and_redo_move_between_the_same_models():
    s = session()
    original = s.model
    s.apply("eliminate-identity")
    first = s.model
    s.apply(DropAdd)
    second = s.model
    assert s.undo().model is first
    assert s.undo().model is original
    assert s.redo(2).model is second
    assert s.undo(2).model is original
    assert [state.number for state in s.steps] == [0, 1, 2]
    assert s.steps.current == 0


def test_apply_forgets_what_was_undone():
    s = session()
    s.apply(DropAdd)
    s.undo()
    s.apply("eliminate-identity")
    with pytest.raises(UsageError, match="cannot redo 1 of 0"):
        s.redo()


def test_nothing_to_undo_is_said():
    with pytest.raises(UsageError, match="cannot undo 1 of 0 steps"):
        session().undo()


def test_states_of_the_history_are_not_changed_by_later_steps():
    s = session()
    s.apply("eliminate-identity")
    before = full_hash(s.model)
    kept = s.model
    s.apply("simplify")
    assert full_hash(kept) == before


def test_branches_go_their_own_way():
    s = session()
    s.apply("eliminate-identity")
    other = s.branch("other")
    other.apply(DropAdd)
    assert operators(s.model) == ["Add", "Mul", "Relu"]
    assert operators(other.model) == ["Identity", "Mul", "Relu"]
    assert s.branches["other"] is other
    assert other.branches["main"] is s
    assert s.verify("other").verdict == "within tolerance"
    assert [changed.after.op_type for changed in s.diff("other").changed] == ["Add"]
    with pytest.raises(UsageError, match="did you mean 'other'"):
        s.diff("othr")


def test_a_wrong_pass_leaves_the_session_where_it_was():
    s = session(inputs={"x": np.ones((2, 3), np.float32)})
    s.apply("eliminate-identity")
    before = s.model
    with pytest.raises(PostconditionError):
        s.apply(DropMul)
    assert s.model is before
    assert len(s.steps) == 2
    failure = s.failure
    assert failure is not None
    assert failure.pass_ == "drop-mul"
    assert "DropMul" in failure.rewrite
    assert failure.node == "c = Mul(b, two)"
    assert failure.tensor is not None
    assert failure.tensor.name == "y"
    assert failure.element is not None
    assert (failure.element.expected, failure.element.found) == (2.0, 1.0)
    assert operators(failure.wrong) == ["Add", "Identity", "Relu"]
    assert [changed.before.name for changed in failure.diff.changed] == ["second"]
    s.apply(DropAdd)
    assert s.failure is None


def test_a_failure_is_written_as_a_reproducer(tmp_path: Path):
    s = session()
    with pytest.raises(PostconditionError):
        s.apply(DropMul)
    assert s.failure is not None
    folder = s.failure.reproducer(tmp_path / "repro")
    assert list(folder.glob("*.onnx"))


def test_a_reproducer_is_verified_as_the_step_was(tmp_path: Path):
    class NearlyMul(Transformation, RewriteRulePass):
        def pattern(self, op, x, c):
            return op.Mul(x, c)

        def rewrite(self, op, x, c):
            return op.Mul(x, np.float32(2.00001))

        def check(self, op, x, c):
            return onnx_passes.constant(c) == 2

    session().apply(NearlyMul)
    strict = session(verify=Verification(limits=Limits(0.0, 0.0)))
    with pytest.raises(PostconditionError):
        strict.apply(NearlyMul)
    assert strict.failure is not None
    assert strict.failure.reproducer(tmp_path / "strict").is_dir()


def test_a_failure_without_a_model_is_shown():
    class Broken(EditorPass):
        def edit(self, model, editor):
            raise ValueError("oh")

    s = session()
    with pytest.raises(PassFailedError):
        s.apply(Broken)
    assert s.failure is not None
    assert "leaves no model" in s.failure._repr_mimebundle_()["text/html"]


def test_a_mistake_of_the_user_is_no_failure():
    s = session()
    with pytest.raises(UsageError, match="did you mean 'simplify'"):
        s.apply("simplfy")
    assert s.failure is None


def test_a_wrong_pass_applies_without_verification():
    s = session()
    s.apply(DropMul, verify=False)
    found = s.verify()
    assert not found.equal
    assert found.verdict == "different"
    assert "first divergence" in str(found)


def test_options_are_those_of_the_pass():
    s = session()
    s.apply("fixpoint(eliminate-identity)", max=3)
    assert s.pipeline == "fixpoint{max=3}(eliminate-identity)"
    with pytest.raises(UsageError, match="options are given to one pass"):
        s.apply("cleanup, eliminate", max=3)
    with pytest.raises(OptionError, match="has no option 'forks_'"):
        s.apply(DropAdd, forks_=3)


def test_rules_are_applied_as_they_are():
    rule = Rule(lambda op, x, c: op.Add(x, c), lambda op, x, c: op.Identity(x), name="no-add")
    s = session()
    s.apply(rule)
    assert "Add" not in operators(s.model)
    assert "'no-add' is not registered" in s.pipeline


def test_the_pipeline_makes_the_same_on_the_command_line(tmp_path: Path):
    given = tmp_path / "model.onnx"
    onnx_passes.save(ir.from_onnx_text(MODEL), given)
    s = onnx_passes.open(given)
    s.apply("eliminate-identity")
    s.apply("fold-constants", max_size="1MB")
    command = [sys.executable, "-m", "onnx_passes", "-o", str(tmp_path / "out.onnx"), str(given), s.pipeline]
    subprocess.run(command, check=True, capture_output=True)
    assert_same_graph(onnx_passes.load(tmp_path / "out.onnx"), s.model)


def test_passes_of_a_session_are_marked_in_the_pipeline():
    define("__main__", "CellPass", "Add")
    s = session()
    s.apply("eliminate-identity")
    s.apply("cell-pass")
    lines = s.pipeline.splitlines()
    assert lines[0] == "eliminate-identity,"
    assert lines[1].startswith("cell-pass  # 'cell-pass' is defined in this session")
    assert onnx_passes.apply(s.original, s.pipeline).modified


def test_registered_rules_of_a_session_are_marked_in_the_pipeline():
    def rewrite(op, x, c):
        return op.Identity(x)

    rewrite.__module__ = "__main__"
    rule = Rule(lambda op, x, c: op.Add(x, c), rewrite, name="cell-adds")
    passes.register("cell-adds")(rule)
    s = session()
    s.apply("cell-adds")
    assert "'cell-adds' is defined in this session" in s.pipeline


def define(module: str, name: str, replacement: str) -> type:
    """Define a pass as a cell does."""

    def rewrite(self, op, x, c):
        return op.Add(x, x) if replacement == "Add" else op.Neg(x)

    body = {
        "__module__": module,
        "pattern": lambda self, op, x, c: op.Mul(x, c),
        "rewrite": rewrite,
    }
    return passes.register()(type(name, (Transformation, RewriteRulePass), body))


def test_a_cell_that_is_run_again_takes_effect():
    s = session()
    define("__main__", "CellRule", "Neg")
    define("__main__", "CellRule", "Add")
    s.apply("cell-rule")
    assert operators(s.model) == ["Identity", "Add", "Add", "Relu"]


def test_preview_changes_nothing():
    s = session()
    before = full_hash(s.model)
    found = s.preview("eliminate-identity")
    assert [node.op_type for node in found.removed] == ["Identity"]
    assert full_hash(s.model) == before
    assert len(s.steps) == 1


def test_diff_is_that_of_the_last_step_or_since_one():
    s = session()
    assert s.diff().is_empty
    s.apply("eliminate-identity")
    s.apply(DropAdd)
    assert [(changed.before.op_type, changed.after.op_type) for changed in s.diff().changed] == [("Add", "Identity")]
    assert [node.op_type for node in s.diff(0).removed] == ["Add"]
    with pytest.raises(UsageError, match="there is no step 7"):
        s.diff(7)


def test_run_computes_what_onnx_runtime_does_with_values_inside(tmp_path: Path):
    s = session()
    s.apply("eliminate-identity")
    s.save(tmp_path / "model.onnx")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    expected = onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"x": x})[0]
    found = s.run({"x": x}, values=["c"])
    assert np.array_equal(found["y"], expected)
    assert np.array_equal(found["c"], x * 2)
    with pytest.raises(UsageError, match="no node of the graph computes a value named 'cc'"):
        s.run({"x": x}, values=["cc"])


def test_why_tells_the_story_of_the_whole_session():
    s = session()
    s.apply("eliminate-identity")
    s.apply(DropAdd)
    assert "DropAdd" in str(s.why("b"))
    assert "eliminate-identity" in str(s.why("identity"))
    with pytest.raises(UsageError, match="did you mean 'third'"):
        s.why("thrd")


def test_why_and_why_not_take_nodes_and_values():
    s = session()
    s.apply("eliminate-identity")
    s.apply(DropAdd)
    for node in s.model.graph:
        for place in (node, node.outputs[0]):
            assert str(s.why(place)) == str(s.why(node.name))
            assert str(s.why_not(DropAdd, at=place)) == str(s.why_not(DropAdd, at=node.name))
    gone = s.original.graph.node("identity")
    assert str(s.why(gone)) == str(s.why("identity"))
    x = s.model.graph.inputs[0]
    assert str(s.why(x)) == str(s.why(x.name))
    with pytest.raises(UsageError, match="not computed by a node"):
        s.why_not(DropAdd, at=x)


@pytest.mark.parametrize(("place", "words"), [(3, "type int was found"), (ir.Node("", "Abs", []), "has no name")])
def test_why_refuses_what_names_nothing(place: object, words: str):
    with pytest.raises(UsageError, match=words):
        session().why(place)
    with pytest.raises(UsageError, match=words):
        session().why_not(DropAdd, at=place)


def test_the_report_shows_all_steps_with_their_evidence(tmp_path: Path):
    s = session()
    s.apply("eliminate-identity")
    s.apply(DropAdd)
    data = json.loads(s.report(tmp_path / "report.json").read_text())
    leaves = [step for step in data["run"]["steps"] if step["modified"]]
    assert [step["pass"] for step in leaves] == ["eliminate-identity", "drop-add"]
    assert [step["evidence"]["level"] for step in leaves] == ["bits:sampled", "tolerance:sampled"]
    assert len(data["events"]) == 2


def test_why_not_looks_at_the_current_model():
    s = session()
    assert s.why_not(DropAdd).applies
    s.apply(DropAdd)
    assert not s.why_not(DropAdd).applies


def test_sessions_are_models():
    s = session()
    s.apply("eliminate-identity")
    assert onnx_passes.inspect(s).summary.size.nodes == 3
    assert "y" in onnx_passes.ranges(s)


def test_data_follow_a_changed_interface():
    digits = examples.digits()
    s = onnx_passes.open(examples.path("digits-mlp"), inputs={"image": digits.image[:3]})
    s.apply("set-input", name="image", type="UINT8", scale=1 / 16)
    s.apply("fold-constants")
    assert s.steps[2].evidence == "" or reaches(s.steps[2].evidence, Finding("bits", "sampled"))
    logits = s.run()["logits"]
    expected = onnx_passes.run_model(s.original, {"image": digits.image[:3]})["logits"]
    np.testing.assert_allclose(logits.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    assert s.verify().verdict != "different"
    assert s.verify(0).verdict != "different"


def test_verification_can_be_set_up():
    s = session(verify=Verification(samples=3, seed=7))
    step = s.apply(DropAdd).steps[-1]
    assert step.evidence is not None
    assert session(verify=False).apply(DropMul).steps[-1].evidence is None


def test_states_share_their_weights():
    big = np.ones((512, 512), np.float32)
    model = ir.from_onnx_text(MODEL.replace("x) =>", "x, float[512, 512] v) =>"))
    model.graph.register_initializer(
        ir.Value(
            name="w",
            const_value=ir.tensor(big, name="w"),
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=ir.Shape([512, 512]),
        )
    )
    s = onnx_passes.open(model)
    s.apply("eliminate-identity", verify=False)
    tracemalloc.start()
    s.apply(DropAdd, verify=False)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < big.nbytes / 2


def test_a_step_that_changes_nothing_keeps_the_model():
    s = session()
    before = s.model
    s.apply("eliminate-identity, eliminate-identity")
    first = s.model
    s.apply("eliminate-identity")
    assert s.model is first
    assert s.undo(2).model is before
    s.apply(DropSub)
    assert s.model is before


def test_errors_are_short_in_notebooks():
    s = session()
    with pytest.raises(PostconditionError) as caught:
        s.apply(DropMul)
    lines = caught.value._render_traceback_()
    assert lines[0].startswith("PostconditionError")
    assert not any("site-packages" in line or "manager.py" in line for line in lines)


def test_an_error_in_the_code_of_a_user_shows_their_lines():
    class Broken(EditorPass):
        def edit(self, model, editor):
            raise ValueError("oh")

    s = session()
    with pytest.raises(PassFailedError) as caught:
        s.apply(Broken)
    text = "\n".join(caught.value._render_traceback_())
    assert 'raise ValueError("oh")' in text
    assert "manager.py" not in text
    assert s.failure is not None


def test_data_of_the_original_serve_a_part_that_was_cut_out():
    model = onnx_passes.load(
        b'<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Exp(b) }'
    )
    s = onnx_passes.open(model, inputs=[{"x": np.array([-1, 2], np.float32)}])
    s.apply("extract{inputs=[a], outputs=[b]}")
    s.apply("rename-interface{b=c}")
    np.testing.assert_array_equal(s.run()["c"], [0, -2])
    assert s.verify().equal
