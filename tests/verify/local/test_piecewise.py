"""Models that do not fit in memory: rewrites are checked where they stand, and the model never runs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import ExitCode
from onnx_passes.verify.failure import PostconditionError, VerificationError
from onnx_passes.verify.local.piecewise import weight_bytes, without_big_weights
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.run.resources import Resources

WIDTH = 1100
MEMORY = 3 * 2**30
MODEL = f"""
<ir_version: 10, opset_import: ["": 20]>
large (float[N, {WIDTH}] x) => (float[N, {WIDTH}] y)
<float[1] zero = {{0}}>
{{
    t = Transpose <perm = [1, 0]> (w)
    h = MatMul(x, t)
    n = Neg(h)
    a = Abs(n)
    s = Add(a, zero)
    same = Identity(s)
    dead = Exp(same)
    y = MatMul(same, w)
}}
"""


def model(*, shapes: bool = True) -> ir.Model:
    """Two products with a weight that stands for more bytes than there are."""
    made = ir.from_onnx_text(MODEL)
    w = ir.val("w", ir.DataType.FLOAT, [WIDTH, WIDTH])
    w.const_value = ir.Tensor(np.zeros((WIDTH, WIDTH), np.float32), name="w")
    made.graph.register_initializer(w)
    for node in made.graph:
        for index, value in enumerate(node.inputs):
            if value is not None and value.name == "w":
                node.replace_input_with(index, w)
        if shapes:
            for value in node.outputs:
                value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", WIDTH])
    return made


@pytest.fixture
def large(monkeypatch):
    """Let the weights of the model be larger than memory, and refuse to run it as a whole."""
    monkeypatch.setattr("onnx_passes.verify.local.piecewise.weight_bytes", lambda _: MEMORY + 1)
    prepare = Executor.prepare

    def watched(self, model, **options):
        computed = {value.name for node in model.graph for value in node.outputs}
        assert not computed & {"h", "y"}, "the model itself runs"
        return prepare(self, model, **options)

    monkeypatch.setattr(Executor, "prepare", watched)


def checked(pipeline, given: ir.Model | None = None, **options):
    verification = Verification(executor=Executor(resources=Resources(memory=MEMORY)), **options)
    return apply(given or model(), pipeline, verify=verification)


@passes.verify.equality
class DropAbs(Transformation, RewriteRulePass):
    """Is right only where nothing is negative, as behind Neg it is not."""

    def pattern(self, op, x):
        return op.Abs(x)

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class AbsOfNeg(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Abs(op.Neg(x))

    def rewrite(self, op, x):
        return op.Abs(x)


@passes.verify.equality
class RewriteProduct(Transformation, RewriteRulePass):
    """Rewrites a product with a big weight."""

    wrong: bool = False

    def pattern(self, op, x, w):
        return op.Neg(op.MatMul(x, w))

    def check(self, op, x, w):
        return x.is_graph_input()

    def rewrite(self, op, x, w):
        return op.Neg(op.MatMul(op.Neg(x) if self.wrong else op.Identity(x), w))


@pytest.mark.usefixtures("large")
def test_rewrites_are_tested_where_they_stand_and_the_run_says_why():
    result = checked(AbsOfNeg)
    (step,) = result.steps
    assert step.evidence.level == "bits:tested"
    assert step.evidence.windows == 1
    assert step.evidence.samples >= 2
    assert result.record.level == "bits:tested"
    assert "more than the 3 GiB of --memory-limit" in step.notes[0]


@pytest.mark.usefixtures("large")
def test_a_rewrite_that_is_wrong_is_caught():
    with pytest.raises(PostconditionError) as caught:
        checked(DropAbs)
    assert caught.value.exit_code is ExitCode.VERIFICATION
    assert "Post-condition for pass 'DropAbs' failed" in str(caught.value)
    assert caught.value.failure.number == 1


@pytest.mark.usefixtures("large")
def test_a_product_with_a_big_weight_is_tested_with_that_weight():
    given = model()
    given.graph.initializers["w"].const_value = ir.Tensor(np.eye(WIDTH, dtype=np.float32), name="w")
    assert checked(RewriteProduct, given).steps[0].evidence.level == "bits:tested"
    with pytest.raises(PostconditionError):
        checked(RewriteProduct(wrong=True), given)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["remove-unused", "unique-names", "topological-sort", "shape-inference"])
def test_what_leaves_the_computation_as_it_is_needs_no_run(name):
    result = checked(name)
    assert {step.evidence.level for step in result.steps if not step.has_children} == {"unchanged"}


@pytest.mark.usefixtures("large")
def test_what_cannot_run_by_itself_is_not_verified():
    result = checked(AbsOfNeg, model(shapes=False))
    evidence = result.steps[0].evidence
    assert evidence.level == "unverified"
    assert "the shape of 'h' is not known" in evidence.reason
    with pytest.raises(VerificationError, match="'tolerance:sampled' is required, the run is unverified"):
        checked(AbsOfNeg, model(shapes=False), require="tolerance")


@pytest.mark.usefixtures("large")
def test_simplify_is_verified_step_by_step():
    result = checked("simplify")
    assert [node.op_type for node in result.model.graph] == ["MatMul", "Neg", "Abs", "MatMul"]
    assert {step.evidence.level for step in result.steps if step.modified and not step.has_children} <= {
        "bits:tested",
        "unchanged",
        "tolerance:tested",
    }


def test_a_model_that_fits_runs_as_a_whole():
    small = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { n = Neg(x)  y = Abs(n) }'
    )
    assert checked(AbsOfNeg, small).steps[0].evidence.level == "bits:sampled"


def test_results_of_big_weights_become_inputs_and_what_is_made_of_them_alone_goes():
    light = without_big_weights(model())
    assert [node.op_type for node in light.graph] == ["Neg", "Abs", "Add", "Identity", "Exp"]
    assert [value.name for value in light.graph.inputs] == ["x", "h", "y"]
    assert [value.name for value in light.graph.outputs] == ["dead"]


def test_nothing_is_left_of_a_model_of_big_weights_alone():
    made = model()
    made.graph.outputs[:] = [made.graph[1].outputs[0]]
    for node in reversed(list(made.graph)[2:]):
        made.graph.remove(node)
    with pytest.raises(ExecutionError, match="nothing is left to run"):
        without_big_weights(made)


def test_weights_are_counted_once():
    made = model()
    other = ir.val("v", ir.DataType.FLOAT, [WIDTH, WIDTH])
    other.const_value = made.graph.initializers["w"].const_value
    made.graph.register_initializer(other)
    assert weight_bytes(made) == WIDTH * WIDTH * 4 + 4
