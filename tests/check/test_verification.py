from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Limits, Verification
from onnx_passes.core.build import collect
from onnx_passes.core.errors import UsageError
from onnx_passes.verify.failure import PostconditionError, VerificationError
from onnx_passes.verify.run.execute import Executor

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] a, float[2] b) => (float[2] global_output_0)
{
    n = Neg(a)
    s = Add(n, b)
    t = Mul(s, s)
    u = Add(t, a)
    global_output_0 = Relu(u)
}
"""
CHAIN = "\n".join(f"v{i + 1} = Add(v{i}, b)" for i in range(9))


def model() -> ir.Model:
    return ir.from_onnx_text(MODEL)


@passes.verify.equality
class BreakAdds(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)

    def check(self, op, x, y):
        return x != y

    def rewrite(self, op, x, y):
        return op.Add(x, x)


@passes.verify.equality
class BreakLastAdd(BreakAdds):
    def check(self, op, x, y):
        return x != y and x.name == "t"


class Scale(Transformation, RewriteRulePass):
    """Changes results by a factor; claims are put on subclasses."""

    factor: float = 1.0

    def pattern(self, op, x):
        return op.Relu(x)

    def check(self, op, x):
        return x.producer().op_type != "Mul"

    def rewrite(self, op, x):
        return op.Relu(op.Mul(x, np.float32(self.factor)))


def test_wrong_pass_is_caught_with_the_lines_that_users_know():
    with pytest.raises(PostconditionError) as caught:
        apply(model(), BreakAdds)
    lines = str(caught.value).splitlines()
    assert lines[:2] == [
        "PostconditionError: Post-condition for pass 'BreakAdds' failed",
        "VerificationError: global_output_0 not as expected",
    ]
    assert isinstance(caught.value.__cause__, VerificationError)
    assert isinstance(caught.value, ir.passes.PostconditionError)


def test_rule_application_nodes_tensor_and_element_are_named():
    with pytest.raises(PostconditionError) as caught:
        apply(model(), BreakAdds)
    failure = caught.value.failure
    assert failure.application == "number 1 of 2 in this pass, by BreakAdds"
    assert failure.source.startswith(__file__)
    assert failure.matched == "s = Add(n, b)"
    assert failure.replacement == "s = Add(n, n)"
    assert failure.diverges.startswith("s[0]: expected")
    assert failure.difference.startswith("global_output_0[")


def test_first_bad_application_is_found_among_good_ones():
    @passes.verify.equality
    class Mostly(Transformation, RewriteRulePass):
        """Turn additions around; the one of 'v5' goes wrong."""

        commute = False

        def pattern(self, op, x, y):
            return op.Add(x, y)

        def check(self, op, x, y):
            return y.name == "b"

        def rewrite(self, op, x, y):
            return op.Add(x, x) if x.name == "v5" else op.Add(y, x)

    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[2] v0, float[2] b) => (float[2] v9) {{ {CHAIN} }}'
    with pytest.raises(PostconditionError) as caught:
        apply(ir.from_onnx_text(text), Mostly)
    assert "number 6 of 9" in caught.value.failure.application
    assert caught.value.failure.matched == "v6 = Add(v5, b)"


def test_good_pass_leaves_evidence():
    result = apply(model(), "cleanup")
    levels = {step.name: step.evidence.level for step in result.steps if step.evidence is not None}
    assert levels["unique-names"] == "bits:sampled"
    assert levels["remove-unused-nodes"] == "unchanged"
    evidence = next(step.evidence for step in result.steps if step.name == "unique-names")
    assert evidence.samples >= 2
    assert evidence.max_abs == 0
    assert json.dumps(result.record.to_json())


@pytest.mark.parametrize(("factor", "fine"), [(1 + 1e-6, True), (1.01, False)])
def test_tolerance_is_measured_against_the_original(factor, fine):
    Scaled = passes.verify.tolerance(type("Scaled", (Scale,), {}))
    if fine:
        step = apply(model(), Scaled(factor=factor)).steps[0]
        assert step.evidence.level == "tolerance:sampled"
        assert 0 < step.evidence.max_rel < 1e-5
    else:
        with pytest.raises(PostconditionError):
            apply(model(), Scaled(factor=factor))


def test_drift_over_many_steps_is_caught():
    @passes.verify.tolerance(rtol=1e-4, atol=0)
    class Drift(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            last = model.graph[-1]
            factor = ir.Tensor(np.array(1 + 3e-5, np.float32))
            constant = ir.node("Constant", [], {"value": factor})
            product = ir.node("Mul", [last.inputs[0], constant.outputs[0]])
            model.graph.insert_before(last, [constant, product])
            last.replace_input_with(0, product.outputs[0])
            return PassResult(model, modified=True)

    assert apply(model(), [Drift(), Drift()]).modified
    with pytest.raises(PostconditionError) as caught:
        apply(model(), [Drift() for _ in range(9)])
    assert caught.value.failure.step in (3, 4)


@pytest.mark.parametrize("limits", [Limits(atol=0, rtol=0), Limits(atol=1, rtol=1)])
def test_limits_can_be_set(limits):
    class Loose(Scale):
        pass

    verification = Verification(limits=limits)
    if limits.atol:
        assert apply(model(), Loose(factor=1.001), verify=verification).modified
    else:
        with pytest.raises(PostconditionError):
            apply(model(), Loose(factor=1.001), verify=verification)


class Reshaped(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def check(self, op, x):
        return x.producer() is None

    def rewrite(self, op, x):
        return op.Relu(op.Unsqueeze(x, [0]))


class DropsOutput(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        del model.graph.outputs[1]
        return PassResult(model, modified=True)


class RenamesOutput(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph.outputs[0].name = "other"
        return PassResult(model, modified=True)


class Casts(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        cast = ir.node("Cast", [model.graph.outputs[0]], {"to": 11})
        model.graph.append(cast)
        name = model.graph.outputs[0].name
        model.graph.outputs[0].name = "was"
        cast.outputs[0].name, cast.outputs[0].type = name, ir.TensorType(ir.DataType.DOUBLE)
        model.graph.outputs[0] = cast.outputs[0]
        return PassResult(model, modified=True)


TWO = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(x) }
"""


