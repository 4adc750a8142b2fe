"""What a failed check says is true: the step and the rewrite to blame, and the tolerance that would do."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.claims import structure
from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verification import Limits, Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import RegistrationError, UsageError
from onnx_passes.verify.comparison.evidence import Promise
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
SCALED = f"{HEAD} g (float[N] x) => (float[N] y) <float two = {{2}}> {{ a = Neg (x) b = Neg (a) y = Mul (b, two) }}"


@passes.verify.tolerance
class Scales(Transformation):
    """Put another factor into the place of two."""

    factor: float = 2.0

    def call(self, model: ir.Model) -> PassResult:
        model.graph.initializers["two"].const_value = ir.tensor(np.float32(self.factor), name="two")
        return PassResult(model, modified=True)


class Renames(Transformation):
    """Change nothing but a name."""

    claims = (Claim("equality"),)
    to: str = "renamed"

    def call(self, model: ir.Model) -> PassResult:
        model.graph[0].outputs[0].name = self.to
        return PassResult(model, modified=True)


@passes.verify.equality
class DropsNegations(Transformation, RewriteRulePass):
    """Right, unless two is to be kept."""

    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class DropsFactor(Transformation, RewriteRulePass):
    """Wrong."""

    def pattern(self, op, x, c):
        return op.Mul(x, c)

    def rewrite(self, op, x, c):
        return op.Identity(x)


def failure_of(pipeline: object, text: str = SCALED, **options: object):
    with pytest.raises(PostconditionError) as caught:
        apply(ir.from_onnx_text(text), pipeline, verify=Verification(**options))
    return caught.value.failure


@pytest.mark.parametrize("factor", [2.003, 2.01, 2.7, 20.0])
def test_the_tolerance_that_is_advised_is_enough_and_not_far_too_much(factor: float):
    inputs = [np.array([1, -2, 300], np.float32)]
    baseline = Original(ir.from_onnx_text(SCALED), Settings(inputs=inputs)).established()
    assert baseline is not None
    other = ir.from_onnx_text(SCALED.replace("two = {2}", f"two = {{{factor}}}"))
    results = baseline.run(Executor(), other)
    advice = baseline.advice(results, Promise.of(Claim("tolerance")))
    found = re.match(r"--tolerance (\S+?),(\S+?), or data", advice)
    assert found is not None, advice
    limits = [float(number) for number in found.groups()]
    for part, enough in ((1, True), (20, False)):
        promise = Promise.of(Claim("tolerance"), Limits(*(limit / part for limit in limits)))
        assert (baseline.violation(other, results, promise) is None) == enough
    assert baseline.advice(baseline.current, Promise.of(Claim("tolerance"))) == ""


@pytest.mark.parametrize("wrong", [1, 2, 3])
@pytest.mark.parametrize("mode", ["final", "each"])
def test_the_step_to_blame_is_the_first_that_is_wrong(wrong: int, mode: str):
    pipeline = [Renames(to=f"n{number}") if number != wrong else Scales(factor=3.0) for number in (1, 2, 3)]
    assert failure_of(pipeline, mode=mode).step == wrong


@pytest.mark.parametrize("mode", ["final", "each"])
def test_rewrites_are_counted_through_all_steps(mode: str):
    text = SCALED.replace("a = Neg (x) b = Neg (a)", "c = Neg (x) d = Neg (c) e = Abs(d) a = Neg (e) b = Neg (a)")
    found = failure_of([DropsNegations(), DropsFactor()], text, mode=mode)
    assert found.number == 3
    assert found.application.startswith("number 1 of 1 in this pass, by DropsFactor")


def test_sizes_of_dimensions_that_are_not_there_are_refused():
    for name, refused in (("M", True), ("N", False)):
        verification = Verification(sizes={name: 5})
        if refused:
            with pytest.raises(UsageError, match="no dynamic dimension 'M'"):
                apply(ir.from_onnx_text(SCALED), Renames(), verify=verification)
        else:
            assert apply(ir.from_onnx_text(SCALED), Renames(), verify=verification).record.level != "unverified"


def test_a_structure_without_properties_is_no_promise():
    with pytest.raises(RegistrationError, match="names no property"):
        structure()
