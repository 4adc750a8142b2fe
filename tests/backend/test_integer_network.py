"""The layers of a network say all that is needed to compute it, in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings

import onnx_passes
from onnx_passes import IntegerNetwork, examples, integer_network
from onnx_passes.backend.network import Edge
from onnx_passes.verify.samples.generate import generate
from tests.backend.interpreter import interpret
from tests.helpers.small_models import files
from tests.passes.streamline.networks import networks
from tests.passes.streamline.tools import DOMAIN, network, numbers, quant
from tests.passes.tools import model_of

RESIDUAL = f"""
g (float[N,2] x) => (float[N,2] y)
<float[1,3] t = {{-0.5, 0.5, 1.5}}, float[2,2] w = {{1, -2, 3, 1}}, float[1,1] s = {{0.25}}, float[1,2] b = {{1, -1}}>
{{
    [head] q = {DOMAIN}.MultiThreshold<out_bias=-1.0>(x, t)
    [fc] a = MatMul(q, w)
    [join] j = Add(q, a)
    [turn] r = Reshape(j, shape)
    [last] m = Mul(r, s)
    [bias] y = Add(m, b)
}}
"""


@pytest.fixture
def residual() -> IntegerNetwork:
    text = RESIDUAL.replace("<float[1,3]", "<int64[2] shape = {-1, 2}, float[1,3]")
    return integer_network(model_of(text, domains=f'"{DOMAIN}" : 1'))


def assert_computes_the_same(found: IntegerNetwork, samples: int = 2) -> None:
    """Interpret the layers, and run the model that they come from."""
    assert found.model is not None
    for sample in generate(found.model, samples=samples):
        expected = onnx_passes.run_model(found.model, sample)
        computed = interpret(found, sample, found.model.opset_imports)
        assert expected.keys() == computed.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(computed[name], array)


class TestLayers:
    def test_kinds_and_nodes_in_order(self, residual: IntegerNetwork):
        assert [layer.kind for layer in residual.layers] == ["threshold", "product", "add", "movement", "scale"]
        assert [layer.name for layer in residual.layers] == ["head", "fc", "join", "turn", "last"]
        assert [[node.name for node in layer.nodes] for layer in residual.layers][-2:] == [["turn"], ["last", "bias"]]
        assert residual.model is not None
        assert residual["fc"].nodes[0] in residual.model.graph

    def test_weights_thresholds_and_scales(self, residual: IntegerNetwork):
        weight, thresholds = residual["fc"].weight, residual["head"].thresholds
        assert weight is not None
        assert weight.values is not None
        assert (weight.values.dtype, str(weight.type), weight.container) == (np.int8, "INT3", "int8_t")
        assert weight.values.tolist() == [[1, -2], [3, 1]]
        assert thresholds is not None
        assert thresholds.shape == (1, 1, 3)
        levels = residual["head"].levels
        assert levels is not None
        assert levels.values is not None
        assert levels.values.reshape(-1).tolist() == [-1, 0, 1, 2]
        scale, bias = residual["last"].scale, residual["last"].bias
        assert scale is not None
        assert bias is not None
        assert (float(scale.high), float(bias.low)) == (0.25, -1.0)

    def test_nobody_changes_its_numbers(self, residual: IntegerNetwork):
        weight = residual["fc"].weight
        assert weight is not None
        assert weight.values is not None
        with pytest.raises(ValueError, match="read-only"):
            weight.values[0, 0] = 7
        assert residual.model is not None
        assert residual.model.graph.initializers["w"].const_value is not None
        assert residual.model.graph.initializers["w"].const_value.numpy()[0, 0] == 1

    def test_types_and_ranges_of_channels(self, residual: IntegerNetwork):
        (q,), (a,), (j,) = (residual[name].outputs for name in ("head", "fc", "join"))
        assert [str(tensor.type) for tensor in (q, a, j)] == ["INT3", "INT5", "INT5"]
        assert (a.low.tolist(), a.high.tolist()) == ([[-4, -5]], [[8, 4]])
        assert a.bounds == (-5, 8)
        assert a.shape == ("N", 2)

    def test_accumulators_hold_sums_in_any_order(self, residual: IntegerNetwork):
        """The first column adds up 2 + 6, or 2 * -2 and then 1."""
        assert str(residual["fc"].accumulator) == "INT5"
        assert residual["fc"].accumulator_container == "int8_t"

    def test_partial_sums_may_be_wider_than_the_result(self):
        text = "g (float[1,2] x) => (float[1,1] y) <float[1,1] t = {0.5}, float[2,1] w = {100, -100}, int64[1] d = {1}>"
        text += f" {{ q = {DOMAIN}.MultiThreshold(x, t) o = ReduceMax<keepdims=1>(q, d)"
        text += " z = Concat<axis=1>(o, o) y = MatMul(z, w) }"
        (layer,) = [each for each in integer_network(model_of(text, domains=f'"{DOMAIN}" : 1')).layers if each.weight]
        assert layer.accumulator is not None
        assert layer.accumulator.allowed(np.array([-100, 100])).all()

    def test_edges(self, residual: IntegerNetwork):
        assert Edge("", "x", "head") in residual.edges
        assert {Edge("head", "q", "fc"), Edge("head", "q", "join"), Edge("fc", "a", "join")} < set(residual.edges)
        assert residual.edges[-1] == Edge("last", "y", "")

    def test_thresholds_of_integers_are_integers_within_reach(self):
        text = "g (float[1,2] x) => (float[1,2] y) <float[1,2] t = {0.5, 1.5}, float[2,2] u = {-90, 0.5, 1.25, 90}>"
        text += f" {{ q = {DOMAIN}.MultiThreshold(x, t) y = {DOMAIN}.MultiThreshold(q, u) }}"
        found = integer_network(model_of(text, domains=f'"{DOMAIN}" : 1'))
        thresholds = found.layers[1].thresholds
        assert thresholds is not None
        assert thresholds.values is not None
        assert thresholds.values.tolist() == [[[0, 1], [2, 3]]]
        assert str(thresholds.type) == "UINT2"
        assert_computes_the_same(found)

    def test_attributes_are_complete_and_padding_is_in_numbers(self):
        text = (
            "g (float[1,1,5,5] x) => (float[1,1,5,5] y) <float[1,1] t = {0.5}, float[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}>"
        )
        text += f' {{ q = {DOMAIN}.MultiThreshold(x, t) y = Conv<auto_pad="SAME_UPPER">(q, w) }}'
        conv = integer_network(model_of(text, domains=f'"{DOMAIN}" : 1')).layers[1]
        assert conv.attributes["pads"] == (1, 1, 1, 1)
        assert conv.attributes["strides"] == conv.attributes["dilations"] == (1, 1)
        assert (conv.attributes["group"], conv.attributes["kernel_shape"]) == (1, (3, 3))

    def test_what_is_in_floats_says_why(self):
        body = f"v = {quant('w', 't', 3)} q = {quant('x', 's')} r = Softmax(q) n = {quant('r', 's')} y = MatMul(n, v)"
        found = integer_network(network(body, w=numbers(4, 3), s=0.5, t=0.25))
        (layer,) = found.floats
        assert layer.operator == "Softmax"
        assert "no scaled-integer rule for Softmax" in layer.reason
        assert layer.reason in str(found)
        assert_computes_the_same(found)

    def test_what_comes_before_the_first_quantizer_and_behind_the_last_layer(self):
        body = f"v = {quant('w', 't', 3)} h = Relu(x) q = {quant('h', 's')} a = MatMul(q, v) y = Sigmoid(a)"
        found = integer_network(network(body, w=numbers(4, 3), s=0.3, t=0.25))
        reasons = {layer.operator: layer.reason for layer in found.floats}
        assert set(reasons) <= {"Relu", "Sigmoid"}
        assert "no quantizer follows" in reasons["Sigmoid"]

    def test_a_constant_output_keeps_its_name(self):
        text = "g (float[1,2] x) => (float[1,2] y, float[2,2] w) <float[1,1] t = {0.5}, float[2,2] w = {1, 2, 3, 4}>"
        found = integer_network(
            model_of(text + f" {{ q = {DOMAIN}.MultiThreshold(x, t) y = MatMul(q, w) }}", domains=f'"{DOMAIN}" : 1')
        )
        assert [tensor.name for tensor in found.outputs] == ["y", "w"]
        assert_computes_the_same(found)


class TestStreamlining:
    def test_a_model_with_scales_is_streamlined(self):
        model = network(
            f"v = {quant('w', 't', 3)} q = {quant('x', 's')} y = MatMul(q, v)", w=numbers(4, 3), s=0.5, t=0.25
        )
        assert [layer.kind for layer in integer_network(model).layers] == ["threshold", "product", "scale"]
        as_it_is = integer_network(model, streamline=False)
        assert "float" in [layer.kind for layer in as_it_is.layers]
        assert len(model.graph) == 3

    def test_a_streamlined_model_is_taken_as_it_is(self, residual: IntegerNetwork):
        assert residual.model is not None
        again = integer_network(residual.model)
        assert again == residual


@pytest.mark.parametrize("name", examples.NAMES)
def test_examples_in_integers(name: str):
    found = integer_network(examples.path(name))
    assert not found.floats
    assert_computes_the_same(found)


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(networks(dyadic=False))
def test_random_networks(model: ir.Model):
    assert_computes_the_same(integer_network(model, verify=False))


def is_quick(path: Path) -> bool:
    """Leave out the same networks in another form, and a hundred million products."""
    return not path.stem.endswith(("__dynamo", "__dynbatch")) and path.stem != "mobilenet_v1_w025_4w4a"


@pytest.mark.parametrize("path", files("zoo", "brevitas", "ort-quantized", every=5, keep=is_quick), indirect=True)
def test_networks_in_integers(path: Path, tmp_path: Path):
    found = integer_network(path, verify=False)
    assert all(layer.reason for layer in found.floats)
    assert_computes_the_same(found, samples=1)
    found.save(tmp_path / "layers")
    assert IntegerNetwork.load(tmp_path / "layers") == found
