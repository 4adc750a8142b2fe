"""Channels that make no difference go, and nothing else changes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.testing import check_pass
from tests.helpers.small_models import named

DOMAIN = "qonnx.custom_op.general"
HEADER = f'<ir_version: 9, opset_import: ["": 18, "{DOMAIN}": 1]>\n'
QUANTIZED = f"q = {DOMAIN}.MultiThreshold(x, t)"


def text(body: str, x: str = "float[N,2] x", y: str = "float[N,2] y", **constants: np.ndarray) -> str:
    """Write a network behind a quantizer to 0 and 1."""
    held = {"t": np.array([[0.5]]), **constants}
    declared = ", ".join(
        f"{'int64' if array.dtype.kind == 'i' else 'float'}[{','.join(map(str, array.shape))}] {name}"
        f" = {{{', '.join(map(str, array.reshape(-1).tolist()))}}}"
        for name, array in held.items()
    )
    layout = "NC" if "4,4" not in x else "NCHW"
    body = body.replace("MultiThreshold(", f'MultiThreshold<data_layout="{layout}">(')
    return f"{HEADER}g ({x}) => ({y}) <{declared}> {{ {QUANTIZED} {body} }}"


def grid(*rows: object) -> np.ndarray:
    return np.array(rows, np.float64)


def image(*rows: object) -> np.ndarray:
    """Return weights of a convolution over single pixels."""
    return grid(*rows)[..., None, None]


def reasons(model: str | ir.Model) -> list[str]:
    """Return why the pass left a model as it is."""
    source = model if isinstance(model, ir.Model) else ir.from_onnx_text(model)
    result = onnx_passes.apply(source, "prune-channels")
    assert not any(step.modified for step in result.steps if step.name == "prune-channels")
    (step,) = [step for step in result.steps if step.name == "prune-channels"]
    return [reason for rule in step.rules for reason in rule.refused]


THRESHOLDS = f"a = MatMul(q, w) b = {DOMAIN}.MultiThreshold(a, u) y = MatMul(b, v)"
W, V = grid([1, 0, -2], [1, 3, 1]), grid([1, 2], [5, -1], [3, 3])


class TestMatrices:
    def test_a_stuck_channel_becomes_a_bias(self):
        before = text(THRESHOLDS, w=W, u=grid([1], [-1], [1]), v=V)
        after = text(
            THRESHOLDS.replace("y = MatMul(b, v)", "c = MatMul(b, v) y = Add(c, k)"),
            w=W[:, [0, 2]],
            u=grid([1], [1]),
            v=V[[0, 2]],
            k=np.array([5.0, -1.0]),
        )
        check_pass(before, "prune-channels", after)

    def test_a_channel_stuck_at_zero_leaves_nothing_behind(self):
        before = text(THRESHOLDS, w=W, u=grid([1], [4], [1]), v=V)
        check_pass(before, "prune-channels", text(THRESHOLDS, w=W[:, [0, 2]], u=grid([1], [1]), v=V[[0, 2]]))

    def test_a_channel_that_meets_zeros_goes(self):
        before = text(THRESHOLDS, w=W, u=grid([1], [2], [1]), v=V * [[1], [1], [0]])
        check_pass(before, "prune-channels", text(THRESHOLDS, w=W[:, :2], u=grid([1], [2]), v=V[:2]))

    def test_thresholds_for_all_channels_stay(self):
        before = text(THRESHOLDS, w=W, u=grid([1]), v=V * [[1], [0], [1]])
        check_pass(before, "prune-channels", text(THRESHOLDS, w=W[:, [0, 2]], u=grid([1]), v=V[[0, 2]]))

    def test_one_channel_stays(self):
        before = text(THRESHOLDS, w=W, u=grid([9], [9], [9]), v=V)
        check_pass(before, "prune-channels", text(THRESHOLDS, w=W[:, :1], u=grid([9]), v=V[:1]))

    def test_what_is_unread_then_goes_too(self):
        """Channel 1 of the first layer only serves channel 0 of the second, which nobody reads."""
        body = f"a = MatMul(q, w) b = {DOMAIN}.MultiThreshold(a, u) c = MatMul(b, v) d = {DOMAIN}.MultiThreshold(c, u)"
        body += " y = MatMul(d, z)"
        w, v, z = grid([1, 2], [1, 1]), grid([1, 2], [1, 0]), grid([0, 0], [3, 4])
        before = text(body, w=w, u=grid([1]), v=v, z=z)
        check_pass(before, "prune-channels", text(body, w=w[:, :1], u=grid([1]), v=v[:1, 1:], z=z[1:]))

    def test_branches_that_join_lose_the_same_channel(self):
        body = f"a = MatMul(q, w) b = {DOMAIN}.MultiThreshold(a, u) c = MatMul(b, s) j = Add(b, c) y = MatMul(j, v)"
        s = grid([1, 0, 0], [0, 0, 1], [0, 0, 1])
        before = text(body, w=W, u=grid([1], [9], [1]), s=s, v=V)
        kept = [0, 2]
        after = text(body, w=W[:, kept], u=grid([1], [1]), s=s[np.ix_(kept, kept)], v=V[kept])
        check_pass(before, "prune-channels", after)

    def test_constants_of_channels_and_of_all_are_told_apart(self):
        body = "a = MatMul(q, w) b = Add(a, k) c = Mul(b, m) d = Relu(c) y = MatMul(d, v)"
        before = text(body, w=W, k=np.array([0.0, -3.0, 2.0]), m=grid([2]), v=V)
        after = text(body, w=W[:, [0, 2]], k=np.array([0.0, 2.0]), m=grid([2]), v=V[[0, 2]])
        check_pass(before, "prune-channels", after)


IMAGE = {"x": "float[N,1,4,4] x", "y": "float[N,2,4,4] y"}
CONV = f"a = Conv(q, w) b = {DOMAIN}.MultiThreshold(a, u) y = Conv<pads=PADS>(b, v)"
CW, CV = image([1], [2], [1]), image([1, 5, 2], [3, -1, 0])


class TestImages:
    def conv(self, *, padded: bool) -> tuple[str, dict[str, str]]:
        size = 6 if padded else 4
        return CONV.replace("PADS", "[1,1,1,1]" if padded else "[0,0,0,0]"), {
            **IMAGE,
            "y": f"float[N,2,{size},{size}] y",
        }

    def test_a_stuck_channel_becomes_a_bias(self):
        body, ports = self.conv(padded=False)
        before = text(body, **ports, w=CW, u=grid([1], [-1], [1]), v=CV)
        after = body.replace("y = Conv", "c = Conv") + " y = Add(c, k)"
        kept, left = [0, 2], image([5], [-1])[:, 0]
        check_pass(before, "prune-channels", text(after, **ports, w=CW[kept], u=grid([1], [1]), v=CV[:, kept], k=left))

    def test_a_bias_that_is_there_takes_it(self):
        body, ports = self.conv(padded=False)
        body = body.replace("(b, v)", "(b, v, k)")
        before = text(body, **ports, w=CW, u=grid([1], [-1], [1]), v=CV, k=np.array([1.0, 2.0]))
        kept = [0, 2]
        after = text(body, **ports, w=CW[kept], u=grid([1], [1]), v=CV[:, kept], k=np.array([6.0, 1.0]))
        check_pass(before, "prune-channels", after)

    def test_thresholds_take_the_sum(self):
        body, ports = self.conv(padded=False)
        body = body.replace("y = Conv", "c = Conv") + f" y = {DOMAIN}.MultiThreshold(c, z)"
        model = ir.from_onnx_text(text(body, **ports, w=CW, u=grid([1], [-1], [1]), v=CV, z=grid([6, 7], [-1, 2])))
        done = onnx_passes.apply(model, "prune-channels, fuse-thresholds").model
        assert [node.op_type for node in done.graph] == ["MultiThreshold", "Conv"] * 2 + ["MultiThreshold"]

    def test_padding_keeps_what_is_not_zero(self):
        body, ports = self.conv(padded=True)
        assert "border of a padded image" in reasons(text(body, **ports, w=CW, u=grid([1], [-1], [1]), v=CV))[0]

    def test_padding_does_not_matter_for_zeros(self):
        body, ports = self.conv(padded=True)
        before = text(body, **ports, w=CW, u=grid([1], [9], [1]), v=CV)
        after = text(body, **ports, w=CW[[0, 2]], u=grid([1], [1]), v=CV[:, [0, 2]])
        check_pass(before, "prune-channels", after)

    def test_pooling_depthwise_convolutions_and_flattening(self):
        body = f"a = Conv(q, w) b = {DOMAIN}.MultiThreshold(a, u) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b)"
        body += " d = Conv<group=GROUP, pads=[1,1,1,1]>(p, e) f = Flatten(d) y = MatMul(f, v)"
        e, v = np.arange(27.0).reshape(3, 1, 3, 3) - 9, np.arange(24.0).reshape(12, 2)
        ports = {"x": IMAGE["x"], "y": "float[N,2] y"}
        before = text(body.replace("GROUP", "3"), **ports, w=CW, u=grid([1], [9], [1]), e=e, v=v)
        kept = [0, 2]
        rows = [0, 1, 2, 3, 8, 9, 10, 11]
        after = text(body.replace("GROUP", "2"), **ports, w=CW[kept], u=grid([1], [1]), e=e[kept], v=v[rows])
        check_pass(before, "prune-channels", after)

    def test_reshape_transpose_and_sums_over_pixels(self):
        body = f"a = Conv(q, w) b = {DOMAIN}.MultiThreshold(a, u) h = Transpose<perm=[0,2,3,1]>(b)"
        body += " s = ReduceSum<keepdims=0>(h, axes) r = Reshape(s, shape) y = MatMul(r, v)"
        ports, v = {"x": IMAGE["x"], "y": "float[N,2] y"}, grid([1, 2], [3, 4], [5, 6])
        held = {"axes": np.array([1, 2])}
        before = text(body, **ports, w=CW, u=grid([1], [9], [1]), v=v, **held, shape=np.array([-1, 3]))
        after = text(body, **ports, w=CW[[0, 2]], u=grid([1], [1]), v=v[[0, 2]], **held, shape=np.array([-1, 2]))
        check_pass(before, "prune-channels", after)


class TestRefusals:
    def test_outputs(self):
        assert reasons(text("y = MatMul(q, w)", w=W[:, :2])) == ["its channels are those of the output 'y'"]

    def test_others_that_have_the_channels(self):
        body = "a = MatMul(q, w) b = Concat<axis=1>(a, a) y = MatMul(b, v)"
        found = reasons(text(body, w=W * [1, 0, 1], v=np.ones((6, 2))))
        assert any("Concat" in reason and "mixes its channels" in reason for reason in found)

    def test_floats(self):
        body = "h = Mul(q, half) a = MatMul(h, w) y = MatMul(a, v)"
        found = reasons(text(body, half=grid([0.3]), w=W * [1, 0, 1], v=V))
        assert any("round differently" in reason for reason in found)

    def test_bodies(self):
        body = "a = MatMul(q, w) c = Relu(a) y = If(flag) <then_branch = yes () => (float[N,2] p) { p = MatMul(c, v) },"
        body += " else_branch = no () => (float[N,2] n) { m = Neg(c) n = MatMul(m, v) }>"
        found = reasons(text(body, x="float[N,2] x, bool flag", w=W * [1, 0, 1], v=V))
        assert "a body reads 'c'" in found

    def test_inputs(self):
        body = "a = MatMul(q, w) b = Add(a, z) c = Relu(b) y = MatMul(c, v)"
        found = reasons(text(body, x="float[N,2] x, float[N,3] z", w=W * [1, 0, 1], v=V))
        assert "its channels are joined with those of 'z'" in found


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_stay_the_same_bit_by_bit(seed: int):
    random = np.random.default_rng(seed)
    sizes = [2, *random.integers(3, 9, 3).tolist(), 2]
    body, constants, last = "", {}, "q"
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        constants[f"w{number}"] = random.integers(-2, 3, (before, after)) * (random.random((before, after)) < 0.5) * 1.0
        constants[f"u{number}"] = np.sort(random.integers(-6, 7, (after, 2)), axis=1) * 1.0
        body += f" a{number} = MatMul({last}, w{number}) b{number} = {DOMAIN}.MultiThreshold(a{number}, u{number})"
        last = f"b{number}"
    constants["z"] = np.eye(2)
    source = ir.from_onnx_text(text(f"{body} y = MatMul({last}, z)", **constants))
    result = onnx_passes.apply(source, "prune-channels")
    x = random.normal(0.5, 1, (200, 2)).astype(np.float32)
    expected, found = (onnx_passes.run_model(model, {"x": x})["y"] for model in (source, result.model))
    np.testing.assert_array_equal(found, expected)
    assert result.modified


MOST = {"zoo/small_pruned": 0.7, "zoo/unsw_nb15-mlp-w2a2": 0.55, "zoo/qkeras_jettagging": 0.99}
"""Which part of its parameters a network keeps at most."""


@pytest.mark.parametrize(("path", "most"), named(MOST), indirect=["path"])
def test_networks_get_smaller(path: Path, most: float):
    before = onnx_passes.apply(path, "streamline").model
    after = onnx_passes.apply(before, "prune-channels")
    assert after.steps[-1].evidence is None or after.steps[-1].evidence.level != "unverified"
    sizes = [sum(value.const_value.size for value in m.graph.initializers.values()) for m in (before, after.model)]
    assert sizes[1] <= most * sizes[0]
