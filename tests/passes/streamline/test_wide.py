"""Sums that float32 would round: computed exactly, held against integers of 64 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from onnx_passes.analysis.streamlined import streamlined
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.verify.run.execute import Executor
from tests.passes.streamline.tools import AGGREGATE, network, quant
from tests.passes.tools import check


def integers(*shape: int, bits: int) -> np.ndarray:
    """Return odd weights of so many bits, most of them large and of one sign, so that sums are large and odd."""
    random, largest = np.random.default_rng(3), 2 ** (bits - 1) - 1
    return np.where(random.random(shape) < 0.9, largest, 1 - random.integers(0, largest, shape)).astype(np.float32)


def accumulators(model: ir.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what stock ONNX Runtime, with all its optimizations, makes of the doubles that become floats."""
    wanted = [
        node.inputs[0]
        for node in model.graph
        if node.op_type == "Cast" and node.outputs[0].dtype is ir.DataType.FLOAT and node.inputs[0] is not None
    ]
    assert wanted
    onnx_passes.apply(model, "inline-qonnx", verify=False, in_place=True)
    model = model.clone()
    names = {value.name for value in wanted}
    model.graph.outputs[:] = [value for node in model.graph for value in node.outputs if value.name in names]
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def windows(x: np.ndarray, size: int, stride: int, pad: int) -> np.ndarray:
    """Return ``[N, C, KH, KW, OH, OW]``."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    found = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    return found.transpose(0, 1, 4, 5, 2, 3)


def matmul(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x @ w


def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("ncklhw,mckl->nmhw", windows(x, 3, 2, 1), w)


def grouped_conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    found = windows(x, 3, 1, 0)
    n, c, *rest = found.shape
    parts, kernels = found.reshape(n, 2, c // 2, *rest), w.reshape(2, -1, *w.shape[1:])
    return np.einsum("ngcklhw,gmckl->ngmhw", parts, kernels).reshape(n, len(w), *rest[2:])


def transposed_conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    n, _, height, width = x.shape
    result = np.zeros((n, w.shape[1], height + 2, width + 2), np.int64)
    for i in range(3):
        for j in range(3):
            result[:, :, i : i + height, j : j + width] += np.einsum("nchw,cm->nmhw", x, w[:, :, i, j])
    return result


CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "MatMul": ("MatMul(q, v)", (2, 1400), (1400, 3), matmul),
    "Gemm": ("Gemm<transB=1>(q, v)", (2, 1400), (3, 1400), lambda x, w: x @ w.T),
    "Einsum": ('Einsum<equation="ij,jk->ik">(q, v)', (2, 1400), (1400, 3), matmul),
    "Conv": ("Conv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(q, v)", (1, 320, 5, 5), (4, 320, 3, 3), conv),
    "groups": ("Conv<kernel_shape=[3,3], group=2>(q, v)", (1, 400, 4, 4), (6, 200, 3, 3), grouped_conv),
    "ConvTranspose": ("ConvTranspose<kernel_shape=[3,3]>(q, v)", (1, 320, 3, 3), (320, 2, 3, 3), transposed_conv),
}


def wide_network(name: str, *, x_bits: int, w_bits: int, scale: float = 0.3) -> tuple[ir.Model, np.ndarray]:
    """Make a layer of so many bits, with scales, and return its integer weights."""
    node, x, shape, _ = CASES[name]
    w = integers(*shape, bits=w_bits)
    body = f"q = {quant('x', 's', x_bits, signed=0)} v = {quant('w', 't', w_bits)} y = {node}"
    sizes = ",".join(map(str, x))
    rank = len(x)
    model = network(
        body, f"float[{sizes}] x", f"float[{','.join('ABCD'[:rank])}] y", w=w * np.float32(0.5), s=scale, t=0.5
    )
    model.graph.outputs[0].shape = None
    return onnx_passes.apply(model, "shape-inference", in_place=True).model, w.astype(np.int64)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("x_bits", "w_bits"), [(8, 8), (16, 8), (16, 16)])
def test_sums_are_those_of_integers(name: str, x_bits: int, w_bits: int):
    model, w = wide_network(name, x_bits=x_bits, w_bits=w_bits)
    after = onnx_passes.apply(model, AGGREGATE).model
    check(after)
    assert not onnx_passes.apply(after, AGGREGATE, verify=False).modified
    found = streamlined(onnx_passes.apply(after, "shape-inference", verify=False).model)
    assert found.fraction == 1, found.blockers
    _, shape, _, oracle = CASES[name]
    random = np.random.default_rng(5)
    for spread in (0.02, 1.0):
        levels = random.integers(int((1 - spread) * (2**x_bits - 1)), 2**x_bits, shape)
        x = (levels * np.float32(0.3)).astype(np.float32)
        expected = oracle(levels.astype(np.int64), w)
        assert np.abs(expected).max() > 2**24
        assert (expected % 2).any()
        (sums,) = accumulators(after.clone(), {"x": x})
        np.testing.assert_array_equal(sums.astype(np.int64), expected)
        # The product of floats is not that of integers.
        rounded = Executor().prepare(model, engine="onnxruntime").run({"x": x})["y"].astype(np.float64)
        np.testing.assert_allclose(rounded, expected * 0.15, rtol=1e-5, atol=np.abs(expected).max() * 1e-6)


def test_only_what_needs_it_is_of_doubles():
    body = (
        f"q = {quant('x', 's', 8)} v = {quant('w', 't', 8)} a = MatMul(q, v) r = Relu(a) p = {quant('r', 's', 8)}"
        f" u = {quant('z', 't', 8)} y = MatMul(p, u)"
    )
    w, z = integers(1400, 6, bits=8), integers(6, 3, bits=8)
    model = network(body, "float[2,1400] x", "float[2,3] y", w=w * 0.5, z=z * 0.5, s=0.3, t=0.5)
    after = onnx_passes.apply(model, AGGREGATE).model
    first, second = (node for node in after.graph if node.op_type == "MatMul")
    assert (first.outputs[0].dtype, second.outputs[0].dtype) == (ir.DataType.DOUBLE, ir.DataType.FLOAT)


def test_what_follows_is_of_doubles_until_it_is_rounded():
    """A join of two wide sums, and what moves and compares them, is exact too."""
    body = (
        f"q = {quant('x', 's', 8)} v = {quant('w', 't', 8)} a = MatMul(q, v) b = MatMul(q, v) d = Mul(b, three)"
        " c = Add(a, d) e = Relu(c) f = Transpose(e) m = ReduceMax(f, last) y = Mul(m, s)"
    )
    w = integers(1400, 3, bits=8)
    model = network(body, "float[2,1400] x", "float[3,1] y", w=w * 0.5, s=0.25, t=0.5, three=3.0, last=[1])
    after = onnx_passes.apply(model, AGGREGATE).model
    levels = np.random.default_rng(5).integers(100, 128, (2, 1400))
    expected = np.maximum(4 * levels @ w.astype(np.int64), 0).T.max(axis=1, keepdims=True)
    (sums,) = accumulators(after.clone(), {"x": (levels * 0.25).astype(np.float32)})
    np.testing.assert_array_equal(sums.astype(np.int64), expected)


@pytest.mark.parametrize(("largest", "dtype"), [(2**24 - 1, ir.DataType.FLOAT), (2**24, ir.DataType.DOUBLE)])
def test_floats_hold_sums_below_two_to_the_24th(largest: int, dtype: ir.DataType):
    w = np.array([[2.0**20] * 3] * 15 + [[largest - 15 * 2.0**20] * 3], np.float32)
    model = network(f"q = {quant('x', 's', 1, signed=0)} y = MatMul(q, w)", "float[2,16] x", w=w, s=0.3)
    (node,) = [node for node in onnx_passes.apply(model, AGGREGATE).model.graph if node.op_type == "MatMul"]
    assert node.outputs[0].dtype is dtype


def test_sums_beyond_doubles_stay_floats():
    w = np.full((16, 3), 2.0**40, np.float32)
    model = network(f"q = {quant('x', 's', 16)} y = MatMul(q, w)", "float[2,16] x", w=w, s=0.3)
    (node,) = [node for node in onnx_passes.apply(model, AGGREGATE).model.graph if node.op_type == "MatMul"]
    assert node.outputs[0].dtype is ir.DataType.FLOAT


@pytest.mark.parametrize("name", ["MatMul", "Conv"])
def test_streamlined_layers_are_annotated(name: str):
    model, _ = wide_network(name, x_bits=8, w_bits=8)
    result = onnx_passes.apply(model, "streamline")
    assert result["check-streamlined"].fraction == 1
    wide = [value for node in result.model.graph for value in node.outputs if value.dtype is ir.DataType.DOUBLE]
    limits = [datatype for value in wide if (datatype := datatype_of(value)) is not None]
    assert len(limits) == len(wide)
    assert max(datatype.bitwidth for datatype in limits) in (27, 28)
