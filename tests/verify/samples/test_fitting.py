from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.check.verdict import check
from onnx_passes.core.claims import Claim
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.coverage import run_generated
from onnx_passes.verify.samples.generate import Draft, Sampler, Sampling, generate

HEADER = '<ir_version: 10, opset_import: ["": 18]>'
PICKY = (
    HEADER + "g (float[N, 4, T] x, float[4] b) => (y) <float[2, 4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
    " 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[1] last = {-1}>"
    "{ c = Conv <strides = [2], pads = [1, 1]> (x, w) s = Squeeze (c, last) n = Neg (s) y = Neg (n) }"
)
"""Convolutions make room for signals of hundreds of values; Squeeze takes no more than two here."""


def test_axes_without_a_fixed_size():
    model = ir.from_onnx_text(PICKY)
    model.graph.inputs[1].shape = ir.Shape([None])
    assert Sampler(model, Sampling()).axes == {"x": [0, 2], "b": [0]}


def test_samples_are_cut_until_the_model_takes_them():
    model = ir.from_onnx_text(PICKY)
    samples = generate(model)
    ready = Executor().prepare(model)
    with pytest.raises(ExecutionError):
        ready.run_each(samples, all_must_run=False)
    taken, results = run_generated(ready, Draft(samples, Sampler(model, Sampling())), searches=False)
    assert [sample["x"].shape for sample in taken] == [(1, 4, 1), (2, 4, 2)]
    assert all(sample["b"].shape == (4,) for sample in taken)
    assert [result["y"].shape for result in results] == [(1, 2), (2, 2)]
    np.testing.assert_array_equal(taken[0]["x"], samples[0]["x"][:1, :, :1])


def test_samples_that_fit_stay_as_they_are():
    model = ir.from_onnx_text(HEADER + "g (float[N] x) => (float[N] y) { y = Neg (x) }")
    samples = generate(model)
    taken, _ = run_generated(Executor().prepare(model), Draft(samples, Sampler(model, Sampling())), searches=False)
    assert taken == samples


@pytest.mark.parametrize("size", ["N", "3"])
def test_where_no_size_helps_the_first_refusal_is_told(size: str):
    model = ir.from_onnx_text(HEADER + f"g (float[{size}] x) => (y) <int64 i = {{100}}> {{ y = Gather (x, i) }}")
    samples = [{"x": np.zeros(3, np.float32)}]
    with pytest.raises(ExecutionError, match=r"range \[-3,2\]"):
        run_generated(Executor().prepare(model), Draft(samples, Sampler(model, Sampling())), searches=False)


def test_such_models_are_verified():
    model = ir.from_onnx_text(PICKY)
    result = onnx_passes.apply(model, "eliminate-involution")
    assert result.modified
    assert result.record.level == "bits:sampled"
    assert check(Claim("equality"), model, result.model).equal
