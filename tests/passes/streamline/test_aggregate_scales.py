"""Every rule by which scales come together, before and after: integers stay integers, results stay the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.datatypes import parse
from onnx_passes.graph.constants import constant
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.passes.streamline.aggregate_scales import AggregateScales
from tests.passes.streamline.conftest import Scales
from tests.passes.streamline.tools import (
    AGGREGATE,
    aggregated,
    assert_same,
    interior,
    network,
    numbers,
    products,
    quant,
    run,
    samples,
)
from tests.passes.tools import apply, operators

X = f"q = {quant('x', 's')}"
"""Four signed bits of the input."""
PIXELS = "float[2,3,6,6] x"
SIZES = {"s": 0.25, "t": 0.5, "u": 0.125}


def tail(model: ir.Model) -> list[str]:
    """List the operators behind the quantizers."""
    behind: set[ir.Node] = set()
    for node in model.graph:
        if node.op_type == "Quant" or any(value is not None and value.producer() in behind for value in node.inputs):
            behind.add(node)
    return [node.op_type for node in model.graph if node in behind and node.op_type != "Quant"]


def parameter(model: ir.Model, operator: str) -> np.ndarray:
    """Return the constant that the only node of an operator is given."""
    (node,) = [node for node in model.graph if node.op_type == operator]
    held = constant(node.inputs[1])
    assert held is not None
    return held


def sized(model: ir.Model) -> ir.Model:
    """Let the outputs of a model have the sizes that follow from its inputs."""
    for value in model.graph.outputs:
        value.shape = None
    return onnx_passes.apply(model, "shape-inference", in_place=True).model


class TestMatMul:
    def test_scale_moves_from_both_sides_behind_the_product(self, scales: Scales):
        model = network(f"{X} v = {quant('w', 't', 3)} y = MatMul(q, v)", w=numbers(4, 3), **scales.named)
        after = aggregated(model, exact=scales.exact)
        assert tail(after) == ["MatMul", "Mul"]
        np.testing.assert_allclose(parameter(after, "Mul"), [[scales.s * scales.t]], rtol=1e-6)

    def test_constant_may_come_first(self, scales: Scales):
        model = network(
            f"{X} v = {quant('w', 't', 3)} y = MatMul(v, q)",
            "float[4,2] x",
            w=numbers(3, 4),
            **scales.named,
            y="float[3,2] y",
        )
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul"]

    def test_product_of_two_activations(self, scales: Scales):
        body = f"{X} r = {quant('z', 't', 3)} y = MatMul(q, r)"
        model = network(body, "float[2,4] x, float[4,3] z", **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul"]

    def test_scales_of_columns_become_one_scale_for_each_column(self, scales: Scales):
        each = np.array([[scales.t, 2 * scales.t, 4 * scales.t]], np.float32)
        model = network(f"{X} v = {quant('w', 'each', 3)} y = MatMul(q, v)", w=numbers(4, 3), each=each, **scales.named)
        after = aggregated(model, exact=scales.exact)
        np.testing.assert_allclose(parameter(after, "Mul"), scales.s * each, rtol=1e-6)

    def test_scales_along_the_sum_stay_floats(self, scales: Scales):
        each = np.array([[scales.t], [scales.u], [0.75], [0.7]], np.float32)
        model = network(f"{X} v = {quant('w', 'each', 3)} y = MatMul(q, v)", w=numbers(4, 3), each=each, **scales.named)
        after = aggregated(model, exact=False, integer=False)
        assert operators(after.graph)[-1] == "MatMul"

    def test_bias_of_the_input_goes_through_the_product(self, scales: Scales):
        body = f"{X} b = Add(q, bias) v = {quant('w', 't', 3)} y = MatMul(b, v)"
        model = network(body, w=numbers(4, 3), bias=[0.5, -0.25, 1.0, 0.375], **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul", "Add"]

    def test_bias_of_two_activations_goes_into_the_integers(self):
        body = f"{X} b = Add(q, half) r = {quant('z', 't', 3)} y = MatMul(b, r)"
        model = network(body, "float[2,4] x, float[4,3] z", half=0.5, **SIZES)
        assert tail(aggregated(model, exact=True)) == ["Add", "MatMul", "Mul"]

    def test_bias_that_is_no_multiple_of_the_scale_keeps_a_product_of_activations_in_floats(self):
        body = f"{X} b = Add(q, third) r = {quant('z', 't', 3)} y = MatMul(b, r)"
        model = network(body, "float[2,4] x, float[4,3] z", third=1 / 3, **SIZES)
        assert operators(aggregated(model, exact=False, integer=False).graph)[-1] == "MatMul"

    def test_batches_of_matrices(self, scales: Scales):
        body = f"{X} r = {quant('z', 't', 3)} p = Transpose<perm=[0,1,3,2]>(r) y = MatMul(q, p)"
        model = network(body, "float[2,2,3,4] x, float[2,2,5,4] z", "float[2,2,3,5] y", **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["Transpose", "MatMul", "Mul"]

    @pytest.mark.parametrize(
        ("x", "y", "shape", "product"),
        [
            ("2,4", "2", (4,), "q, v"),
            ("4", "3", (4, 3), "q, v"),
            ("4", "3", (3, 4), "v, q"),
            ("4", "2,3", (2, 4, 3), "q, v"),
            ("4", "", (4,), "q, v"),
        ],
    )
    @pytest.mark.parametrize("zero", [0.0, 3.0])
    def test_vectors(self, scales: Scales, x: str, y: str, shape: tuple[int, ...], product: str, zero: float):
        body = f"q = {quant('x', 's', zero='z')} v = {quant('w', 't', 3)} y = MatMul({product})"
        result = f"float[{y}] y" if y else "float y"
        model = network(body, f"float[{x}] x", result, w=numbers(*shape), z=zero, **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul"] + ["Add"] * bool(zero)

    def test_scales_of_the_columns_that_a_vector_meets(self, scales: Scales):
        each = np.array([[scales.t, 2 * scales.t, 4 * scales.t]], np.float32)
        body = f"{X} v = {quant('w', 'each', 3)} y = MatMul(q, v)"
        model = network(body, "float[4] x", "float[3] y", w=numbers(4, 3), each=each, **scales.named)
        np.testing.assert_allclose(
            parameter(aggregated(model, exact=scales.exact), "Mul"), scales.s * each[0], rtol=1e-6
        )


class TestEinsum:
    @pytest.mark.parametrize(
        ("equation", "x", "y", "shape", "scale"),
        [
            ("ij,jk->ik", "2,4", "2,3", (4, 3), (1, 3)),
            ("ij,jk->ki", "2,4", "3,2", (4, 3), (1, 3)),
            ("bij,jk->bik", "1,2,4", "1,2,3", (4, 3), (1, 3)),
            ("...j,kj->...k", "2,2,4", "2,2,3", (3, 4), (3, 1)),
            ("ij,j->i", "2,4", "2", (4,), ()),
        ],
    )
    def test_scale_moves_behind(
        self, scales: Scales, equation: str, x: str, y: str, shape: tuple[int, ...], scale: tuple[int, ...]
    ):
        each = np.full(scale, scales.t, np.float32) * 2.0 ** np.arange(np.prod(scale, dtype=int)).reshape(scale)
        body = f'{X} v = {quant("w", "each", 3)} y = Einsum<equation="{equation}">(q, v)'
        model = network(body, f"float[{x}] x", f"float[{y}] y", w=numbers(*shape), each=each, **scales.named)
        after = aggregated(model, exact=scales.exact)
        assert tail(after) == ["Einsum", "Mul"]

    def test_scales_along_the_sum_stay_floats(self):
        body = f'{X} v = {quant("w", "each", 3)} y = Einsum<equation="ij,jk->ik">(q, v)'
        each = np.array([[0.5], [0.3], [0.7], [1.1]], np.float32)
        model = network(body, w=numbers(4, 3), each=each, **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[0] == "Mul"

    def test_a_diagonal_stays_in_floats(self):
        body = f'{X} v = {quant("w", "t", 3)} y = Einsum<equation="ii,jk->ik">(q, v)'
        model = network(body, "float[4,4] x", "float[4,3] y", w=numbers(4, 3), **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[0] == "Mul"


class TestGemm:
    @pytest.mark.parametrize("trans_b", [0, 1])
    @pytest.mark.parametrize("trans_a", [0, 1])
    def test_transposed(self, scales: Scales, trans_a: int, trans_b: int):
        body = f"{X} v = {quant('w', 't', 3)} y = Gemm<transA={trans_a}, transB={trans_b}>(q, v, c)"
        x = "float[4,2] x" if trans_a else "float[2,4] x"
        w = numbers(3, 4) if trans_b else numbers(4, 3)
        after = aggregated(network(body, x, w=w, c=[0.5, 0.25, -1.0], **scales.named), exact=scales.exact)
        assert tail(after) == ["Transpose"] * trans_a + ["MatMul", "Mul", "Add"]

    def test_without_bias(self, scales: Scales):
        model = network(f"{X} v = {quant('w', 't', 3)} y = Gemm(q, v)", w=numbers(4, 3), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul"]

    def test_alpha_and_beta(self, scales: Scales):
        body = f"{X} v = {quant('w', 't', 3)} y = Gemm<alpha=0.5, beta=2.0>(q, v, c)"
        after = aggregated(network(body, w=numbers(4, 3), c=[[0.5], [0.25]], **scales.named), exact=scales.exact)
        np.testing.assert_allclose(parameter(after, "Mul"), [[0.5 * scales.s * scales.t]], rtol=1e-6)
        np.testing.assert_allclose(parameter(after, "Add"), [[1.0], [0.5]])

    def test_quantized_bias(self, scales: Scales):
        body = f"{X} v = {quant('w', 't', 3)} c = {quant('bias', 'u', 8)} y = Gemm(q, v, c)"
        after = aggregated(network(body, w=numbers(4, 3), bias=numbers(3), **scales.named), exact=scales.exact)
        assert tail(after) == ["MatMul", "Mul", "Add"]


class TestConv:
    def convolution(self, scales: Scales, attributes: str = "", *, zero: float = 0.0, **constants: object) -> ir.Model:
        bias = ", c" if "c" in constants else ""
        scale = "each" if "each" in constants else "t"
        body = (
            f"q = {quant('x', 's', zero='z')} v = {quant('w', scale, 3)}"
            f" y = Conv<kernel_shape=[3,3]{attributes}>(q, v{bias})"
        )
        weights = {"w": numbers(6, 3, 3, 3), **constants}
        shape = "[2,6,6,6]" if "1,1" in attributes or "SAME" in attributes else "[2,6,4,4]"
        return network(body, PIXELS, f"float{shape} y", z=zero, **scales.named, **weights)

    def test_scale_moves_behind(self, scales: Scales):
        assert tail(aggregated(self.convolution(scales), exact=scales.exact)) == ["Conv", "Mul"]

    def test_bias_is_not_multiplied_with_the_scale(self, scales: Scales):
        after = aggregated(self.convolution(scales, c=numbers(6, seed=1)), exact=scales.exact)
        assert tail(after) == ["Conv", "Mul", "Add"]
        np.testing.assert_allclose(parameter(after, "Add").reshape(-1), numbers(6, seed=1))

    def test_scales_of_output_channels(self, scales: Scales):
        each = np.array([1, 2, 4, 8, 1, 2], np.float32).reshape(6, 1, 1, 1) * np.float32(scales.t)
        after = aggregated(self.convolution(scales, each=each), exact=scales.exact)
        assert parameter(after, "Mul").shape == (1, 6, 1, 1)

    def test_scales_of_input_channels_of_weights_stay_floats(self):
        each = np.array([0.5, 0.3, 0.7], np.float32).reshape(1, 3, 1, 1)
        after = aggregated(self.convolution(Scales(0.25, 0.5, 1, True), each=each), exact=False, integer=False)
        assert tail(after)[-1] == "Conv"

    def test_zero_point_without_padding_becomes_a_bias(self, scales: Scales):
        assert tail(aggregated(self.convolution(scales, zero=3.0), exact=scales.exact)) == ["Conv", "Mul", "Add"]

    @pytest.mark.parametrize("padding", [", pads=[1,1,1,1]", ', auto_pad="SAME_UPPER"', ', auto_pad="SAME_LOWER"'])
    def test_zero_point_goes_into_the_integers_where_zeros_are_padded(self, scales: Scales, padding: str):
        after = aggregated(self.convolution(scales, padding, zero=3.0), exact=scales.exact)
        assert tail(after) == ["Add", "Conv", "Mul"]

    @pytest.mark.parametrize(
        "attributes", ["pads=[1,1,1,1]", 'auto_pad="SAME_LOWER"', "pads=[2,0,1,1], strides=[1,2], dilations=[1,2]"]
    )
    @pytest.mark.parametrize("group", [1, 3])
    def test_a_bias_off_the_grid_is_less_where_zeros_are_padded(self, scales: Scales, attributes: str, group: int):
        node = f"Conv<kernel_shape=[3,3], group={group}, {attributes}>"
        body = f"{X} b = Add(q, off) v = {quant('w', 't', 3)} y = {node}(b, v)"
        off = np.array([1 / 3, -0.7, 0.033], np.float32).reshape(1, 3, 1, 1)
        model = network(body, PIXELS, "float[A,B,H,W] y", off=off, w=numbers(6, 3 // group, 3, 3), **scales.named)
        after = aggregated(sized(model), exact=False)
        assert tail(after) == ["Conv", "Mul", "Add"]
        assert parameter(after, "Add").shape[1:] == run(after, samples(after))[0][0].shape[1:]

    def test_a_bias_off_the_grid_stays_where_sizes_are_not_known(self):
        body = f"{X} b = Add(q, third) v = {quant('w', 't', 3)} y = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(b, v)"
        model = network(body, "float[2,3,H,6] x", "float[2,6,H,6] y", third=1 / 3, w=numbers(6, 3, 3, 3), **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Conv"

    def test_stride_dilation_and_uneven_padding(self, scales: Scales):
        body = (
            f"q = {quant('x', 's', zero='z')} v = {quant('w', 't', 3)}"
            " y = Conv<kernel_shape=[2,3], strides=[2,1], dilations=[2,1], pads=[1,0,0,2]>(q, v)"
        )
        model = network(body, PIXELS, "float[2,4,3,6] y", z=-2.0, w=numbers(4, 3, 2, 3), **scales.named)
        aggregated(model, exact=scales.exact)

    def test_same_upper_with_stride(self, scales: Scales):
        body = f'{X} v = {quant("w", "t", 3)} y = Conv<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER">(q, v)'
        model = network(body, "float[1,3,5,6] x", "float[1,2,3,3] y", w=numbers(2, 3, 3, 3), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["Conv", "Mul"]

    @pytest.mark.parametrize("zero", [0.0, 5.0])
    def test_groups(self, scales: Scales, zero: float):
        body = (
            f"q = {quant('x', 's', zero='z')} v = {quant('w', 't', 3)} y = Conv<kernel_shape=[3,3], group=2>(q, v, c)"
        )
        model = network(
            body,
            "float[2,4,5,5] x",
            "float[2,6,3,3] y",
            z=zero,
            w=numbers(6, 2, 3, 3),
            c=np.arange(6) / 4,
            **scales.named,
        )
        aggregated(model, exact=scales.exact)

    @pytest.mark.parametrize("outputs", [3, 6])
    @pytest.mark.parametrize("zero", [0.0, 2.0])
    def test_depthwise_keeps_scales_of_channels_apart(self, scales: Scales, outputs: int, zero: float):
        each = np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1) * np.float32(scales.s)
        body = (
            f"q = {quant('x', 'each', zero='z')} v = {quant('w', 't', 3)} y = Conv<kernel_shape=[3,3], group=3>(q, v)"
        )
        w = numbers(outputs, 1, 3, 3)
        model = network(body, PIXELS, f"float[2,{outputs},4,4] y", z=zero, each=each, w=w, **scales.named)
        after = aggregated(model, exact=scales.exact)
        assert parameter(after, "Mul").shape == (1, outputs, 1, 1)

    def test_scales_of_input_channels_stay_floats_where_channels_are_summed(self):
        each = np.array([0.25, 0.3, 0.7], np.float32).reshape(1, 3, 1, 1)
        body = f"q = {quant('x', 'each')} v = {quant('w', 't', 3)} y = Conv<kernel_shape=[3,3]>(q, v)"
        model = network(body, PIXELS, "float[2,6,4,4] y", each=each, w=numbers(6, 3, 3, 3), **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Conv"

    def test_in_one_dimension(self, scales: Scales):
        body = f"{X} v = {quant('w', 't', 3)} y = Conv(q, v, c)"
        model = network(body, "float[2,3,8] x", "float[2,4,6] y", w=numbers(4, 3, 3), c=numbers(4), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["Conv", "Mul", "Add"]

    def test_computed_weights_stay_floats(self):
        body = f"{X} v = {quant('z', 't', 3)} y = Conv(q, v)"
        model = network(body, f"{PIXELS}, float[2,3,3,3] z", "float[2,2,4,4] y", **SIZES)
        aggregated(model, exact=True, integer=False)


class TestConvTranspose:
    @pytest.mark.parametrize("zero", [0.0, 3.0])
    def test_scale_moves_behind(self, scales: Scales, zero: float):
        body = (
            f"q = {quant('x', 's', zero='z')} v = {quant('w', 't', 3)}"
            " y = ConvTranspose<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(q, v, c)"
        )
        model = network(
            body, "float[2,3,4,4] x", "float[2,2,8,8] y", z=zero, w=numbers(3, 2, 3, 3), c=numbers(2), **scales.named
        )
        after = aggregated(model, exact=scales.exact)
        assert tail(after) == ["Add"] * bool(zero) + ["ConvTranspose", "Mul", "Add"]

    def test_scales_of_output_channels(self, scales: Scales):
        each = np.array([1, 2], np.float32).reshape(1, 2, 1, 1) * np.float32(scales.t)
        body = f"{X} v = {quant('w', 'each', 3)} y = ConvTranspose<kernel_shape=[2,2]>(q, v)"
        model = network(body, PIXELS, "float[2,2,7,7] y", each=each, w=numbers(3, 2, 2, 2), **scales.named)
        assert parameter(aggregated(model, exact=scales.exact), "Mul").shape == (1, 2, 1, 1)

    def test_groups(self, scales: Scales):
        body = f"{X} v = {quant('w', 't', 3)} y = ConvTranspose<kernel_shape=[2,2], group=2>(q, v)"
        model = network(body, "float[1,4,3,3] x", "float[1,2,4,4] y", w=numbers(4, 1, 2, 2), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["ConvTranspose", "Mul"]


class TestAverages:
    @pytest.mark.parametrize(
        ("attributes", "size", "operator"),
        [
            ("kernel_shape=[2,2], strides=[2,2]", 3, "Conv"),
            ("kernel_shape=[3,3]", 4, "Conv"),
            ("kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1", 6, "Conv"),
            ("kernel_shape=[6,6]", 1, "ReduceSum"),
        ],
    )
    def test_windows_are_summed_up(self, scales: Scales, attributes: str, size: int, operator: str):
        model = network(f"{X} y = AveragePool<{attributes}>(q)", PIXELS, f"float[2,3,{size},{size}] y", **scales.named)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after) == [operator, "Mul"]

    @pytest.mark.parametrize(
        "attributes",
        [
            "pads=[1,1,1,1]",
            "pads=[2,0,0,1], strides=[1,2]",
            "strides=[2,2], pads=[0,0,1,1], ceil_mode=1",
            "strides=[2,2], ceil_mode=1",
            'auto_pad="SAME_UPPER", strides=[2,2]',
            'auto_pad="SAME_LOWER"',
        ],
    )
    @pytest.mark.parametrize("off", [0.0, 0.7])
    def test_windows_of_different_counts_have_one_scale(self, scales: Scales, attributes: str, off: float):
        body = f"{X} b = Add(q, off) y = AveragePool<kernel_shape=[3,3], {attributes}>(b)"
        model = network(body, PIXELS, "float[A,B,H,W] y", off=off, **scales.named)
        after = aggregated(sized(model), exact=False)
        assert tail(after) == ["Conv", "Mul", "Mul"] + ["Add"] * bool(off)
        *_, last = (node for node in after.graph if node.op_type == "Mul")
        scale = constant(last.inputs[1])
        assert scale is not None
        assert scale.size == 1

    @pytest.mark.parametrize(
        ("attributes", "x"),
        [
            ("strides=[2,2], pads=[1,1,0,0], ceil_mode=1, count_include_pad=1", PIXELS),
            ("pads=[1,1,1,1]", "float[2,3,H,6] x"),
        ],
    )
    def test_windows_whose_counts_are_not_clear_stay_floats(self, attributes: str, x: str):
        model = network(f"{X} y = AveragePool<kernel_shape=[3,3], {attributes}>(q)", x, "float[A,B,C,D] y", **SIZES)
        assert tail(aggregated(sized(model), exact=True, integer=False))[-1] == "AveragePool"

    def test_padded_zeros_are_no_zeros_behind_a_bias(self):
        body = f"{X} b = Add(q, half) y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(b)"
        model = network(body, PIXELS, "float[2,3,6,6] y", half=0.5, **SIZES)
        aggregated(model, exact=False, integer=False)

    @pytest.mark.parametrize("zero", [0.0, 3.0])
    def test_of_all(self, scales: Scales, zero: float):
        each = np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1) * np.float32(scales.s)
        body = f"q = {quant('x', 'each', zero='z')} y = GlobalAveragePool(q)"
        model = network(body, PIXELS, "float[2,3,1,1] y", each=each, z=zero)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after) == ["ReduceSum", "Mul"] + ["Add"] * bool(zero)

    @pytest.mark.parametrize("keep", [0, 1])
    @pytest.mark.parametrize("opset", [13, 18])
    @pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum"])
    def test_along_axes(self, operator: str, opset: int, keep: int):
        given = "(q, axes)" if operator == "ReduceSum" or opset >= 18 else "(q)"
        attribute = "" if "axes" in given else ", axes=[-1, 2]"
        body = f"{X} b = Add(q, half) y = {operator}<keepdims={keep}{attribute}>{given.replace('q', 'b')}"
        shape = "[2,3,1,1]" if keep else "[2,3]"
        model = network(body, PIXELS, f"float{shape} y", opset=opset, half=0.5, axes=[2, -1], **SIZES)
        assert tail(aggregated(model, exact=False, integer=False)) == ["ReduceSum", "Mul", "Add"]

    def test_along_all_axes(self, scales: Scales):
        model = network(f"{X} y = ReduceMean<keepdims=0>(q)", y="float y", **scales.named)
        assert tail(aggregated(model, exact=False, integer=False)) == ["ReduceSum", "Mul"]

    def test_scales_along_a_sum_stay_floats(self):
        each = np.array([0.25, 0.3, 0.7, 1.0], np.float32)
        model = network(f"q = {quant('x', 'each')} y = ReduceSum(q, last)", y="float[2,1] y", each=each, last=[1])
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "ReduceSum"


class TestMaximum:
    @pytest.mark.parametrize("operator", ["MaxPool<kernel_shape=[2,2], strides=[2,2]>", "GlobalMaxPool"])
    def test_of_a_positive_scale(self, scales: Scales, operator: str):
        size = 1 if "Global" in operator else 3
        each = np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1) * np.float32(scales.s)
        body = f"q = {quant('x', 'each', zero='z')} y = {operator}(q)"
        model = network(body, PIXELS, f"float[2,3,{size},{size}] y", each=each, z=2.0)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after) == [operator.split("<")[0], "Mul", "Add"]

    @pytest.mark.parametrize("factor", [[-1.0], [-1.0, 1.0, 2.0]])
    def test_of_a_negative_scale_stays_floats(self, scales: Scales, factor: list[float]):
        body = f"{X} n = Mul(q, factor) y = MaxPool<kernel_shape=[2,2]>(n)"
        each = np.array(factor, np.float32).reshape(1, -1, 1, 1)
        model = network(body, PIXELS, "float[2,3,5,5] y", factor=each, **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False))[-1] == "MaxPool"

    def test_padding_is_less_than_everything(self, scales: Scales):
        body = f"{X} y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(q)"
        after = aggregated(network(body, PIXELS, "float[2,3,6,6] y", **scales.named), exact=scales.exact, integer=False)
        assert tail(after) == ["MaxPool", "Mul"]

    def test_indices_keep_it_as_it_is(self):
        body = f"{X} y, i = MaxPool<kernel_shape=[2,2]>(q)"
        model = network(body, PIXELS, "float[2,3,5,5] y, int64[2,3,5,5] i", **SIZES)
        assert tail(aggregated(model, exact=True, integer=False)) == ["Mul", "MaxPool"]


class TestChoices:
    TWO = f"{X} r = {quant('z', 's', 3)}"
    INPUTS = "float[2,4] x, float[2,4] z"

    @pytest.mark.parametrize("operator", ["Max", "Min"])
    def test_greatest_and_least(self, scales: Scales, operator: str):
        model = network(f"{self.TWO} y = {operator}(q, r)", self.INPUTS, "float[2,4] y", **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == [operator, "Mul"]

    def test_of_three_with_a_number_on_the_grid(self, scales: Scales):
        model = network(
            f"{self.TWO} y = Max(q, r, two)", self.INPUTS, "float[2,4] y", two=2 * np.float32(scales.s), **scales.named
        )
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == ["Max", "Mul"]

    def test_of_an_integer_ratio(self):
        body = f"{X} r = {quant('z', 'triple', 3)} y = Max(q, r)"
        model = network(body, self.INPUTS, "float[2,4] y", triple=0.75, **SIZES)
        assert tail(aggregated(model, exact=True, integer=False)) == ["Mul", "Max", "Mul"]

    def test_of_a_number_off_the_grid_stays_floats(self):
        model = network(f"{X} y = Max(q, off)", y="float[2,4] y", off=0.3, **SIZES)
        assert tail(aggregated(model, exact=True, integer=False)) == ["Mul", "Max"]

    def test_of_a_negative_scale(self):
        body = f"{self.TWO} m = Neg(q) n = Neg(r) y = Max(m, n)"
        model = network(body, self.INPUTS, "float[2,4] y", **SIZES)
        assert tail(aggregated(model, exact=True, integer=False))[-2:] == ["Max", "Mul"]

    def test_by_a_condition(self, scales: Scales):
        body = f"{self.TWO} c = Greater(x, z) y = Where(c, q, r)"
        model = network(body, self.INPUTS, "float[2,4] y", **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == ["Where", "Mul"]

    def test_by_a_condition_of_different_scales_stays_floats(self):
        body = f"{X} r = {quant('z', 'off', 3)} c = Greater(x, z) y = Where(c, q, r)"
        model = network(body, self.INPUTS, "float[2,4] y", off=0.17, **SIZES)
        assert tail(aggregated(model, exact=True, integer=False))[-1] == "Where"

    @pytest.mark.parametrize("zero", [0.0, 3.0])
    def test_sizes(self, scales: Scales, zero: float):
        body = f"q = {quant('x', 's', zero='z')} y = Abs(q)"
        model = network(body, y="float[2,4] y", z=zero, **scales.named)
        expected = ["Add"] * bool(zero) + ["Abs", "Mul"]
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == expected

    def test_sizes_of_a_bias_off_the_grid_stay_floats(self):
        model = network(f"{X} b = Add(q, off) y = Abs(b)", y="float[2,4] y", off=0.3, **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Abs"

    @pytest.mark.parametrize("keep", [0, 1])
    @pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
    def test_along_axes(self, scales: Scales, operator: str, keep: int):
        body = f"{X} b = Add(q, off) y = {operator}<keepdims={keep}>(b, axes)"
        shape = "[2,3,1,1]" if keep else "[2,3]"
        model = network(body, PIXELS, f"float{shape} y", off=0.3, axes=[2, -1], **scales.named)
        assert tail(aggregated(model, exact=False, integer=False)) == [operator, "Mul", "Add"]

    def test_along_axes_of_different_scales_stays_floats(self):
        each = np.array([0.25, 0.3, 0.7, 1.0], np.float32)
        model = network(f"q = {quant('x', 'each')} y = ReduceMax(q, last)", y="float[2,1] y", each=each, last=[1])
        assert tail(aggregated(model, exact=True, integer=False))[-1] == "ReduceMax"


class TestSums:
    THREE = f"{X} r = {quant('z', 's', 3)} p = {quant('u', 's', 2)}"
    INPUTS = "float[2,4] x, float[2,4] z, float[2,4] u"

    @pytest.mark.parametrize("operator", ["Sum", "Mean"])
    def test_of_three(self, scales: Scales, operator: str):
        body = f"{self.THREE} b = Add(p, off) y = {operator}(q, r, b, c)"
        constants = {"s": scales.s, "off": 0.3, "c": [0.5, 1.0, -1.0, 2.0]}
        model = network(body, self.INPUTS, "float[2,4] y", **constants)
        assert tail(aggregated(model, exact=False, integer=False)) == ["Add", "Add", "Mul", "Add"]

    def test_of_the_same(self, scales: Scales):
        body = f"{X} r = {quant('z', 's', 3)} a = Sum(q, r, q) v = {quant('w', 't', 3)} y = MatMul(a, v)"
        model = network(body, "float[2,4] x, float[2,4] z", w=numbers(4, 3), **scales.named)
        assert tail(aggregated(model, exact=False)) == ["Add", "Add", "MatMul", "Mul"]

    def test_of_scales_without_ratio_stay_floats(self):
        body = f"{X} r = {quant('z', 'off', 3)} y = Sum(q, r, q)"
        model = network(body, "float[2,4] x, float[2,4] z", "float[2,4] y", off=0.17, **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Sum"


class TestElementwise:
    @pytest.mark.parametrize("gamma", [[1.0, 0.5, 2.0], [-1.0, 0.5, -2.0], [0.0, 1.0, -1.0]])
    def test_batch_normalization(self, scales: Scales, gamma: list[float]):
        body = (
            f"{X} v = {quant('w', 't', 3)} c = Conv(q, v)"
            " y = BatchNormalization<epsilon=0.001>(c, gamma, beta, mean, variance)"
        )
        model = network(
            body,
            PIXELS,
            "float[2,3,6,6] y",
            w=numbers(3, 3, 1, 1),
            gamma=gamma,
            beta=[0.5, -1.0, 0.25],
            mean=[1.0, 0.0, -0.5],
            variance=[1.0, 2.0, 0.5],
            **scales.named,
        )
        after = aggregated(model, exact=False)
        assert tail(after) == ["Conv", "Mul", "Add"]
        np.testing.assert_array_equal(np.sign(parameter(after, "Mul").reshape(-1)), np.sign(gamma))

    def test_batch_normalization_in_training_stays(self):
        body = f"{X} y, m, v = BatchNormalization<training_mode=1>(q, gamma, beta, mean, variance)"
        model = network(
            body,
            PIXELS,
            "float[2,3,6,6] y, float[3] m, float[3] v",
            gamma=[1.0] * 3,
            beta=[0.0] * 3,
            mean=[0.0] * 3,
            variance=[1.0] * 3,
            **SIZES,
        )
        assert tail(aggregated(model, exact=True, integer=False))[-1] == "BatchNormalization"

    @pytest.mark.parametrize("operator", ["Add", "Sub"])
    def test_join_of_equal_scales(self, scales: Scales, operator: str):
        body = f"{X} r = {quant('z', 's', 3)} y = {operator}(q, r)"
        model = network(body, "float[2,4] x, float[2,4] z", "float[2,4] y", **scales.named)
        after = aggregated(model, exact=scales.exact, integer=False)
        assert tail(after)[-2:] == ["Add", "Mul"]

    def test_join_of_scales_of_an_integer_ratio(self):
        body = f"{X} r = {quant('z', 'triple', 3)} y = Add(q, r)"
        model = network(body, "float[2,4] x, float[2,4] z", "float[2,4] y", triple=0.75, **SIZES)
        after = aggregated(model, exact=True, integer=False)
        assert tail(after) == ["Mul", "Add", "Mul"]

    def test_join_of_scales_of_a_rational_ratio(self):
        body = f"q = {quant('x', 'two')} r = {quant('z', 'three', 3)} y = Add(q, r)"
        model = network(body, "float[2,4] x, float[2,4] z", "float[2,4] y", two=0.5, three=0.75)
        aggregated(model, exact=True, integer=False)

    def test_join_of_scales_without_ratio_stays_floats(self):
        body = f"{X} r = {quant('z', 't', 3)} a = Add(q, r) v = {quant('w', 'u', 3)} y = MatMul(a, v)"
        constants = {"s": 0.3, "t": 0.17, "u": 0.5, "w": numbers(4, 3)}
        model = network(body, "float[2,4] x, float[2,4] z", **constants)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after)[-2:] == ["Add", "MatMul"]
        found = onnx_passes.apply(after, "check-streamlined")["check-streamlined"]
        assert found.fraction == 0
        assert any("not multiples of one another" in blocker.reason for blocker in found.blockers)

    def test_join_of_biases_of_channels(self, scales: Scales):
        body = f"{X} r = {quant('z', 's', 3)} a = Add(q, first) b = Add(r, second) y = Add(a, b)"
        model = network(
            body,
            "float[2,4] x, float[2,4] z",
            "float[2,4] y",
            first=[0.5, 1.0, -1.0, 2.0],
            second=[0.25, -3.0, 1.0, 4.0],
            **scales.named,
        )
        after = aggregated(model, exact=scales.exact, integer=False)
        *_, last = after.graph
        np.testing.assert_allclose(constant(last.inputs[1]), [[0.75, -2.0, 0.0, 6.0]])

    def test_join_of_another_rank(self, scales: Scales):
        body = f"{X} r = {quant('z', 's', 3)} y = Add(q, r)"
        model = network(body, "float[2,3,4] x, float[4] z", "float[2,3,4] y", **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == ["Add", "Mul"]

    def test_number_of_higher_rank_makes_the_result_larger(self, scales: Scales):
        body = f"{X} y = Mul(q, factor)"
        model = network(body, y="float[3,2,4] y", factor=numbers(3, 1, 1), **scales.named)
        aggregated(model, exact=scales.exact, integer=False)

    def test_number_that_makes_the_result_larger(self, scales: Scales):
        body = f"{X} a = Add(q, factor) v = {quant('w', 't', 3)} y = MatMul(a, v)"
        model = network(body, "float[2,1] x", factor=numbers(1, 4), w=numbers(4, 3), **scales.named)
        aggregated(model, exact=False, integer=False)

    def test_product_of_two_activations(self, scales: Scales):
        body = f"q = {quant('x', 's', zero='z')} r = {quant('z2', 't', 3)} y = Mul(q, r)"
        model = network(body, "float[2,4] x, float[2,4] z2", "float[2,4] y", z=2.0, **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == ["Add", "Mul", "Mul"]

    def test_square(self, scales: Scales):
        model = network(f"{X} y = Mul(q, q)", y="float[2,4] y", **scales.named)
        assert tail(aggregated(model, exact=False, integer=False)) == ["Mul", "Mul"]

    def test_constants_on_the_left(self, scales: Scales):
        body = (
            f"{X} a = Sub(one, q) b = Mul(two, a) c = Div(b, two) d = Neg(c) v = {quant('w', 't', 3)} y = MatMul(d, v)"
        )
        model = network(body, one=1.0, two=2.0, w=numbers(4, 3), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["MatMul", "Mul", "Add"]

    def test_division_of_a_number_by_integers_stays(self):
        body = f"q = {quant('x', 's', zero='z')} e = Exp(q) y = Div(one, e)"
        model = network(body, y="float[2,4] y", one=1.0, z=1.0, **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Div"

    @pytest.mark.parametrize(("bias", "operator"), [(0.0, "Relu"), (0.5, "Max"), (-0.75, "Max")])
    def test_relu_of_a_bias_on_the_grid(self, bias: float, operator: str):
        body = f"{X} a = Add(q, bias) r = Relu(a) v = {quant('w', 't', 3)} y = MatMul(r, v)"
        after = aggregated(network(body, bias=bias, w=numbers(4, 3), **SIZES), exact=True)
        assert operator in tail(after)

    def test_relu_of_a_bias_off_the_grid_stays_floats(self):
        body = f"{X} a = Add(q, bias) r = Relu(a) v = {quant('w', 't', 3)} y = MatMul(r, v)"
        after = aggregated(network(body, bias=1 / 3, w=numbers(4, 3), **SIZES), exact=False, integer=False)
        assert tail(after) == ["Mul", "Add", "Relu", "MatMul"]

    def test_relu_of_a_negative_scale_stays_floats(self, scales: Scales):
        body = f"{X} n = Neg(q) y = Relu(n)"
        after = aggregated(network(body, y="float[2,4] y", **scales.named), exact=scales.exact, integer=False)
        assert tail(after) == ["Mul", "Relu"]


class TestMovements:
    @pytest.mark.parametrize(
        ("node", "y"),
        [
            ("Transpose<perm=[0,2,3,1]>(q)", "[2,6,6,3]"),
            ("Reshape(q, shape)", "[2,108]"),
            ("Flatten(q)", "[2,108]"),
            ("Slice(q, starts, ends, axes)", "[2,3,3,6]"),
            ("Gather<axis=1>(q, picks)", "[2,2,6,6]"),
            ("Gather<axis=-1>(q, one)", "[2,3,6]"),
            ("Unsqueeze(q, axes)", "[2,3,1,6,6]"),
            ("Tile(q, repeats)", "[2,6,6,6]"),
            ("SpaceToDepth<blocksize=2>(q)", "[2,12,3,3]"),
            ("Expand(q, wide)", "[4,2,3,6,6]"),
            ('Resize<mode="nearest">(q, , factors)', "[2,3,12,12]"),
            ("Pad(q, pads)", "[2,3,8,8]"),
            ("Pad(q, pads, two)", "[2,3,8,8]"),
            ('Pad<mode="reflect">(q, pads)', "[2,3,8,8]"),
        ],
    )
    def test_integers_move(self, scales: Scales, node: str, y: str):
        model = network(
            f"{X} y = {node}",
            PIXELS,
            f"float{y} y",
            shape=[2, -1],
            starts=[0],
            ends=[3],
            axes=[2],
            picks=[2, 0],
            one=1,
            repeats=[1, 2, 1, 1],
            wide=[4, 1, 1, 1, 1],
            factors=[1.0, 1.0, 2.0, 2.0],
            pads=[0, 0, 1, 1, 0, 0, 1, 1],
            two=2 * scales.s,
            **scales.named,
        )
        after = aggregated(model, exact=scales.exact, integer=False)
        assert tail(after) == [node.split("(")[0].split("<")[0], "Mul"]

    @pytest.mark.parametrize(
        ("node", "y"),
        [
            ("Transpose<perm=[0,2,3,1]>(q)", "[2,6,6,3]"),
            ("Flatten(q)", "[2,108]"),
            ("Slice(q, starts, ends, axes)", "[2,2,6,6]"),
            ("Gather<axis=1>(q, picks)", "[2,2,6,6]"),
            ('Resize<mode="nearest">(q, , factors)', "[2,3,12,12]"),
            ("Squeeze(p, none)", "[2,3,6,6]"),
            ('Pad<mode="edge">(q, pads)', "[2,3,8,8]"),
        ],
    )
    def test_scales_of_channels_move_along(self, scales: Scales, node: str, y: str):
        each = np.array([1, 2, 4], np.float32).reshape(1, 3, 1, 1) * np.float32(scales.s)
        model = network(
            f"q = {quant('x', 'each', zero='z')} p = Unsqueeze(q, none) y = {node}",
            PIXELS,
            f"float{y} y",
            starts=[1],
            ends=[3],
            axes=[1],
            pads=[0, 0, 1, 1, 0, 0, 1, 1],
            picks=[2, 0],
            factors=[1.0, 1.0, 2.0, 2.0],
            each=each,
            z=1.0,
            none=[0],
        )
        after = aggregated(model, exact=scales.exact, integer=False)
        assert tail(after)[-3:] == [node.split("(")[0].split("<")[0], "Mul", "Add"]

    def test_padding_that_is_no_integer_stays_floats(self):
        model = network(f"{X} y = Pad(q, pads, third)", y="float[2,6] y", pads=[0, 1, 0, 1], third=1 / 3, **SIZES)
        assert tail(aggregated(model, exact=True, integer=False)) == ["Mul", "Pad"]

    @pytest.mark.parametrize(("pads", "moves"), [([0, 0, 1, 1, 0, 0, 1, 1], True), ([0, 1, 0, 0, 0, 0, 0, 0], False)])
    def test_padding_of_channels_with_scales_of_their_own(self, pads: list[int], moves: bool):
        each = np.array([0.3, 0.5, 0.7]).reshape(1, 3, 1, 1)
        y = "float[2,3,8,8] y" if moves else "float[2,4,6,6] y"
        model = network(f"q = {quant('x', 'each')} y = Pad(q, pads)", PIXELS, y, each=each, pads=pads)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after) == (["Pad", "Mul"] if moves else ["Mul", "Pad"])

    def test_padding_behind_a_zero_point(self, scales: Scales):
        body = f"q = {quant('x', 's', zero='z')} p = Pad(q, pads) v = {quant('w', 't', 3)} y = MatMul(p, v)"
        model = network(body, z=3.0, pads=[0, 1, 0, 1], w=numbers(6, 3), **scales.named)
        after = aggregated(model, exact=scales.exact)
        (node,) = [node for node in after.graph if node.op_type == "Pad"]
        assert constant(node.inputs[2]) == 3

    def test_what_lies_between_integers_stays_floats(self):
        body = f'{X} y = Resize<mode="linear">(q, , factors)'
        model = network(body, PIXELS, "float[2,3,12,12] y", factors=[1.0, 1.0, 2.0, 2.0], **SIZES)
        assert tail(aggregated(model, exact=True, integer=False)) == ["Mul", "Resize"]

    def test_depth_becomes_space(self, scales: Scales):
        body = f"{X} d = DepthToSpace<blocksize=2>(q) v = {quant('w', 't', 3)} y = Conv(d, v)"
        model = network(body, "float[1,4,3,3] x", "float[1,2,4,4] y", w=numbers(2, 1, 3, 3), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["DepthToSpace", "Conv", "Mul"]

    def test_table_of_quantized_rows(self, scales: Scales):
        body = f"v = {quant('w', 't', 3)} g = Gather(v, i) v2 = {quant('w2', 's', 3)} y = MatMul(g, v2)"
        model = network(body, "int64[3] i", "float[3,2] y", w=numbers(7, 4), w2=numbers(4, 2), **scales.named)
        result = onnx_passes.apply(model, AGGREGATE)
        assert operators(result.model.graph) == ["Gather", "MatMul", "Mul"]
        assert not onnx_passes.apply(result.model, AGGREGATE).modified
        feeds = [{"i": np.array([0, 6, 3])}, {"i": np.array([-1, 2, 2])}]
        assert_same(model, result.model, exact=scales.exact, feeds=feeds)

    def test_table_of_rows_with_scales_of_their_own_stays_floats(self):
        each = 2.0 ** np.arange(-3, 4).reshape(7, 1)
        body = f"v = {quant('w', 'each', 3)} g = Gather(v, i) y = Neg(g)"
        model = network(body, "int64[3] i", "float[3,4] y", w=numbers(7, 4), each=each)
        assert operators(onnx_passes.apply(model, AGGREGATE).model.graph) == ["Gather", "Neg"]

    def test_parts(self, scales: Scales):
        body = f"{X} a, b = Split<axis=1>(q, parts) v = {quant('w', 't', 3)} y = MatMul(a, v) y2 = MatMul(b, v)"
        model = network(body, y="float[2,3] y, float[2,3] y2", parts=[2, 2], w=numbers(2, 3), **scales.named)
        aggregated(model, exact=scales.exact)

    def test_join_of_equal_scales(self, scales: Scales):
        body = f"{X} r = {quant('z', 's')} c = Concat<axis=1>(q, r) v = {quant('w', 't', 3)} y = MatMul(c, v)"
        model = network(body, "float[2,4] x, float[2,2] z", w=numbers(6, 3), **scales.named)
        assert tail(aggregated(model, exact=scales.exact)) == ["Concat", "MatMul", "Mul"]

    def test_join_of_different_scales_keeps_them_by_channel(self):
        body = f"{X} r = {quant('z', 't')} y = Concat<axis=1>(q, r)"
        model = network(body, "float[2,4] x, float[2,2] z", "float[2,6] y", s=0.3, t=0.17)
        after = aggregated(model, exact=False, integer=False)
        assert tail(after) == ["Concat", "Mul"]
        np.testing.assert_allclose(parameter(after, "Mul"), [[0.3] * 4 + [0.17] * 2], rtol=1e-6)

    def test_join_of_an_integer_ratio_has_one_scale(self):
        body = f"{X} r = {quant('z', 'triple', 3)} c = Concat<axis=1>(q, r) v = {quant('w', 't', 3)} y = MatMul(c, v)"
        model = network(body, "float[2,4] x, float[2,2] z", w=numbers(6, 3), triple=0.75, **SIZES)
        assert tail(aggregated(model, exact=True)) == ["Mul", "Concat", "MatMul", "Mul"]

    def test_join_with_a_constant(self, scales: Scales):
        body = f"{X} r = {quant('w', 's')} y = Concat<axis=-1>(q, r)"
        model = network(body, y="float[2,6] y", w=numbers(2, 2), **scales.named)
        assert tail(aggregated(model, exact=scales.exact, integer=False)) == ["Concat", "Mul"]


class TestGraphs:
    def test_each_branch_of_a_fork_sees_integers(self, scales: Scales):
        body = (
            f"{X} v = {quant('w', 't', 3)} a = MatMul(q, v) b = Relu(q) c = MatMul(b, v)"
            " d = Sigmoid(q) e = MatMul(d, w) f = Add(a, c) y = Add(f, e)"
        )
        model = network(body, w=numbers(4, 3), **scales.named)
        after = aggregated(model, exact=False, integer=False)
        integer = products(after)[:2]
        for arrays in interior(after, [node.outputs[0] for node in integer]):
            for array in arrays:
                np.testing.assert_array_equal(array, np.rint(array))

    def test_outputs_in_the_middle_are_floats_again(self, scales: Scales):
        weights = f"v = {quant('w', 't', 3)} v2 = {quant('w2', 't', 3)}"
        body = f"{X} {weights} a = MatMul(q, v) r = Relu(a) r2 = {quant('r', 'u')} y = MatMul(r2, v2)"
        model = network(
            body,
            y="float[2,4] q, float[2,3] a, float[2,3] r, float[2,2] y",
            w=numbers(4, 3),
            w2=numbers(3, 2),
            **scales.named,
        )
        aggregated(model, exact=scales.exact)

    def test_input_that_is_an_output(self):
        model = network(f"{X} y = Identity(q) z = Identity(x)", y="float[2,4] y, float[2,4] z", **SIZES)
        aggregated(model, exact=True, integer=False)

    def test_weights_are_shared(self, scales: Scales):
        body = (
            f"{X} v = {quant('w', 't', 3)} a = MatMul(q, v) p = Transpose<perm=[1,0]>(v)"
            " r = Relu(q) b = MatMul(r, p) y = Add(a, b)"
        )
        model = network(body, "float[2,4] x", "float[2,4] y", w=numbers(4, 4), **scales.named)
        aggregated(model, exact=scales.exact, integer=False)

    def test_batch_of_any_size(self, scales: Scales):
        body = f"{X} v = {quant('w', 't', 3)} c = Conv(q, v, c0) y = MaxPool<kernel_shape=[2,2]>(c)"
        model = network(
            body, "float[N,3,6,6] x", "float[N,2,3,3] y", w=numbers(2, 3, 3, 3), c0=numbers(2), **scales.named
        )
        assert tail(aggregated(model, exact=scales.exact)) == ["Conv", "MaxPool", "Mul", "Add"]

    @pytest.mark.parametrize(
        ("node", "size"),
        [("AveragePool<kernel_shape=[2,2]>(q)", 5), ("GlobalAveragePool(q)", 1), ("ReduceMean(q, axes)", 1)],
    )
    def test_averages_of_a_batch_of_any_size(self, node: str, size: int):
        y = f"float[N,3,{size},{size}] y"
        model = network(f"{X} y = {node}", "float[N,3,6,6] x", y, axes=[2, 3], **SIZES)
        assert tail(aggregated(model, exact=False, integer=False))[-1] == "Mul"

    @pytest.mark.parametrize("opset", [9, 11, 12])
    def test_older_operator_sets(self, scales: Scales, opset: int):
        body = (
            f"{X} v = {quant('w', 't', 3)} c = Conv<kernel_shape=[3,3]>(q, v)"
            " n = BatchNormalization(c, gamma, beta, mean, variance) f = Flatten(n) y = Relu(f)"
        )
        model = network(
            body,
            PIXELS,
            "float[2,32] y",
            opset=opset,
            w=numbers(2, 3, 3, 3),
            gamma=[1.0, -2.0],
            beta=[0.0, 0.5],
            mean=[0.5, 0.0],
            variance=[1.0, 0.25],
            **scales.named,
        )
        assert tail(aggregated(model, exact=False)) == ["Conv", "Flatten", "Mul", "Add", "Relu"]

    @pytest.mark.parametrize("node", ["ReduceMean<axes=[2,3]>(q)", "ReduceSum<axes=[2,3]>(q)", "GlobalAveragePool(q)"])
    def test_older_averages(self, node: str):
        model = network(f"{X} y = {node}", PIXELS, "float[2,3,1,1] y", opset=11, **SIZES)
        aggregated(model, exact=False, integer=False)

    def test_bodies_of_control_flow_are_left_alone(self):
        body = (
            f"{X} v = {quant('w', 't', 3)} y = If<then_branch = t1 () => (float[2,3] a) {{ a = MatMul(q, v) }},"
            " else_branch = t2 () => (float[2,3] b) { n = Neg(q) b = MatMul(n, v) }>(flag)"
        )
        model = network(body, "float[2,4] x, bool flag", w=numbers(4, 3), **SIZES)
        after = onnx_passes.apply(model, AGGREGATE).model
        assert [node.op_type for node in after.graph][-2:] == ["Mul", "If"]
        for flag in (True, False):
            feeds = [{"x": numbers(2, 4, size=2.0), "flag": np.array(flag)}]
            assert_same(model, after, exact=True, feeds=feeds)

    def test_parameters_that_a_caller_may_set_are_no_constants(self):
        body = f"{X} v = {quant('w', 't', 3)} a = MatMul(q, v) y = Mul(a, factor)"
        model = network(
            body, "float[2,4] x, float[1] factor", w=numbers(4, 3), before="float[1] factor = {2.0}", **SIZES
        )
        after = aggregated(model, exact=True)
        feeds = [{"x": numbers(2, 4), "factor": np.array([3.0], np.float32)}]
        assert_same(model, after, exact=True, feeds=feeds)

    def test_nothing_changes_without_quantizers(self):
        model = network("a = MatMul(x, w) b = Relu(a) y = Mul(b, two)", w=numbers(4, 3), two=2.0)
        onnx_passes.apply(model, "shape-inference", in_place=True)
        assert not apply(AggregateScales(), model)

    def test_a_refusal_leaves_nothing_behind(self):
        """Constants were made for a product before its scales were found to vary."""
        each = [[0.5], [0.25], [1.0], [2.0]]
        model = network(f"{X} v = {quant('w', 'each', 3)} y = MatMul(q, v)", w=numbers(4, 3), each=each, s=1.0)
        onnx_passes.apply(model, "shape-inference", in_place=True)
        before = full_hash(model)
        assert not apply(AggregateScales(), model)
        assert full_hash(model) == before

    def test_double_precision_is_left_alone(self):
        body = f"{X} d = Cast<to=11>(q) y = MatMul(d, w)"
        model = network(body, y="double[2,3] y", before=f"double[4,3] w = {{{', '.join(['0.5'] * 12)}}}", **SIZES)
        aggregated(model, exact=True, integer=False)

    def test_integers_of_the_annotation_are_taken_as_such(self):
        model = network(f"v = {quant('w', 't', 3)} y = MatMul(x, v)", w=numbers(4, 3), **SIZES)
        set_datatype(model.graph.inputs[0], parse("INT4"))
        after = onnx_passes.apply(model, AGGREGATE).model
        assert operators(after.graph) == ["MatMul", "Mul"]
        assert_same(model, after, exact=True, feeds=[{"x": np.arange(-4, 4, dtype=np.float32).reshape(2, 4)}])
