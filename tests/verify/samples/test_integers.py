"""Integers of inputs reach as far as the model allows, and dynamic dimensions as far as a quick run does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.run.resources import Pace
from onnx_passes.verify.samples.coverage import run_generated, run_samples
from onnx_passes.verify.samples.generate import Sampler, Sampling, affordable_size
from onnx_passes.verify.samples.integers import any_integers, freedom
from tests.planted.planting import text


def model(inputs: str, body: str, *, constants: str = "", opset: int = 20) -> ir.Model:
    return ir.from_onnx_text(text(inputs, "float[] y", body, initializers=constants, opset=opset))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = BitwiseAnd(x, k)", "any"),
        ('y = BitShift<direction="LEFT">(x, k)', "any"),
        ("a = Relu(x) y = Mod(a, k)", "any"),
        ("a = Cast<to=1>(x) b = Floor(a) y = Cast<to=6>(b)", "any"),
        ("a = Cast<to=3>(x) y = Cast<to=7>(a)", "any"),
        ("a = Cast<to=1>(x) y = Exp(a)", "signed"),
        ("a = Div(k, x) y = Neg(a)", "counts"),
        ("a = Div(x, minus) y = Neg(a)", "signed"),
        ("a = Cast<to=1>(x) b = Exp(a) d = Cast<to=7>(b) y = Gather(k, d)", "counts"),
        ("a = Neg(x) y = Range(k, a, k)", "counts"),
        ("y = If (c) <then_branch = t () => (p) { p = Neg(x) }, else_branch = e () => (q) { q = Abs(x) }>", "counts"),
    ],
)
def test_what_is_computed_of_integers_decides_how_far_they_go(body: str, expected: str):
    m = model("uint32[4] x, bool c", body, constants="uint32[1] k = {7}, uint32[1] minus = {0}")
    assert freedom(m, m.graph.inputs[0]) == expected


@pytest.mark.parametrize("dtype", [ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64])
def test_integers_include_some_that_each_narrower_type_does_not_hold(dtype: ir.DataType):
    found = any_integers(dtype)
    info = np.iinfo(dtype.numpy())
    assert set(found[:2]) == {int(info.min), int(info.max)}
    for narrow in (np.int8, np.uint8, np.int16, np.uint16):
        assert any(number > np.iinfo(narrow).max for number in found)
        assert not dtype.is_signed() or any(number < np.iinfo(narrow).min for number in found)
    assert any(int(np.float32(number)) != number for number in found)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_limits_of_integers_are_met_and_passed_by_one(dtype: str):
    m = model(f"{dtype}[9] x", "a = Cast<to=7>(x) y = Less(a, limit)", constants="int64 limit = {101}")
    drawn = Sampler(m, Sampling()).draft(thorough=True).finish()
    assert {100, 101, 102} <= set(np.concatenate([sample["x"] for sample in drawn]).tolist())


def extra(m: ir.Model) -> tuple[int, ...]:
    found = Sampler(m, Sampling()).draft(thorough=True).extra
    assert found is not None
    return found["x"].shape


def test_one_sample_is_large_where_that_is_quick():
    assert extra(model("float[N,M] x", "y = Neg(x)")) == (130, 130)
    assert Sampler(model("float[3,4] x", "y = Neg(x)"), Sampling()).draft(thorough=True).extra is None
    assert Sampler(model("float[N,4] x", "y = Neg(x)"), Sampling(count=3)).draft(thorough=True).extra is None
    assert Sampler(model("float[N,4] x", "y = Neg(x)"), Sampling(sizes={"N": 2})).draft(thorough=True).extra is None


def test_what_computes_much_gets_smaller_samples_or_none():
    sizes = [affordable_size(m, m.graph.inputs) for m in map(_image, (4, 16, 64, 400))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 130
    assert sizes[-1] == 0


def _image(channels: int) -> ir.Model:
    weights = f"float[{channels},3,3,3] w = {{{', '.join(['0.5'] * (channels * 27))}}}"
    return model("float[N,3,16,16] x", "y = Conv(x, w)", constants=weights)


def test_a_large_sample_is_cut_until_the_model_takes_it():
    table = f"float[40] t = {{{', '.join(map(str, range(40)))}}}, int64[1] none = {{0}}"
    m = model("float[N] x", "s = Shape(x) c = Slice(t, none, s) y = Add(x, c)", constants=table)
    samples, results = run_samples(Executor().prepare(m), m, (), 0)
    assert len(samples) == len(results)
    assert samples[-1]["x"].shape == (34,)


def test_the_large_sample_is_left_out_where_it_would_take_long():
    m = model("float[N] x", "y = Neg(x)")
    ready, drawn = Executor().prepare(m), Sampler(m, Sampling()).draft(thorough=True)
    for limit, size in ((0.0, 1), (1e9, 130)):
        pace = Pace(limit)
        taken, _ = run_generated(ready, replace(drawn, samples=drawn.samples[:1], pace=pace))
        assert taken[-1]["x"].shape == (size,)
        # Nobody counted on it.
        assert pace.shortage is None
