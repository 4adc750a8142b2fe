"""``check_pass`` and ``assert_same_graph``: what they accept, and what they say of what they do not."""

from __future__ import annotations

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Transformation, passes
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.evidence import Finding, reaches
from onnx_passes.testing import assert_same_graph, check_pass
from onnx_passes.verify.failure import PostconditionError

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
BEFORE = f"""
{HEAD}
g (float[2] x) => (float[2] y) <float one = {{1.0}}> {{ s = Mul(x, one) y = Relu(s) }}
"""
AFTER = f"{HEAD} other (float[2] x) => (float[2] y) {{ y = Relu(x) }}"


def test_a_pass_that_does_what_is_expected():
    result = check_pass(BEFORE, "eliminate-neutral-element", AFTER)
    assert result.modified
    assert reaches(result.record.level, Finding("bits", "sampled"))


def test_models_of_any_kind():
    check_pass(ir.from_onnx_text(BEFORE), "eliminate-neutral-element", ir.to_proto(ir.from_onnx_text(AFTER)))


def test_a_pass_that_refuses():
    other = BEFORE.replace("1.0", "2.0")
    check_pass(other, "eliminate-neutral-element", other)


def test_another_graph_is_shown_as_a_difference():
    with pytest.raises(AssertionError) as raised:
        check_pass(BEFORE, "eliminate-neutral-element", AFTER.replace("Relu", "Abs"))
    message = str(raised.value)
    assert "Abs -> 'y' vs Relu -> 'y'" in message
    assert "--- expected\n+++ found\n" in message
    assert "-y = Abs(x)\n+y = Relu(x)\n" in message


def test_a_wrong_result_is_no_pass():
    @passes.verify.equality
    class ReluToAbs(Transformation):
        def call(self, model: ir.Model) -> onnx_passes.PassResult:
            model.graph[-1].op_type = "Abs"
            return onnx_passes.PassResult(model, True)

    with pytest.raises(PostconditionError):
        check_pass(AFTER, ReluToAbs(), AFTER.replace("Relu", "Abs"))


def test_a_change_that_is_not_said_breaks_the_contract():
    class Quiet(Transformation):
        def call(self, model: ir.Model) -> onnx_passes.PassResult:
            model.graph[-1].op_type = "Abs"
            return onnx_passes.PassResult(model, False)

    with pytest.raises(OnnxPassesError):
        check_pass(AFTER, Quiet(), AFTER.replace("Relu", "Abs"))


def test_what_cannot_be_verified_is_no_success():
    text = """<ir_version: 10, opset_import: ["": 20, "nobody": 1]>
        g (float[2] x) => (float[2] y) { i = Identity(x) y = nobody.Op(i) }"""
    with pytest.raises(AssertionError, match="cannot be verified"):
        check_pass(text, "eliminate-identity", text.replace("i = Identity(x)", "").replace("Op(i)", "Op(x)"))


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (AFTER.replace("float[2] y", "float[N] y"), "output 'y' float[2] → float[N]"),
        (AFTER.replace("float[2] x", "float[2] z").replace("(x)", "(z)"), "'x'"),
        (AFTER.replace("20", "19"), "opset"),
        (AFTER.replace("Relu(x)", "LeakyRelu <alpha = 0.0> (x)"), "LeakyRelu"),
    ],
)
def test_interface_operators_and_versions_count(found, what):
    with pytest.raises(AssertionError) as raised:
        assert_same_graph(found, AFTER)
    assert what in str(raised.value)


def test_names_inside_and_order_do_not_count():
    a = f"{HEAD} g (float[2] x) => (float[2] y) {{ p = Neg(x) q = Abs(x) y = Add(p, q) }}"
    b = f"{HEAD} h (float[2] x) => (float[2] y) {{ s = Abs(x) r = Neg(x) y = Add(r, s) }}"
    assert_same_graph(a, b)
    with pytest.raises(AssertionError):
        assert_same_graph(a, b.replace("Add(r, s)", "Add(s, r)"))
