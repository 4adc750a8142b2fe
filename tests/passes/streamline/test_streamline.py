"""Whole networks in integers: small ones, random ones, and real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings

import onnx_passes
from onnx_passes.analysis.streamlined import Streamlined
from onnx_passes.verify.run.execute import Executor
from tests.helpers.small_models import named
from tests.passes.streamline.conftest import Scales
from tests.passes.streamline.networks import networks
from tests.passes.streamline.tools import assert_integer_products, network, numbers, products, quant, streamline
from tests.passes.tools import operators

WEIGHTS = f"v = {quant('w', 't', 3)} v2 = {quant('w2', 't', 3)}"


class TestSmallNetworks:
    def test_perceptron(self, scales: Scales):
        body = (
            f"{WEIGHTS} q = {quant('x', 's')} a = MatMul(q, v) b = Add(a, c) r = Relu(b)"
            f" n = {quant('r', 'u', 2, signed=0)} y = MatMul(n, v2)"
        )
        model = network(
            body, y="float[2,2] y", w=numbers(4, 3), w2=numbers(3, 2), c=[0.25, -0.5, 0.125], **scales.named
        )
        done = streamline(model, exact=scales.exact)
        assert done.operators == ["MultiThreshold", "MatMul", "MultiThreshold", "MatMul", "Mul"]
        assert_integer_products(done.model)
        assert [accumulator.thresholds for accumulator in done.found.accumulators] == [3, None]

    def test_convolutions(self, scales: Scales):
        body = (
            f"{WEIGHTS} q = {quant('x', 's')} a = Conv<pads=[1,1,1,1]>(q, v) r = Relu(a)"
            f" p = MaxPool<kernel_shape=[2,2]>(r) n = {quant('p', 'u', 3, signed=0)} b = Conv(n, v2)"
            " g = GlobalAveragePool(b) y = Flatten(g)"
        )
        model = network(
            body, "float[2,3,6,6] x", "float[2,2] y", w=numbers(4, 3, 3, 3), w2=numbers(2, 4, 3, 3), **scales.named
        )
        done = streamline(model, exact=False)
        assert_integer_products(done.model)

    def test_what_stays_in_floats_is_named(self):
        body = f"{WEIGHTS} q = {quant('x', 's')} r = {quant('z', 't', 3)} a = Add(q, r) y = MatMul(a, v)"
        model = network(body, "float[2,4] x, float[2,4] z", w=numbers(4, 3), w2=numbers(1, 1), s=0.3, t=0.17)
        done = streamline(model, exact=False, whole=False)
        assert done.found.fraction == 0
        assert any("not multiples of one another" in blocker.reason for blocker in done.found.blockers)
        assert any("not multiples of one another" in note for step in done.result.steps for note in step.notes)

    def test_parameters_with_a_default_become_constants(self):
        body = f"v = {quant('w', 't', 3)} q = {quant('x', 's')} y = MatMul(q, v)"
        model = network(body, "float[2,4] x, float s", w=numbers(4, 3), s=0.25, t=0.5)
        result = onnx_passes.apply(model, "streamline")
        assert [value.name for value in result.model.graph.inputs] == ["x"]
        assert operators(result.model.graph) == ["MultiThreshold", "MatMul", "Mul"]

    def test_a_network_without_quantizers_stays_as_it_is(self):
        model = network("a = MatMul(x, w) y = Relu(a)", w=numbers(4, 3))
        result = onnx_passes.apply(model, "streamline")
        assert operators(result.model.graph) == ["MatMul", "Relu"]


def assert_whole_or_explained(found: Streamlined) -> None:
    """What is not of integers has a reason."""
    assert found.fraction == 1 or found.blockers


class TestRandomNetworks:
    @settings(max_examples=12, deadline=None, derandomize=True, database=None)
    @given(networks(dyadic=True))
    def test_of_powers_of_two_stay_exact(self, model: ir.Model):
        assert_whole_or_explained(streamline(model, exact=True, whole=False).found)

    @settings(max_examples=12, deadline=None, derandomize=True, database=None)
    @given(networks(dyadic=False))
    def test_stay_close(self, model: ir.Model):
        done = streamline(model, exact=False, whole=False)
        assert_whole_or_explained(done.found)
        if done.found.fraction == 1 and not done.found.head_macs and products(done.model):
            assert_integer_products(done.model)

    def test_two_quantizers_behind_a_channel_that_is_turned_around(self):
        """The second search must not take integers from the range that the accumulator had before."""
        body = f"q = {quant('x', 's', 3)} v = {quant('w', 't', 3, narrow=1)} a = MatMul(q, v) m = Mul(a, minus)"
        body += f" n = {quant('m', 'u', 3, signed=0)} y = {quant('n', 't', 4, signed=0)}"
        w = np.zeros((6, 1), np.float32)
        w[:3] = 2.0
        model = network(body, "float[2,6] x", "float[2,1] y", w=w, s=0.5, t=0.5, u=0.125, minus=-0.25)
        streamline(model, exact=True)


NETWORKS = {
    # Thresholds and a product for each layer, reshapes, scales and pools; 36 products of −1 and 1, 12 of them.
    "zoo/small_tfc_1w1a": (11, [7, 5, 5, 5]),
    "zoo/small_tfc_1w2a": (11, [8, 6, 6, 6]),
    "zoo/small_tfc_2w2a": (11, [8, 6, 6, 6]),
    "zoo/small_keywords": (8, None),
    "brevitas/small_cnv": (14, None),
    "brevitas/small_separable": (12, None),
    "brevitas/small_residual": (24, None),
    "brevitas/small_inception": (18, None),
    "brevitas/small_gemm_dynamic": (8, None),
    "brevitas/small_transformer": (40, None),
    "zoo/TFC_1W1A": (11, [11, 8, 8, 8]),
    "zoo/TFC_1W2A": (11, [11, 8, 8, 8]),
    "zoo/TFC_2W2A": (11, [10, 8, 8, 8]),
    "zoo/kwsmlp_w3a3": (10, [18, 13, 13, 14]),
    "zoo/qkeras_jettagging": (10, [15, 15, 16]),
    "zoo/unsw_nb15-mlp-w2a2": (8, [9, 14, 7, 7]),
    "brevitas/bnnpynq_cnv_2w2a": (31, [13, 10, 10, 11, 11, 12, 9, 10, 10]),
    "brevitas/mobilenet_v1_4w4a_x025_96": (60, None),
    "brevitas/resnet18_w8_4w4a": (61, None),
    "brevitas/inception_concat_w4a4": (37, None),
    "brevitas/mlp_w2a2_bias_nobn__dynbatch": (10, None),
    "brevitas/transformer_bn_relu_w4a4": (110, None),
}
"""How many nodes there may be, as many as FINN leaves where that is known, and bits of accumulators."""


@pytest.mark.parametrize(("path", "limits"), named(NETWORKS), indirect=["path"])
def test_networks_are_whole_and_small(path: Path, limits: tuple[int, list[int] | None]):
    nodes, bits = limits
    result = onnx_passes.apply(str(path), "streamline")
    found = result["check-streamlined"]
    assert found.fraction == 1
    assert len(operators(result.model.graph)) <= nodes
    if bits is not None:
        assert all(sums.bits <= most for sums, most in zip(found.accumulators, bits, strict=True))
    with np.load(path.with_suffix(".npz")) as data:
        arrays = {key: data[key] for key in data.files if "_b1__" in key}
    feeds = {key.removeprefix("in_b1__"): array for key, array in arrays.items() if key.startswith("in")}
    results = Executor().prepare(result.model, engine="onnxruntime").run(feeds)
    for name_of_output, array in results.items():
        wanted = arrays[f"out_b1__{name_of_output}"]
        assert np.abs(array - wanted).max() <= 1e-5 * max(float(np.abs(wanted).max()), 1.0)


NORMALIZED_FIRST = ("brevitas/small_normalized_input", "brevitas/bn_before_after_negative_gamma")


@pytest.mark.parametrize("path", named(NORMALIZED_FIRST), indirect=True)
def test_normalization_before_a_convolution_is_named(path: Path):
    """It gives every input channel a scale of its own; the sum of these is no integer."""
    found = onnx_passes.apply(path, "streamline")["check-streamlined"]
    assert 0 < found.fraction < 1
    assert any("vary along the sum" in blocker.reason for blocker in found.blockers)


@pytest.mark.parametrize("path", named(("zoo/small_fixed_point", "zoo/qkeras_jettagging")), indirect=True)
def test_fixed_point_network_is_exact_on_a_thousand_inputs(path: Path):
    """Thresholds at half a step give another result for a quarter of these inputs."""
    before = onnx_passes.apply(str(path), "import-qonnx, shape-inference").model
    after = onnx_passes.apply(str(path), "streamline").model
    random = np.random.default_rng(0)
    old, new = (Executor().prepare(model, engine="onnxruntime") for model in (before, after))
    name = str(before.graph.inputs[0].name)
    grids = [random.normal(0, 1, (1, 16)) for _ in range(500)]
    grids += [random.integers(-128, 128, (1, 16)) / 64 for _ in range(500)]
    wrong = 0
    for x in grids:
        feeds = {name: x.astype(np.float32)}
        (wanted,), (found,) = old.run(feeds).values(), new.run(feeds).values()
        wrong += bool(np.abs(wanted - found).max() > 1e-6)
    assert wrong == 0
