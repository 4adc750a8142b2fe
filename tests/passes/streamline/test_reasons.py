"""Why a network is not all in integers: the reasons of the rules that did not apply, not guesses."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.core.base import Context, Refused
from onnx_passes.passes.streamline.aggregate_scales import AggregateScales
from tests.passes.streamline.tools import DOMAIN, network, numbers, quant

IMAGE = {"x": "float[1,2,N,N] x", "y": "float[1,3,N,N] y"}
WIDE = f"{DOMAIN}.Quant<signed=1, narrow=0>({{}}, {{}}, zero, wide)"
WEIGHTS = f"v = {quant('w', 't')}"
PER_ROW = [0.1, 0.2, 0.3, 0.4]
CASES: dict[str, tuple[ir.Model, str, str]] = {
    "operand over the limit": (
        network(
            f"q = {WIDE.format('x', 's')} v = {WIDE.format('w', 't')} a = MatMul(q, v) y = {quant('a', 's')}",
            s=0.5,
            t=1e-9,
            wide=30.0,
            w=numbers(4, 3),
        ),
        "MatMul",
        "its input 'q' reaches 536,870,912, more than floats hold; quantize its input again, to fewer bits",
    ),
    "sums over the limit": (
        network(
            f"q = {quant('x', 's', 16)} {WEIGHTS.replace('bits4', 'bits16')} a = MatMul(q, v) b = Mul(a, a)"
            f" c = Mul(b, b) d = Neg(c) y = {quant('d', 's')}",
            s=0.5,
            t=0.001,
            w=numbers(4, 3),
        ),
        "Mul",
        "its integers may be more than doubles hold; quantize its input again, to fewer bits",
    ),
    "input that is no integer": (
        network(
            f"q = {quant('x', 's')} p = Sigmoid(q) {WEIGHTS} a = MatMul(p, v) y = {quant('a', 's')}",
            s=0.5,
            t=0.1,
            w=numbers(4, 3),
        ),
        "MatMul",
        "its input 'p' is not a scaled integer; quantize it",
    ),
    "bias before padding": (
        network(
            f"q = {quant('x', 's')} b = Add(q, c) {WEIGHTS} a = Conv<pads=[1, 1, 1, 1]>(b, v) y = {quant('a', 's')}",
            **IMAGE,
            s=0.5,
            c=0.3,
            t=0.1,
            w=numbers(3, 2, 3, 3),
        ),
        "Conv",
        "it pads with zeros, and the bias of its input is not a multiple of its scale; use integer zero points",
    ),
    "transposed weights with a scale for each row": (
        network(
            f"q = {quant('x', 's')} {WEIGHTS} u = Transpose<perm=[1, 0]>(v) a = MatMul(q, u) y = {quant('a', 's')}",
            s=0.5,
            t=[PER_ROW],
            w=numbers(3, 4),
        ),
        "MatMul",
        "the scales of its inputs vary along the sum; use the same scale for all summands",
    ),
    "vector with a scale for each element": (
        network(
            f"q = {quant('x', 's')} {WEIGHTS} a = MatMul(q, v) y = {quant('a', 's')}",
            y="float[2] y",
            s=0.5,
            t=PER_ROW,
            w=numbers(4),
        ),
        "MatMul",
        "the scales of its inputs vary along the sum; use the same scale for all summands",
    ),
    "sum of three with a float": (
        network(
            f"q = {quant('x', 's')} r = {quant('x', 'u')} a = Sum(q, r, p) {WEIGHTS} b = MatMul(a, v)"
            f" y = {quant('b', 's')}",
            x="float[2,4] x, float[2,4] p",
            s=0.5,
            u=0.25,
            t=0.1,
            w=numbers(4, 3),
        ),
        "Sum",
        "its input 'p' is not a scaled integer; quantize it",
    ),
    "sum of three that is broadcast": (
        network(
            f"q = {quant('x', 's')} r = {quant('p', 'u')} k = {quant('x', 'u')} a = Sum(q, r, k) {WEIGHTS}"
            f" b = MatMul(a, v) y = {quant('b', 's')}",
            x="float[2,4] x, float[1,4] p",
            s=0.5,
            u=0.25,
            t=0.1,
            w=numbers(4, 3),
        ),
        "Sum",
        "its operands differ in shape; broadcast its operands first",
    ),
    "bias of a product that aggregate-scales has seen": (
        network(
            f"q = {quant('x', 's')} r = {quant('p', 's')} b = Add(r, c) a = MatMul(q, b) y = {quant('a', 's')}",
            x="float[2,4] x, float[4,3] p",
            s=0.5,
            c=0.3,
        ),
        "MatMul",
        "the bias of an input is not a multiple of its scale; use integer zero points",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_that_of_the_rule(case: str):
    model, operator, reason = CASES[case]
    found = apply(model, "streamline", verify=False)["check-streamlined"].blockers
    assert f"{operator} '{operator}': {reason}" in map(str, found)


KEPT = ("operand over the limit", "input that is no integer", "bias before padding", "sum of three with a float")


@pytest.mark.parametrize("case", [*KEPT, "sum of three that is broadcast"])
def test_the_reason_is_the_same_in_a_file_that_was_saved(case: str):
    model, operator, reason = CASES[case]
    result = apply(model, "streamline", verify=False)
    found = apply(result.proto, "check-streamlined", verify=False)["check-streamlined"].blockers
    assert f"{operator} '{operator}': {reason}" in map(str, found)
    assert set(map(str, found)) == set(map(str, result["check-streamlined"].blockers))


def test_scales_that_were_folded_into_weights_are_seen_in_these():
    model, _, reason = CASES["transposed weights with a scale for each row"]
    saved = apply(model, "streamline", verify=False).proto
    (found,) = apply(saved, "check-streamlined", verify=False)["check-streamlined"].blockers
    assert str(found).endswith("its weights are integers times an unknown scale; run recover-weight-scales")
    odd = network(
        f"q = {quant('x', 's')} {WEIGHTS} u = Transpose<perm=[1, 0]>(v) a = MatMul(q, u) y = {quant('a', 's')}",
        s=0.5,
        t=[[0.1, 0.0371, 0.0777, 0.0913]],
        w=numbers(3, 4),
    )
    saved = apply(odd, "streamline", verify=False).proto
    (found,) = apply(saved, "check-streamlined", verify=False)["check-streamlined"].blockers
    assert str(found) == f"MatMul 'MatMul': {reason}"


def test_doubles_that_were_saved_are_over_the_limit_of_floats():
    model, _, _ = CASES["sums over the limit"]
    saved = apply(model, "streamline", verify=False).proto
    (found,) = apply(saved, "check-streamlined", verify=False)["check-streamlined"].blockers
    assert found.reason == "its input 'b' reaches 8,417,903,773,248,225, more than floats hold"


def test_what_is_not_streamlined_yet_says_what_to_run():
    model = network(f"q = {quant('x', 's')} {WEIGHTS} y = MatMul(q, v)", s=0.5, t=0.1, w=numbers(4, 3))
    (raw,) = apply(model, "check-streamlined", verify=False)["check-streamlined"].blockers
    assert (raw.reason, raw.remedy) == ("its input 'q' has a scale", "run extract-quant-scale-zeropoint first")
    extracted = apply(model, "extract-quant-scale-zeropoint, check-streamlined", verify=False)
    (left,) = extracted["check-streamlined"].blockers
    assert (left.reason, left.remedy) == ("scales or biases of its inputs are not factored out", "run aggregate-scales")


def test_refusals_name_their_nodes():
    model, _, reason = CASES["sum of three that is broadcast"]
    ready = apply(model, "import-qonnx, shape-inference, extract-quant-scale-zeropoint", verify=False).model
    refusals: list[Refused] = []
    AggregateScales().run(ready, Context(refusals=refusals))
    assert ("integer form of Sum", "Sum", reason) in [
        (each.rule, each.node.op_type, each.reason) for each in refusals if each.node is not None
    ]


def test_nobody_is_told_to_run_it_again():
    model, _, _ = CASES["transposed weights with a scale for each row"]
    streamlined = apply(model, "streamline", verify=False).model
    again = apply(streamlined, "aggregate-scales, check-streamlined", verify=False)["check-streamlined"]
    assert again.blockers
    assert all("run aggregate-scales" not in str(blocker) for blocker in again.blockers)


def test_a_quantizer_that_keeps_its_scale_is_named():
    model = network(f"q = {quant('x', 's')} {WEIGHTS} y = MatMul(q, v)", s=0.5, t=0.1, w=numbers(4, 3))
    refusals: list[Refused] = []
    AggregateScales().run(apply(model, "shape-inference", verify=False).model, Context(refusals=refusals))
    assert [each.reason for each in refusals] == ["its input 'q' has a scale; run extract-quant-scale-zeropoint first"]
