"""Rewrites that are wrong only for some sizes, for large integers, or for one channel of many."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import constant, passes
from tests.planted.planting import Fault, edit, text
from tests.planted.rare import chain, planted

_random = np.random.default_rng(7)


def numbers(count: int) -> str:
    return ", ".join(f"{n:.4f}" for n in _random.normal(size=count))


def sliced(start: int, end: int) -> str:
    return chain(
        "v = Neg(x) w = Slice(v, start, end, axes) y = Neg(w)",
        shape="N,4",
        initializers=f"int64[1] start = {{{start}}}, int64[1] end = {{{end}}}, int64[1] axes = {{0}}",
    )


def whole_numbers(body: str, constants: str, result: str = "int32") -> str:
    return chain(body, dtype="int32", result=result, initializers=constants)


@edit
def drops_the_bias_of_a_channel(model):
    bias = model.graph.initializers["bias"]
    changed = bias.const_value.numpy().copy()
    changed[-1] = 0
    bias.const_value = ir.Tensor(changed, name="bias")


@edit
def moves_a_threshold(model):
    limits = model.graph.initializers["limits"]
    changed = limits.const_value.numpy().copy()
    changed[3] = np.nextafter(changed[3], np.float32(9))
    limits.const_value = ir.Tensor(changed, name="limits")


@edit
def drops_a_bound(model):
    clip = next(node for node in model.graph if node.op_type == "Clip")
    clip.replace_input_with(2, None)


FAULTS: list[Fault] = [
    planted(
        "the first eight of many",
        "size",
        sliced(0, 8),
        lambda self, op, v, start, end, axes: op.Slice(v, start, end, axes),
        lambda self, op, v, start, end, axes: op.Identity(v),
    ),
    planted(
        "the last eight of many",
        "size",
        sliced(-8, 9223372036854775807),
        lambda self, op, v, start, end, axes: op.Slice(v, start, end, axes),
        lambda self, op, v, start, end, axes: op.Identity(v),
    ),
    planted(
        "sizes of two axes exchanged",
        "size",
        chain("v = Neg(x) w = Transpose<perm=[1,0]>(v) y = Neg(w)", shape="N,M"),
        lambda self, op, v: op.Transpose(v),
        lambda self, op, v: op.Reshape(v, op.Concat(op.Shape(v, start=1, end=2), op.Shape(v, start=0, end=1), axis=0)),
    ),
    planted(
        "axes of size one squeezed",
        "size",
        chain("v = Neg(x) w = Reshape(v, shape) y = Neg(w)", shape="N,1,4", initializers="int64[2] shape = {-1, 4}"),
        lambda self, op, v, shape: op.Reshape(v, shape),
        lambda self, op, v, shape: op.Squeeze(v),
    ),
    planted(
        "a mean over eight at most",
        "size",
        chain(
            "v = Neg(x) w = ReduceMean<keepdims=1>(v, axes) y = Neg(w)", shape="N,4", initializers="int64[1] axes = {0}"
        ),
        lambda self, op, v, axes: op.ReduceMean(v, axes),
        lambda self, op, v, axes: op.ReduceMean(
            op.Slice(v, np.array([0]), np.array([7]), np.array([0])), axes, keepdims=1
        ),
        claim=passes.verify.tolerance,
    ),
    planted(
        "cumulated from the start of each eight",
        "size",
        chain("v = Neg(x) w = CumSum(v, axis) y = Neg(w)", shape="2,N", initializers="int64 axis = {1}"),
        lambda self, op, v, axis: op.CumSum(v, axis),
        lambda self, op, v, axis: op.Concat(
            op.CumSum(op.Slice(v, np.array([0]), np.array([5]), np.array([1])), axis),
            op.Add(op.Slice(op.CumSum(v, axis), np.array([5]), np.array([2**62]), np.array([1])), np.float32(1)),
            axis=1,
        ),
        claim=passes.verify.tolerance,
    ),
    planted(
        "division by a shift",
        "integers",
        whole_numbers("v = Neg(x) w = Div(v, two) y = Neg(w)", "int32 two = {2}"),
        lambda self, op, v, two: op.Div(v, two),
        lambda self, op, v, two: op.Cast(op.Floor(op.Div(op.Cast(v, to=11), np.array(2.0))), to=6),
    ),
    planted(
        "remainder with the sign of the dividend",
        "integers",
        whole_numbers("v = Neg(x) w = Mod(v, three) y = Neg(w)", "int32 three = {3}"),
        lambda self, op, v, three: op.Mod(v, three),
        lambda self, op, v, three: op.Mod(v, three, fmod=1),
    ),
    planted(
        "a sum that wraps around",
        "integers",
        whole_numbers(
            "v = Neg(x) a = Add(v, c) w = Greater(a, d) y = Not(w)", "int32 c = {100}, int32 d = {300}", "bool"
        ),
        lambda self, op, v, c, d: op.Greater(op.Add(v, c), d),
        lambda self, op, v, c, d: op.Greater(v, constant(d) - constant(c)),
    ),
    planted(
        "a comparison of integers one off",
        "integers",
        whole_numbers("v = Neg(x) w = Greater(v, c) y = Not(w)", "int32 c = {12345}", "bool"),
        lambda self, op, v, c: op.Greater(v, c),
        lambda self, op, v, c: op.Greater(v, constant(c) + np.int32(1)),
    ),
    planted(
        "bounds of integers",
        "integers",
        whole_numbers("v = Neg(x) w = Clip(v, low, high) y = Neg(w)", "int32 low = {-70000}, int32 high = {70000}"),
        lambda self, op, v, low, high: op.Clip(v, low, high),
        lambda self, op, v, low, high: op.Identity(v),
    ),
    planted(
        "products in float",
        "integers",
        whole_numbers("v = Neg(x) w = Mul(v, c) y = Neg(w)", "int32 c = {3}"),
        lambda self, op, v, c: op.Mul(v, c),
        lambda self, op, v, c: op.Cast(op.Mul(op.Cast(v, to=1), op.Cast(c, to=1)), to=6),
    ),
    planted(
        "small integers that wrap around",
        "integers",
        chain(
            "i = Cast<to=6>(x) s = Add(i, c) w = Cast<to=3>(s) y = Neg(w)", dtype="int8", initializers="int32 c = {5}"
        ),
        lambda self, op, i, c: op.Cast(op.Add(i, c), to=3),
        lambda self, op, i, c: op.Cast(op.Clip(op.Add(i, c), np.int32(-128), np.int32(127)), to=3),
    ),
    planted(
        "padding of one side",
        "window",
        text(
            "float[1,2,H,W] x",
            "float[] y",
            "v = Neg(x) w = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(v) y = Neg(w)",
        ),
        lambda self, op, v: op.AveragePool(v),
        lambda self, op, v: op.AveragePool(v, kernel_shape=[2, 2], strides=[2, 2]),
        claim=passes.verify.tolerance,
    ),
    Fault(
        "bias of one channel dropped",
        drops_the_bias_of_a_channel,
        text(
            "float[1,3,6,6] x",
            "float[] y",
            "v = Conv<pads=[1,1,1,1]>(x, w, bias) y = Relu(v)",
            initializers=f"float[4,3,3,3] w = {{{numbers(108)}}}, float[4] bias = {{0.3, -0.2, 0.5, 0.0003}}",
        ),
        "channel",
    ),
    Fault(
        "one of many limits moved by an ulp",
        moves_a_threshold,
        chain(
            "u = Mul(x, factor) v = Greater(u, limits) y = Not(v)",
            result="bool",
            initializers="float factor = {1.7}, float[8] limits = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}",
        ),
        "comparison",
    ),
    Fault(
        "upper bound lost",
        drops_a_bound,
        chain(
            "v = Add(x, c) w = Clip(v, low, high) y = Neg(w)",
            initializers="float c = {0.5}, float low = {0.0}, float high = {2550.0}",
        ),
        "bound",
    ),
]