@pytest.mark.parametrize("wrong", [Reshaped, DropsOutput, RenamesOutput, Casts])
def test_interface_is_part_of_the_result(wrong):
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(TWO), wrong)


def test_model_that_no_longer_runs_is_caught():
    class Breaks(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            model.graph[0].op_type = "NoSuchOperator"
            return PassResult(model, modified=True)

    with pytest.raises(PostconditionError, match="no longer runs"):
        apply(ir.from_onnx_text(TWO), Breaks)


def test_nan_and_infinities_are_no_alarm():
    text = """
        <ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) { n = Log(x) unused = Neg(n) y = Neg(n) }
    """
    x = np.array([-1, 0], np.float32)
    result = apply(ir.from_onnx_text(text), "cleanup", inputs=[x])
    assert all(step.evidence.level in ("bits:sampled", "unchanged") for step in result.steps if step.evidence)


def test_signed_zero_counts():
    @passes.verify.equality
    class AddZero(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Relu(x)

        def check(self, op, x):
            return x.producer() is None

        def rewrite(self, op, x):
            return op.Relu(op.Add(x, 0.0))

    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { r = Relu(x) y = Reciprocal(r) }'
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(text), AddZero, inputs=[np.array([-0.0, 1], np.float32)])


def test_pass_called_alone_is_verified():
    with pytest.raises(PostconditionError):
        BreakAdds()(model())
    assert collect("remove-unused-nodes")[0](model()).modified is False


def test_what_cannot_run_is_said_to_be_unverified():
    text = """
        <ir_version: 10, opset_import: ["": 20, "mystery": 1]>
        g (float[2] x) => (float[2] y) { h = mystery.Op(x) unused = Neg(h) y = Neg(h) }
    """
    steps = apply(ir.from_onnx_text(text), "remove-unused-nodes").steps
    assert steps[0].evidence.level == "unverified"
    assert "nothing defines the operator mystery::Op" in steps[0].evidence.reason


def test_final_mode_checks_once_at_the_end():
    with pytest.raises(PostconditionError):
        apply(model(), [BreakAdds(), "cleanup"], verify=Verification(mode="final"))
    steps = apply(model(), "cleanup", verify=Verification(mode="final")).steps
    assert [s.evidence.level for s in steps if s.evidence and s.modified][-1] == "bits:sampled"


def test_verification_can_be_switched_off():
    assert apply(model(), BreakAdds, verify=False).steps[0].evidence is None


def test_data_decide_what_is_seen():
    same = {"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)}
    assert apply(model(), BreakLastAdd, inputs=[same]).modified
    with pytest.raises(PostconditionError):
        apply(model(), BreakLastAdd, inputs=[{"a": -np.ones(2, np.float32), "b": np.ones(2, np.float32)}])


def test_wrong_data_are_an_error():
    with pytest.raises(UsageError, match="a"):
        apply(model(), "cleanup", inputs=[{"nothing": np.zeros(2, np.float32)}])


def test_expected_outputs_are_held_against_the_original_first():
    inputs = [{"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}]
    right = [{"global_output_0": np.ones(2, np.float32)}]
    wrong = [{"global_output_0": np.zeros(2, np.float32)}]
    assert apply(model(), "cleanup", verify=Verification(inputs=inputs, expect=right))
    with pytest.raises(VerificationError, match="before any pass ran"):
        apply(model(), "cleanup", verify=Verification(inputs=inputs, expect=wrong))


def test_reproducer_repeats_the_failure(tmp_path):
    with pytest.raises(PostconditionError) as caught:
        apply(model(), ["cleanup", BreakAdds()], verify=Verification(reproducer=tmp_path / "repro"))
    assert caught.value.failure.reproducer == str(tmp_path / "repro")
    report = json.loads((tmp_path / "repro" / "report.json").read_text())
    assert report["pipeline"] == "break-adds"
    assert report["versions"]["onnxruntime"]
    before = onnx_passes.load(tmp_path / "repro" / "before.onnx")
    data = sorted((tmp_path / "repro").glob("inputs-*.npz"))
    for path in data:
        with pytest.raises(PostconditionError):
            apply(before, BreakAdds, inputs=[path])
    with pytest.raises(PostconditionError):
        apply(model(), BreakAdds, verify=Verification(reproducer=tmp_path / "repro"))
    assert (tmp_path / "repro-2").is_dir()


def test_promised_structure_is_checked():
    @passes.verify.structure("at-most(Relu, 0)")
    class Promises(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            return PassResult(model, modified=False)

    with pytest.raises(PostconditionError, match="Promises") as caught:
        apply(model(), Promises)
    assert "at-most(Relu, 0)" in str(caught.value)
    assert "global_output_0" in caught.value.failure.difference


def test_structure_can_be_compared_with_the_model_before():
    @passes.verify.structure("isomorphic(before)")
    class Renames(Transformation):
        extra: bool = False

        def call(self, model: ir.Model) -> PassResult:
            model.graph[0].outputs[0].name = "renamed"
            if self.extra:
                model.graph.append(ir.node("Neg", [model.graph.inputs[0]]))
            return PassResult(model, modified=True)

    assert apply(model(), Renames()).modified
    with pytest.raises(PostconditionError, match="isomorphic"):
        apply(model(), Renames(extra=True))


def test_generated_samples_that_the_model_cannot_take_are_left_out():
    text = """
        <ir_version: 10, opset_import: ["": 20]>
        g (float[N] x) => (float[M] y) { s = Constant<value_ints = [2]>() unused = Neg(x) y = Reshape(x, s) }
    """
    steps = apply(ir.from_onnx_text(text), "remove-unused-nodes").steps
    assert steps[0].evidence.level == "bits:sampled"
    assert steps[0].evidence.samples == 1


class Counting(Executor):
    """Counts how often a model is made ready to run."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared = 0

    def prepare(self, model, **kwargs):
        self.prepared += 1
        return super().prepare(model, **kwargs)


def test_steps_that_leave_the_structure_alone_are_checked_once_at_the_end():
    executor = Counting()
    steps = apply(model(), "unique-names, topological-sort, unique-names", verify=Verification(executor=executor)).steps
    assert executor.prepared == 2
    assert [step.evidence.level for step in steps] == ["bits:sampled", "unchanged", "unchanged"]


def test_steps_in_between_say_where_they_were_checked():
    text = MODEL.replace("n = Neg(a)", "n = Neg(a)\n    unused = Abs(n)")
    steps = apply(ir.from_onnx_text(text), "fixpoint{max=1}(unique-names, remove-unused-nodes)").steps
    assert [step.evidence.level for step in steps[1:]] == ["bits:sampled", "bits:sampled"]
    assert steps[1].evidence.reason == "checked after step 3"


def test_pass_that_closes_a_cycle_is_caught():
    class Cycle(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            model.graph[1].replace_input_with(1, model.graph[3].outputs[0])
            return PassResult(model, modified=True)

    with pytest.raises(PostconditionError, match="no longer runs"):
        apply(model(), Cycle, in_place=True)


def test_model_with_a_cycle_is_left_to_the_pass():
    cyclic = model()
    cyclic.graph[1].replace_input_with(1, cyclic.graph[3].outputs[0])

    class Uncycle(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            model.graph[1].replace_input_with(1, model.graph.inputs[1])
            return PassResult(model, modified=True)

    step = apply(cyclic, Uncycle, in_place=True).steps[0]
    assert step.evidence.level == "unverified"
    assert "not acyclic" in step.evidence.reason
