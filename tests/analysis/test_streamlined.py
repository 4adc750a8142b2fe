"""Integer products, accumulators and blockers of small networks, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.analysis.streamlined import Streamlined, streamlined
from onnx_passes.ops.quantizer import is_quantizer
from onnx_passes.passes.streamline.aggregate_scales import reasons_of
from tests.passes.streamline.tools import DOMAIN, network, numbers, quant
from tests.passes.tools import value


def found_in(
    body: str, x: str = "float[2,4] x", y: str = "float[2,3] y", *, opset: int = 18, **constants: object
) -> Streamlined:
    """Look at a network of a body and constants."""
    model = network(body, x, y, opset=opset, one=1.0, **constants)
    onnx_passes.apply(model, "shape-inference", in_place=True)
    return streamlined(model, reasons_of)


def test_integer_product():
    found = found_in(f"q = {quant('x', 'one', 2, signed=0)} y = MatMul(q, w)", w=[[1.0, -1.0, 0.0]] * 4)
    assert (found.macs, found.head_macs, found.integer_macs, found.fraction) == (24, 0, 24, 1)
    assert not found.blockers
    (accumulator,) = found.accumulators
    assert (accumulator.low, accumulator.high, accumulator.bits) == (-12, 12, 5)
    assert (accumulator.input, accumulator.weight, accumulator.macs) == ("UINT2", "TERNARY", 24)
    assert (accumulator.bits_by_norm, accumulator.bits_by_type) == (5, 5)
    assert accumulator.thresholds is None


def test_thresholds_behind_an_accumulator_are_counted():
    body = (
        f"q = {quant('x', 'one', 2, signed=0)} a = MatMul(q, w)"
        f' y = {DOMAIN}.MultiThreshold<out_dtype="UINT2", data_layout="NC">(a, t)'
    )
    found = found_in(body, w=[[1.0, -1.0, 0.0]] * 4, t=[[-5.0, 0.0, 5.0]])
    assert [accumulator.thresholds for accumulator in found.accumulators] == [3]


def test_accumulators_hold_all_that_is_computed():
    w = np.rint(numbers(4, 3, size=3.0))
    found = found_in(f"q = {quant('x', 'one', 3)} y = MatMul(q, w)", w=w)
    (accumulator,) = found.accumulators
    ends = [[np.where(w > 0, high, low) * w for low, high in pair] for pair in ([(-4, 3)], [(3, -4)])]
    assert accumulator.high == int(ends[0][0].sum(axis=0).max())
    assert accumulator.low == int(ends[1][0].sum(axis=0).min())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"q = {quant('x', 's')} y = MatMul(q, w)", "input 'q' has a scale"),
        (f"q = {quant('x', 'one')} p = Mul(q, s) y = MatMul(p, w)", "are not factored out"),
        (f"q = {quant('x', 'one')} y = MatMul(q, f)", "weight 'f' is not a scaled integer"),
        (f"q = {quant('x', 'one')} e = Exp(q) y = MatMul(e, w)", "input 'e' is not a scaled integer"),
        (f"q = {quant('x', 'one')} p = Mul(q, each) y = MatMul(p, w)", "vary along the sum"),
    ],
)
def test_a_product_of_floats_is_named_with_its_reason(body: str, reason: str):
    found = found_in(body, w=[[1.0, -1.0, 0.0]] * 4, f=numbers(4, 3), s=0.5, each=[0.5, 0.3, 0.7, 1.0])
    assert found.fraction == 0
    assert any("MatMul" in blocker.node and reason in blocker.reason for blocker in found.blockers), found.blockers


def test_floats_behind_the_last_product_are_no_blockers():
    found = found_in(f"q = {quant('x', 'one')} a = MatMul(q, w) b = Mul(a, f) y = Sigmoid(b)", w=[[1.0] * 3] * 4, f=0.3)
    assert found.fraction == 1
    assert not found.blockers


def test_what_comes_before_the_first_quantizer_is_the_head():
    found = found_in(f"a = MatMul(x, f) q = {quant('a', 'one')} y = MatMul(q, w)", f=numbers(4, 4), w=[[1.0] * 3] * 4)
    assert (found.macs, found.head_macs, found.integer_macs) == (56, 32, 24)
    assert found.fraction == 1


def test_work_of_unknown_size_counts_nothing():
    found = found_in(f"q = {quant('x', 'one')} y = MatMul(q, w)", "float[N,4] x", "float[N,3] y", w=[[1.0] * 3] * 4)
    assert found.fraction == 1
    assert len(found.accumulators) == 1


def test_quantizers_are_known_by_domain():
    model = network(f"a = {quant('x', 'one')} b = Relu(a) y = QuantizeLinear(b, one)", y="uint8[2,4] y", one=1.0)
    kinds = {name: is_quantizer(node) for name in "aby" if (node := value(model, name).producer())}
    assert kinds == {"a": True, "b": False, "y": True}


@pytest.mark.parametrize("transposed", [0, 1])
def test_sums_of_transposed_weights(transposed: int):
    w = np.array([[1.0, 2.0, 3.0]] * 4)
    body = f"q = {quant('x', 'one', 2, signed=0)} y = Gemm<transB={transposed}>(q, w)"
    (accumulator,) = found_in(body, w=w.T if transposed else w).accumulators
    assert (accumulator.high, accumulator.bits) == (36, 6)
    assert accumulator.bits_by_norm == 7


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_count_as_floats(operator: str, gates: int):
    body = (
        f"q = {quant('x', 'one')} h = {operator}<hidden_size=5>(q, w, r) s = Squeeze(h, axes)"
        f" p = {quant('s', 'one')} y = MatMul(p, v)"
    )
    found = found_in(
        body,
        "float[4,1,6] x",
        "float[4,1,3] y",
        w=np.ones((1, gates * 5, 6)),
        r=np.ones((1, gates * 5, 5)),
        v=np.ones((5, 3)),
        axes=[1],
    )
    assert (found.macs, found.integer_macs) == (4 * gates * 5 * (6 + 5) + 60, 60)
    assert [blocker.node.split()[0] for blocker in found.blockers] == [operator]
    assert f"no scaled-integer rule for {operator}" in found.blockers[0].reason


@pytest.mark.parametrize(
    ("equation", "macs"), [("ij,jk->ik", 24), ("ij,jk", 24), ("...j,jk->...k", 24), ("ij,jk->ki", 24)]
)
def test_einsum_of_integers_is_a_product(equation: str, macs: int):
    body = f'q = {quant("x", "one", 2, signed=0)} y = Einsum<equation="{equation}">(q, w)'
    found = found_in(body, y="float[A,B] y", w=[[1.0, -1.0, 0.0]] * 4)
    assert (found.macs, found.integer_macs) == (macs, macs)
    (accumulator,) = found.accumulators
    assert (accumulator.low, accumulator.high, accumulator.bits_by_norm) == (-12, 12, 5)


def test_einsum_of_floats_is_named():
    found = found_in(f'q = {quant("x", "one")} y = Einsum<equation="ij,jk->ik">(q, f)', f=numbers(4, 3))
    assert found.fraction == 0
    assert "weight 'f' is not a scaled integer" in found.blockers[0].reason


def test_bodies_count_as_floats():
    body = (
        f"q = {quant('x', 'one')} a = MatMul(q, w)"
        " y = If(c) <then_branch = t () => (float[2,3] u) { u = MatMul(q, w) },"
        " else_branch = e () => (float[2,3] v) { v = Neg(a) }>"
    )
    found = found_in(body, "float[2,4] x, bool c", w=[[1.0] * 3] * 4)
    assert (found.macs, found.integer_macs) == (48, 24)
    assert any("its body is not followed" in blocker.reason for blocker in found.blockers)


@pytest.mark.parametrize(("more", "fraction"), [(0.0, 1), (1.0, 0)])
def test_sums_that_floats_may_round_are_no_integers(more: float, fraction: float):
    """Up to 2**24, sixteen times 2**20, floats have all integers."""
    body = f"q = {quant('x', 'one', 1, signed=0)} y = MatMul(q, w)"
    found = found_in(body, "float[2,17] x", w=[[2.0**20] * 3] * 16 + [[more] * 3])
    assert found.fraction == fraction
    assert [blocker.reason for blocker in found.blockers] == ["its sums reach 16,777,217, more than floats hold"][
        : 1 - fraction
    ]


@pytest.mark.parametrize(("kind", "behind"), [("uint8", 24), ("int64", 0)])
def test_inputs_of_few_bits_are_quantized_as_they_are(kind: str, behind: int):
    found = found_in("f = Cast<to=1>(x) y = MatMul(f, w)", f"{kind}[2,4] x", w=[[1.0] * 3] * 4)
    assert (found.macs, found.macs - found.head_macs, found.integer_macs) == (24, behind, behind)


def test_what_is_looked_up_by_integers_is_not_quantized():
    body = "e = Gather(table, x) y = MatMul(e, w)"
    found = found_in(body, "uint8[2] x", table=numbers(256, 4), w=[[1.0] * 3] * 4)
    assert (found.macs, found.head_macs) == (24, 24)


def test_sums_of_unknown_length_are_no_integers():
    body = f"q = {quant('x', 'one')} r = {quant('z', 'one')} y = MatMul(q, r)"
    found = found_in(body, "float[2,K] x, float[K,3] z")
    assert (found.fraction, len(found.accumulators)) == (0 if found.macs else 1, 0)
    assert [blocker.reason for blocker in found.blockers] == ["the number of summed products is not known"]


_HALF = {"zh": np.float16(0), "nh": np.float16(4), "sh": np.float16(0.25), "wh": np.ones((4, 3), np.float16)}


@pytest.mark.parametrize(
    ("body", "constants", "reason"),
    [
        (
            f"m = ReduceMax(x, axes) q = {quant('x', 'm')} y = MatMul(q, w)",
            {"axes": [1], "w": np.ones((4, 3))},
            "'q' has a computed scale, zero point or bit width",
        ),
        (
            f"h = Cast<to=10>(x) q = {DOMAIN}.Quant(h, sh, zh, nh) g = MatMul(q, wh) y = Cast<to=1>(g)",
            _HALF,
            "'q' is FLOAT16",
        ),
        (
            f"q = {quant('x', 'one')} w = DequantizeLinear<axis=0, block_size=2>(k, s) y = MatMul(q, w)",
            {"k": np.ones((4, 3), np.int8), "s": np.full((2, 3), 0.5)},
            "weight 'w' has a scale for each block of 2",
        ),
        (
            "d = DequantizeLinear(x8, s) y = MatMul(d, w)",
            {"s": 0.3, "w": np.ones((4, 3))},
            "it gives integers a scale again",
        ),
        (
            "d = DequantizeLinear(x8, s) y = MatMul(d, w)",
            {"s": 0.3, "w": np.ones((4, 3))},
            "input 'd' is dequantized",
        ),
        (
            f"q = {quant('x', 'one')} c = ScatterND(q, i, u) y = MatMul(c, w)",
            {"i": [[0, 1]], "u": [0.5], "w": np.ones((4, 3))},
            "no scaled-integer rule for ScatterND",
        ),
    ],
)
def test_reasons_are_those_of_the_operand(body: str, constants: dict[str, object], reason: str):
    found = found_in(body, "float[2,4] x, int8[2,4] x8", opset=21, **constants)
    assert found.fraction == 0
    assert any(reason in blocker.reason for blocker in found.blockers), found.blockers


_QUANTIZED = "k, s, z = DynamicQuantizeLinear(x)"


@pytest.mark.parametrize(
    "body",
    [
        f"{_QUANTIZED} n = MatMulInteger(k, w, z, zw) f = Cast<to=1>(n) y = Mul(f, s)",
        f"{_QUANTIZED} y = com.microsoft.MatMulIntegerToFloat(k, w, s, one, z, zw)",
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, one, zw)",
    ],
)
def test_products_of_dynamically_quantized_floats_are_integer(body: str):
    weights = np.ones((4, 3), np.int8)
    found = found_in(body, w=weights, zw=np.zeros((), np.int8))
    assert (found.macs, found.head_macs, found.integer_macs, found.blockers) == (24, 0, 24, ())
    assert not found.accumulators


@pytest.mark.parametrize("zeros", ["", ", z, zw"])
def test_convolutions_of_integer_types_are_integer(zeros: str):
    body = f"q = QuantizeLinear(x, s, z) y = ConvInteger(q, w{zeros})"
    given = {"w": np.ones((2, 3, 2, 2), np.uint8), "zw": np.uint8(3), "z": np.uint8(100), "s": 0.25}
    found = found_in(body, "float[1,3,4,4] x", "int32[1,2,3,3] y", **given)
    assert (found.macs, found.integer_macs, found.blockers) == (216, 216, ())
