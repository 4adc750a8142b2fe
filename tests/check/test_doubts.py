"""What must not be called verified: a doubt that one sample, output, window or step leaves is a doubt of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Annotation, PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verdict import check, check_with_proofs
from onnx_passes.check.verification import Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import UsageError
from onnx_passes.core.evidence import FAILED, UNVERIFIED
from onnx_passes.proofs.model_certificate import WindowResult, certify
from onnx_passes.proofs.proof import Proof
from onnx_passes.verify.failure import PostconditionError, VerificationError
from tests.passes.tools import model_of

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
SCALED = f"{HEAD} g (float[2] x) => (float[2] y) <float two = {{2}}> {{ y = Mul (x, two) }}"


def graph(body: str, signature: str = "float[4] x => float[4] y", constants: str = "") -> ir.Model:
    before, after = signature.split(" => ")
    return model_of(f"g ({before}) => ({after}) <{constants}> {{ {body} }}", ir_version=10, opset=21)


# ---- ties

RARE = """ big = ReduceMax <keepdims = 0> (x) rare = Greater (big, huge)
    z = If (rare) <then_branch = t () => (float[4] p) {{ p = {0} (x) }},
                   else_branch = e () => (float[4] q) {{ q = Neg (x) }}>"""
CONSTANTS = "float third = {0.333333333333}, float nine = {9.0}, float huge = {1000000}"
TWICE = "a = Mul (x, third) b = Mul (a, nine) y = Round (b)"
ON_A_TIE = [np.array([-40, 20, 30, 13 / 6], np.float32)]


@passes.verify.tolerance
class MultipliesAtOnce(Transformation, RewriteRulePass):
    """Multiply once: right, but for rounding."""

    def pattern(self, op, x, a, b):
        return op.Mul(op.Mul(x, a), b)

    def rewrite(self, op, x, a, b):
        return op.Mul(x, np.float32(3))


class ChangesBranch(Transformation):
    """Put another operator into the branch that no sample takes, and say that nothing was changed."""

    operator: str = "Abs"

    def call(self, model: ir.Model) -> PassResult:
        model.graph[-1].attributes["then_branch"].as_graph()[0].op_type = self.operator
        return PassResult(model, modified=False)


@pytest.mark.parametrize("operator", ["Abs", "Relu"])
def test_ties_do_not_excuse_what_no_sample_reaches(operator: str):
    given = graph(TWICE + RARE.format("Abs"), "float[4] x => float[4] y, float[4] z", CONSTANTS)

    def run():
        verification = Verification(inputs=ON_A_TIE, mode="final")
        return apply(given, [MultipliesAtOnce(), ChangesBranch(operator=operator)], verify=verification)

    if operator == "Abs":
        assert "flipped at ties" in run().steps[0].evidence.reason
    else:
        with pytest.raises(PostconditionError, match="which no sample reached"):
            run()


# ---- graphs inside models that nothing can run

LATE = """never = Less (x0, x0) axes = Constant <value = int64[1] {0}> ()
    y = If (never) <then_branch = t () => (float[4] p) { s = Squeeze (x, axes) p = OPERATOR (s) },
                    else_branch = e () => (float[4] q) { q = Neg (x) }>"""


def test_a_branch_that_cannot_run_leaves_two_models_unverified():
    signature = "float[4] x, float x0 => float[4] y"
    old, new = (graph(LATE.replace("OPERATOR", each), signature) for each in ("Abs", "Relu"))
    verdict = check(Claim("equality"), old, new)
    assert verdict.level == UNVERIFIED
    assert "then_branch of If 'y' is not checked" in verdict.evidence.reason
    assert check(Claim("equality"), old, graph(LATE.replace("OPERATOR", "Abs"), signature)).holds


class DropsIdentity(Transformation, RewriteRulePass):
    """Rule of which nothing is proved."""

    claims = (Claim("equality"),)

    def pattern(self, op, x):
        return op.Identity(x)

    def rewrite(self, op, x):
        return op.Neg(op.Neg(x))


def test_a_changed_branch_that_cannot_run_leaves_its_step_unverified():
    text = LATE.replace("p = OPERATOR (s)", "r = Neg (s) p = Identity (r)")
    result = apply(graph(text, "float[4] x, float x0 => float[4] y"), DropsIdentity, verify=Verification(prove=False))
    assert result.steps[0].applications == 1
    assert result.steps[0].evidence.level == UNVERIFIED
    assert result.record.level == UNVERIFIED


# ---- random numbers

NOISE = "float[4] x, int16[2] k => float[4] y, int16[2] l"
DRAWS = "r = RandomNormalLike (x) y = Add (x, r) l = Relu (k)"


def test_a_model_that_does_not_repeat_itself_is_neither_right_nor_wrong():
    """Only the second engine has this Relu, and it draws other numbers in each run."""
    verdict = check(Claim("equality"), graph(DRAWS, NOISE), graph(DRAWS, NOISE))
    assert verdict.engine == "" or verdict.engine == "reference"
    assert verdict.level == UNVERIFIED
    assert "does not compute the same twice" in verdict.evidence.reason


# ---- certificates

TWO = "float[2,8] x, float[8,4] w => float[2,4] y, float[2,4] z"
PRODUCT = "a = MatMul(x, w)"


def certified(before: str, after: str, claim: str, signature: str = TWO, **allowed):
    old, new = graph(before, signature), graph(after, signature)
    return check_with_proofs(Claim(claim), old, new, certify(old, new, **allowed))


EXACT = Proof("proved-here", "every value")
REAL = Proof("equal-in-reals", "real numbers")
TRIED = Proof("tested", "many values")


@pytest.mark.parametrize(
    ("results", "preserved", "known"),
    [
        ((EXACT, EXACT), True, "proved-here"),
        ((EXACT, REAL), False, "proved-here"),
        ((REAL, EXACT), False, "proved-here"),
        ((EXACT, TRIED), True, "tested"),
        ((TRIED, EXACT), True, "tested"),
    ],
)
def test_the_weakest_window_decides_what_is_proved(results: tuple[Proof, ...], preserved: bool, known: str):
    old = graph("y = Neg(x)", "float[4] x => float[4] y")
    windows = tuple(WindowResult(name, ("Neg",), ("Neg",), proof) for name, proof in zip("yz", results, strict=True))
    made = replace(certify(old, old), windows=windows)
    (found,) = check_with_proofs(Claim("equality"), old, old, made).proofs
    assert ("bits" in found.preserves) == preserved
    assert "reals" in found.preserves
    assert found.known == known


def test_one_window_that_is_not_proved_leaves_nothing_proved():
    before = f"{PRODUCT} n = Neg(a) m = Neg(n) y = Relu(m) e = Exp(a) z = Log(e)"
    after = f"{PRODUCT} y = Relu(a) e = Exp(a) l = Log(e) o = Sqrt(l) z = Mul(o, o)"
    verdict = certified(before, after, "tolerance")
    assert [proof.preserves for proof in verdict.proofs] == [()]
    assert verdict.proofs[0].reason


NEEDLE = "c = Constant <value_float = 12345.625> () h = Equal(x, c) k = Neg(x) y = Where(h, {0}, x)"


def test_a_counterexample_outweighs_samples():
    signature = "float[4] x => float[4] y"
    verdict = certified("y = Identity(x)", NEEDLE.format("k"), "equality", signature)
    assert verdict.level == FAILED
    assert certified("y = Identity(x)", NEEDLE.format("x"), "equality", signature).holds
    # Nothing is promised of an input that no sample shows, but bits are not called the same.
    weaker = certified("y = Identity(x)", NEEDLE.format("k"), "tolerance", signature)
    assert not weaker.equal


# ---- runs


def test_expected_outputs_are_demanded_of_the_result_of_a_run():
    """Each of many steps is within its tolerance, and all together are not."""

    @passes.verify.metric
    class Grows(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            model.graph.initializers["two"].const_value = ir.tensor(np.float32(2.5), name="two")
            return PassResult(model, modified=True)

    x = np.array([1, 2], np.float32)
    verification = Verification(inputs=[{"x": x}], expect=[{"y": 2 * x}])
    with pytest.raises(VerificationError, match="not as expected"):
        apply(ir.from_onnx_text(SCALED), Grows, verify=verification)


def test_a_rewrite_that_loses_nan_inside_is_refused_though_no_output_shows_it():
    @passes.verify.equality
    class LosesNan(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Exp(x)

        def check(self, op, x):
            return x.producer() is None

        def rewrite(self, op, x):
            return op.Where(op.IsNaN(x), np.float32(0), op.Exp(op.Identity(x)))

    text = f"{HEAD} g (float[4] x) => (bool[4] y) <float most = {{5}}> {{ a = Exp(x) y = Greater(a, most) }}"
    with pytest.raises(PostconditionError, match="with special values in the inputs"):
        apply(ir.from_onnx_text(text), LosesNan, verify=Verification(prove=False))


class LiesAboutAShape(Annotation):
    """Declare a shape inside the model that no value there has."""

    def call(self, model: ir.Model) -> PassResult:
        model.graph[0].outputs[0].shape = ir.Shape([7, 7])
        return PassResult(model, modified=True)


class Swaps(Transformation):
    """Change what the model computes, or nothing but names."""

    claims = (Claim("equality"),)
    operator: str = "Neg"

    def call(self, model: ir.Model) -> PassResult:
        model.graph[-1].op_type = self.operator
        model.graph[-1].name = "renamed"
        return PassResult(model, modified=True)


INNER = f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Abs(x) y = Neg(a) }}"


class Describes(Annotation):
    """Write something that nobody executes."""

    def call(self, model: ir.Model) -> PassResult:
        model.graph.doc_string = "seen"
        return PassResult(model, modified=True)


class Reports(Transformation):
    """Claim to have changed what is computed."""

    claims = (Claim("equality"),)

    def call(self, model: ir.Model) -> PassResult:
        model.graph.doc_string = "reported"
        return PassResult(model, modified=True)


@pytest.mark.parametrize("mode", ["final", "each"])
def test_what_is_more_than_an_annotation_runs(mode: str):
    verification = Verification(mode=mode)
    result = apply(ir.from_onnx_text(INNER), [Describes(), Reports()], verify=verification)
    assert result.steps[1].evidence.level == "bits:sampled"
    assert result.steps[1].evidence.samples > 0


def test_annotations_are_compared_with_what_is_computed_if_every_pass_is():
    with pytest.raises(PostconditionError, match="annotated with the shape"):
        apply(ir.from_onnx_text(INNER), [Swaps(), LiesAboutAShape()], verify=Verification(mode="every"))


@pytest.mark.parametrize("mode", ["final", "each", "every"])
def test_an_annotation_beside_it_does_not_hide_a_change(mode: str):
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(INNER), [Swaps(operator="Exp"), LiesAboutAShape()], verify=Verification(mode=mode))
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(INNER), [LiesAboutAShape(), Swaps(operator="Exp")], verify=Verification(mode=mode))


def test_samples_that_do_not_fit_any_more_leave_the_rest_unverified():
    class Refuses(Transformation):
        claims = (Claim("equality"),)

        def inputs_after(self, sample):
            raise UsageError("input 'x' has 2 elements, not 1")

        def outputs_after(self, results):
            return dict(results)

        def call(self, model: ir.Model) -> PassResult:
            model.graph[-1].name = "changed"
            return PassResult(model, modified=True)

    result = apply(ir.from_onnx_text(INNER), [Refuses(), Swaps(operator="Exp")])
    assert [step.evidence.level for step in result.steps] == [UNVERIFIED, UNVERIFIED]
    assert "the samples of this run do not fit any more" in result.steps[0].evidence.reason


def test_tolerances_are_counted_from_the_original_in_what_is_reported():
    """The second step alone changes nothing: what is told is how far the result is from the original."""

    @passes.verify.tolerance
    class Scales(Transformation):
        factor: float = 2.0

        def call(self, model: ir.Model) -> PassResult:
            model.graph.initializers["two"].const_value = ir.tensor(np.float32(self.factor), name="two")
            return PassResult(model, modified=True)

    x = [np.array([1, 2], np.float32)]
    factors = (2.00004, 2.00008)
    result = apply(ir.from_onnx_text(SCALED), [Scales(factor=f) for f in factors], verify=Verification(inputs=x))
    told = [step.evidence.max_abs for step in result.steps]
    expected = [2 * abs(float(np.float32(factor)) - 2) for factor in factors]
    assert told == pytest.approx(expected, rel=1e-3)
