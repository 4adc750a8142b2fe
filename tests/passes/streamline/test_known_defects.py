"""Networks that other streamliners get wrong, refuse or crash on; each line says how."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of
from tests.passes.streamline.tools import (
    DOMAIN,
    Streamed,
    assert_integer_products,
    assert_same,
    interior,
    network,
    numbers,
    quant,
    run,
    samples,
    streamline,
)
from tests.passes.tools import operators

X = f"q = {quant('x', 's')}"
W = f"v = {quant('w', 't', 3)}"
PIXELS = "float[1,3,6,6] x"
SIZES = {"s": 0.25, "t": 0.5, "u": 0.125}
QUARTERS = np.arange(-3, 3) / 4


def whole(model: ir.Model, *, exact: bool = True) -> Streamed:
    """Streamline a network; all of its products are of integers then."""
    done = streamline(model, exact=exact)
    assert_integer_products(done.model)
    return done


def thresholds(model: ir.Model) -> list[np.ndarray]:
    """Return the thresholds of a network."""
    return [np.asarray(constant(node.inputs[1])) for node in model.graph if node.op_type == "MultiThreshold"]


class TestWrongResults:
    def test_scale_before_a_convolution_with_bias(self):
        """The bias was multiplied with the scale."""
        body = f"{X} {W} y = Conv(q, v, c)"
        whole(network(body, PIXELS, "float[1,6,4,4] y", w=numbers(6, 3, 3, 3), c=QUARTERS, **SIZES))

    def test_addition_before_a_convolution_with_bias(self):
        """The bias was added twice."""
        body = f"{X} a = Add(q, half) {W} y = Conv(a, v, c)"
        whole(network(body, PIXELS, "float[1,6,4,4] y", w=numbers(6, 3, 3, 3), c=QUARTERS, half=0.5, **SIZES))

    def test_values_of_top_k(self):
        """A scale was dropped as if only indices were used."""
        body = f"{X} {W} a = MatMul(q, v) y, i = TopK(a, two)"
        model = network(body, y="float[2,2] y, int64[2,2] i", w=numbers(4, 3), two=[2], **SIZES)
        done = streamline(model, exact=True)
        assert operators(done.model.graph)[-1] == "TopK"

    def test_join_of_different_transpositions(self):
        """Both branches were taken to have the same permutation."""
        body = f"{X} a = Transpose<perm=[0,2,1]>(q) b = Transpose<perm=[2,0,1]>(q) c = Add(a, b) {W} y = MatMul(c, v)"
        whole(network(body, "float[3,3,3] x", "float[3,3,3] y", w=numbers(3, 3), **SIZES))

    def test_join_of_biases_of_channels(self):
        """Biases were summed up over all channels."""
        body = f"{X} r = {quant('z', 's')} a = Add(q, b1) b = Add(r, b2) c = Add(a, b) {W} y = MatMul(c, v)"
        model = network(
            body,
            "float[2,4] x, float[2,4] z",
            w=numbers(4, 3),
            b1=[0.25, 0.5, 1.0, -1.0],
            b2=[1.0, -2.0, 0.5, 0.75],
            **SIZES,
        )
        whole(model)

    def test_division_of_integers(self):
        """It became a product with 1/n, which is 0 for integers."""
        body = f"d = Div(i, two) f = Cast<to=1>(d) {X} a = Add(q, f) y = Identity(a) y2 = Identity(d)"
        model = network(body, "float[2,4] x, int64[4] i", "float[2,4] y, int64[4] y2", two=2, **SIZES)
        after = onnx_passes.apply(model, "streamline").model
        feeds = [{"x": numbers(2, 4), "i": np.array([-3, 1, 4, 7])}]
        assert_same(model, after, exact=True, feeds=feeds)

    def test_small_bias(self):
        """An addition of 9e-6 was taken for none."""
        body = f"{X} a = Add(q, tiny) y = Identity(a)"
        model = network(body, y="float[2,4] y", tiny=9e-6, s=2.0**-20)
        done = streamline(model, exact=True, step=2.0**-20)
        assert np.any(run(done.model, [{"x": np.zeros((2, 4), np.float32)}])[0][0] == np.float32(9e-6))

    @pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 1)])
    def test_shared_weights_of_which_one_is_transposed(self, shape: tuple[int, ...]):
        """The transposition went into the weights of both, and scales of rank 1 were transposed wrongly."""
        scale = np.resize([0.5, 0.25, 1.0, 2.0], shape)
        body = (
            f"{X} v = {quant('w', 'each', 3)} a = MatMul(q, v) p = Transpose<perm=[1,0]>(v)"
            f" n = {quant('a', 'u')} y = MatMul(n, p)"
        )
        model = network(body, y="float[2,4] y", w=numbers(4, 4), each=scale, **SIZES)
        streamline(model, exact=True, whole=scale.size == 1)

    def test_padding_with_a_value(self):
        """A scale moved past Pad, and what was padded with was scaled too."""
        body = f"{X} p = Pad(q, pads, one) {W} y = Conv(p, v)"
        model = network(
            body, PIXELS, "float[1,2,6,6] y", pads=[0, 0, 1, 1, 0, 0, 1, 1], one=1.0, w=numbers(2, 3, 3, 3), **SIZES
        )
        done = whole(model)
        assert "Pad" in done.operators

    def test_weights_rounded_down(self):
        """The rounding mode of quantizers was ignored."""
        body = f'{X} v = {DOMAIN}.Quant<signed=1, narrow=0, rounding_mode="FLOOR">(w, t, zero, bits3) y = MatMul(q, v)'
        done = whole(network(body, w=numbers(4, 3), **SIZES))
        (product,) = [node for node in done.model.graph if node.op_type == "MatMul"]
        np.testing.assert_array_equal(
            constant(product.inputs[1]), np.clip(np.floor(numbers(4, 3) / np.float32(0.5)), -4, 3)
        )

    def test_ties(self):
        """Quantizers round half to even; of thresholds at half a step a quarter of the inputs came out wrong."""
        body = f"{X} {W} a = MatMul(q, v) n = {quant('a', 't', 3)} v2 = {quant('w2', 't', 3)} y = MatMul(n, v2)"
        model = network(body, y="float[2,2] y", w=np.rint(numbers(4, 3)) / 2, w2=numbers(3, 2), s=0.25, t=0.5)
        done = whole(model)
        random = np.random.default_rng(3)
        feeds = [{"x": (random.integers(-9, 9, (2, 4)) / 8).astype(np.float32)} for _ in range(40)]
        assert_same(model, done.model, exact=True, feeds=feeds)

    def test_same_upper_with_stride(self):
        """Padding was put on the wrong side."""
        body = f'{X} {W} y = Conv<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER">(q, v)'
        whole(network(body, PIXELS, "float[1,2,3,3] y", w=numbers(2, 3, 3, 3), **SIZES))

    def test_axis_of_gather(self):
        """The axis was dropped when a scale moved past Gather."""
        body = f"{X} g = Gather<axis=1>(q, picks) {W} y = MatMul(g, v)"
        whole(network(body, "float[4,4] x", "float[4,3] y", picks=[3, 0], w=numbers(2, 3), **SIZES))

    def test_part_of_a_shape(self):
        """Start and end of Shape were dropped."""
        body = f"{X} d = Shape<start=1, end=2>(q) n = Concat<axis=0>(minus, d) r = Reshape(q, n) {W} y = MatMul(r, v)"
        whole(network(body, "float[2,3,4] x", "float[8,2] y", minus=[-1], w=numbers(3, 2), **SIZES))

    def test_half_precision(self):
        """A division by a small number became a product with its reciprocal, which is infinite there."""
        body = f"{X} h = Cast<to=10>(q) m = Mul(h, small) y = Div(m, tiny)"
        halves = "float16 tiny = {1}, float16 small = {1}"
        model = network(body, y="float16[2,4] y", before=halves, **SIZES)
        for name, number in (("tiny", 2.0**-17), ("small", 2.0**-13)):
            model.graph.initializers[name].const_value = ir.Tensor(np.array(number, np.float16))
        done = streamline(model, exact=True)
        assert all(np.isfinite(result).all() for results in run(done.model, samples(model)) for result in results)

    def test_annotations_hold(self):
        """Data types stayed on parameters that had been multiplied, and the result could not be executed."""
        body = (
            f"{X} {W} a = MatMul(q, v) b = Add(a, c) r = Relu(b) n = {quant('r', 'u', 4, signed=0)}"
            f" v2 = {quant('w2', 't', 3)} o = MatMul(n, v2) y = Mul(o, third)"
        )
        model = network(body, y="float[2,2] y", w=numbers(4, 3), w2=numbers(3, 2), c=numbers(3), third=1 / 3, **SIZES)
        done = streamline(model, exact=False)
        declared = {
            value: datatype_of(value) for node in done.model.graph for value in (*node.inputs, *node.outputs) if value
        }
        typed = [value for value, datatype in declared.items() if datatype is not None and datatype.is_integer]
        assert typed
        computed = [value for value in typed if constant(value) is None]
        arrays = [[np.asarray(constant(value))] for value in typed if constant(value) is not None]
        for value, found in [
            *zip(computed, interior(done.model, computed), strict=True),
            *zip([value for value in typed if constant(value) is not None], arrays, strict=True),
        ]:
            datatype = declared[value]
            assert datatype is not None
            for array in found:
                np.testing.assert_array_equal(array, np.rint(array))
                assert datatype.min <= array.min()
                assert array.max() <= datatype.max


class TestInvalidModels:
    def test_addition_of_zeros_that_makes_a_tensor_larger(self):
        """It was removed, and with it the larger shape."""
        body = f"{X} a = Add(q, zeros) y = Identity(a)"
        model = network(body, "float[1,4] x", "float[3,4] y", zeros=np.zeros((3, 1)), **SIZES)
        streamline(model, exact=True)

    @pytest.mark.parametrize("batch", [2, "N"])
    def test_other_batches_than_one(self, batch: int | str):
        """Convolutions were taken to a batch of 1."""
        body = f"{X} {W} c = Conv(q, v) r = Relu(c) n = {quant('r', 'u', 2, signed=0)} y = GlobalAveragePool(n)"
        model = network(body, f"float[{batch},3,6,6] x", f"float[{batch},4,1,1] y", w=numbers(4, 3, 3, 3), **SIZES)
        whole(model)

    def test_inputs_keep_their_names_and_order(self):
        """Inputs were renamed, and permuted."""
        body = f"q = {quant('zebra', 's')} r = {quant('ape', 's')} {W} a = Add(q, r) y = MatMul(a, v)"
        model = network(body, "float[2,4] zebra, float[2,4] ape", w=numbers(4, 3), **SIZES)
        assert [value.name for value in whole(model).model.graph.inputs] == ["zebra", "ape"]


class TestCrashes:
    def test_convolution_without_pads(self):
        """The attribute was read without a default."""
        body = f"{X} a = Add(q, half) {W} y = Conv(a, v)"
        whole(network(body, PIXELS, "float[1,2,4,4] y", w=numbers(2, 3, 3, 3), half=0.25, **SIZES))

    def test_join_of_equal_scales_of_channels(self):
        """Arrays were compared as if they were numbers."""
        scale = np.array([0.25, 0.5, 1.0]).reshape(1, 3, 1, 1)
        body = f"q = {quant('x', 'each')} r = {quant('z', 'each', 3)} a = Add(q, r) {W} y = Conv<group=3>(a, v)"
        x = f"{PIXELS}, float[1,3,6,6] z"
        whole(network(body, x, "float[1,3,4,4] y", each=scale, w=numbers(3, 1, 3, 3), **SIZES))

    def test_fork_that_is_an_output(self):
        """A fork was expected to have two consumers."""
        body = f"{X} {W} y = MatMul(q, v)"
        whole(network(body, y="float[2,4] q, float[2,3] y", w=numbers(4, 3), **SIZES))

    def test_transpositions_around_an_output(self):
        """What lies between inverse transpositions was expected to be inside."""
        body = f"{X} a = Transpose<perm=[1,0]>(q) b = Transpose<perm=[1,0]>(a) {W} y = MatMul(b, v)"
        whole(network(body, y="float[4,2] a, float[2,3] y", w=numbers(4, 3), **SIZES))

    def test_product_of_two_inputs(self):
        """A parameter was expected in every product."""
        body = f"m = Mul(x, z) q = {quant('m', 's')} {W} y = MatMul(q, v)"
        whole(network(body, "float[2,4] x, float[2,4] z", w=numbers(4, 3), **SIZES))

    def test_product_of_two_quantized_inputs(self):
        """And here, where the product is one of integers."""
        body = f"{X} r = {quant('z', 't', 3)} m = Mul(q, r) {W} y = MatMul(m, v)"
        whole(network(body, "float[2,4] x, float[2,4] z", w=numbers(4, 3), **SIZES))

    def test_matrix_product_of_two_activations(self):
        """Weights were expected to be constant."""
        body = f"{X} r = {quant('z', 't', 3)} a = Add(r, half) y = MatMul(q, a)"
        whole(network(body, "float[2,4] x, float[4,3] z", half=0.5, **SIZES))

    def test_addition_before_a_product_with_many_matrices(self):
        """Weights were expected to have two dimensions."""
        body = f"{X} a = Add(q, half) {W} y = MatMul(a, v)"
        whole(network(body, "float[2,3,4] x", "float[2,3,5] y", w=numbers(2, 4, 5), half=0.5, **SIZES))

    @pytest.mark.parametrize("bias", [0.5, -0.5, 100.0])
    def test_addition_behind_a_quantizer(self, bias: float):
        """A positive bias was expected to fit into the integers of the quantizer."""
        body = f"{X} a = Add(q, bias) {W} y = MatMul(a, v)"
        whole(network(body, w=numbers(4, 3), bias=bias, **SIZES))

    def test_gemm_without_bias(self):
        """The third input was read without a look."""
        body = f"{X} {W} y = Gemm<transB=1>(q, v)"
        whole(network(body, w=numbers(3, 4), **SIZES))

    def test_groups(self):
        """Only one group or one for each channel were known."""
        body = f"{X} {W} y = Conv<group=2>(q, v)"
        whole(network(body, "float[1,4,6,6] x", "float[1,4,4,4] y", w=numbers(4, 2, 3, 3), **SIZES))

    def test_quantizer_without_attributes(self):
        """They have defaults: signed, not narrow."""
        body = f"q = {DOMAIN}.Quant(x, s, zero, bits4) v = {DOMAIN}.Quant(w, t, zero, bits3) y = MatMul(q, v)"
        whole(network(body, w=numbers(4, 3), **SIZES))

    def test_other_name_of_the_quantizer(self):
        """IntQuant was left as it is."""
        attributes = "<signed=1, narrow=0>"
        body = (
            f"q = {DOMAIN}.IntQuant{attributes}(x, s, zero, bits4) v = {DOMAIN}.IntQuant{attributes}(w, t, zero, bits3)"
        )
        done = whole(network(f"{body} y = MatMul(q, v)", w=numbers(4, 3), **SIZES))
        assert done.operators == ["MultiThreshold", "MatMul", "Mul"]

    def test_inputs_that_are_left_out(self):
        """Optional inputs crashed the clean-up."""
        body = (
            f'{X} c = Clip(q, , top) r = Resize<mode="nearest">(c, , factors) n = {quant("r", "s", 4)}'
            f" {W} y = Conv(n, v)"
        )
        model = network(
            body, PIXELS, "float[1,2,10,10] y", top=0.5, factors=[1.0, 1.0, 2.0, 2.0], w=numbers(2, 3, 3, 3), **SIZES
        )
        whole(model)

    def test_batch_of_any_size(self):
        """Dimensions were expected to be numbers."""
        body = f"{X} {W} a = MatMul(q, v) r = Relu(a) n = {quant('r', 'u', 2, signed=0)} y = MatMul(n, v2) "
        body = body.replace("y =", f"v2 = {quant('w2', 't', 3)} y =")
        whole(network(body, "float[N,4] x", "float[N,2] y", w=numbers(4, 3), w2=numbers(3, 2), **SIZES))

    def test_model_without_its_domain(self):
        """Five of six public networks do not import the domain of their quantizers."""
        model = network(f"{X} {W} y = MatMul(q, v)", w=numbers(4, 3), **SIZES)
        before = network(f"{X} {W} y = MatMul(q, v)", w=numbers(4, 3), **SIZES)
        del model.opset_imports[DOMAIN]
        after = onnx_passes.apply(model, "streamline").model
        assert_same(before, after, exact=True)

    def test_bodies_of_control_flow(self):
        """Nothing may break what If and Loop see from outside."""
        body = (
            f"{X} {W} a = MatMul(q, v) y = If<then_branch = g1 () => (float[2,3] b) {{ b = Relu(a) }},"
            " else_branch = g2 () => (float[2,3] c) { c = Add(a, a) }>(flag)"
        )
        model = network(body, "float[2,4] x, bool flag", w=numbers(4, 3), **SIZES)
        done = onnx_passes.apply(model, "streamline")
        assert done["check-streamlined"].fraction == 1
        for flag in (False, True):
            assert_same(model, done.model, exact=True, feeds=[{"x": numbers(2, 4), "flag": np.array(flag)}])


class TestFloatsThatStayed:
    LAYERS = (
        "{x} {w} a = MatMul(q, v) b = BatchNormalization<epsilon=0.0>(a, gamma, beta, mean, variance) r = Relu(b)"
        " n = {n} y = MatMul(n, v2)"
    )

    def mlp(self, x: str = X, w: str = W, n: str = quant("r", "u", 2, signed=0), **constants: object) -> Streamed:
        v2 = f"v2 = {quant('w2', 't', 3)}"
        body = f"{v2} {self.LAYERS.format(x=x, w=w, n=n)}"
        given = {
            "gamma": [1.0, -0.5, 2.0],
            "beta": [0.25, 0.5, -0.25],
            "mean": [0.5, 0.0, -1.0],
            "variance": [1.0, 1.0, 1.0],
            "w": numbers(4, 3),
            "w2": numbers(3, 2),
            **constants,
        }
        return whole(network(body, y="float[2,2] y", **{**SIZES, **given}))

    def test_scales_of_mixed_sign(self):
        """Trained normalizations have negative factors; none of their scales was absorbed."""
        done = self.mlp()
        assert done.operators == ["MultiThreshold", "MatMul", "MultiThreshold", "MatMul", "Mul"]

    def test_scales_of_weights_by_channel(self):
        """They were folded back into float weights before anything could move them."""
        done = self.mlp(w=f"v = {quant('w', 'each', 3)}", each=[[0.5, 0.25, 1.0]])
        assert done.operators == ["MultiThreshold", "MatMul", "MultiThreshold", "MatMul", "Mul"]

    def test_thresholds_are_integers(self):
        """Thresholds of an integer input stayed floats."""
        _, second = thresholds(self.mlp().model)
        np.testing.assert_array_equal(second, np.rint(second))

    def test_signs_become_thresholds(self):
        """They became Where."""
        none = [0.0, 0.0, 0.0]
        signs = f"q = {DOMAIN}.BipolarQuant(x, s)"
        done = self.mlp(x=signs, n=f"{DOMAIN}.BipolarQuant(b, u)", beta=none, mean=none)
        assert done.operators.count("MultiThreshold") == 2
        assert "Where" not in done.operators

    def test_weights_of_one_bit(self):
        """They became int64."""
        done = self.mlp(w=f"v = {DOMAIN}.BipolarQuant(w, t)")
        first, *_ = [node for node in done.model.graph if node.op_type == "MatMul"]
        held = constant(first.inputs[1])
        assert held is not None
        assert held.dtype == np.float32
        assert set(np.unique(held)) == {-1, 1}
        assert str(datatype_of(first.inputs[1])) == "BIPOLAR"

    def test_scale_before_padding(self):
        """No rule moved a scale past Pad."""
        body = f"{X} p = Pad(q, pads) {W} y = Conv(p, v)"
        model = network(body, PIXELS, "float[1,2,6,6] y", pads=[0, 0, 1, 1, 0, 0, 1, 1], w=numbers(2, 3, 3, 3), **SIZES)
        whole(model)

    def test_zero_points(self):
        """Zero points other than 0 were not supported."""
        done = self.mlp(x=f"q = {quant('x', 's', 4, zero='z', signed=0)}", z=7.0)
        assert done.operators.count("MultiThreshold") == 2

    def test_residual_connection(self):
        """A producer that forks mangled the graph, or left floats behind."""
        body = (
            f"{X} {W} a = Conv<pads=[1,1,1,1]>(q, v) b = Relu(a) m = {quant('b', 's')} c = Add(q, m)"
            f" n = {quant('c', 's')} d = Conv<pads=[1,1,1,1]>(n, v) y = Add(n, d)"
        )
        whole(network(body, PIXELS, "float[1,3,6,6] y", w=numbers(3, 3, 3, 3), **SIZES))

    def test_depthwise_convolution_of_scales_by_channel(self):
        """The default flow left a float scale before each of them."""
        scale = np.array([0.25, 0.5, 1.0]).reshape(1, 3, 1, 1)
        body = f"q = {quant('x', 'each')} {W} d = Conv<group=3>(q, v) n = {quant('d', 's')} y = Conv(n, v2)"
        body = f"v2 = {quant('w2', 't', 3)} {body}"
        model = network(
            body, PIXELS, "float[1,2,4,4] y", each=scale, w=numbers(3, 1, 3, 3), w2=numbers(2, 3, 1, 1), **SIZES
        )
        whole(model)

    def test_attention(self):
        """Products of two activations were not streamlined."""
        body = (
            f"{X} {W} a = MatMul(q, v) k = {quant('a', 'u')} kt = Transpose<perm=[0,2,1]>(k) e = MatMul(k, kt)"
            f" p = Softmax(e) n = {quant('p', 'u', 3, signed=0)} y = MatMul(n, k)"
        )
        model = network(body, "float[1,3,4] x", "float[1,3,4] y", w=numbers(4, 4), **SIZES)
        done = streamline(model, exact=False, whole=False)
        assert done.found.fraction == 1
        assert_integer_products(done.model)
