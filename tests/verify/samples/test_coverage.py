"""Coverage says which signs, sides of boundaries and branches the samples of a run brought about."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import apply
from onnx_passes.check.verification import Verification
from onnx_passes.core.coverage import Coverage
from onnx_passes.verify.samples.coverage import coverage_of
from tests.planted.exchanges import exchange
from tests.planted.planting import text


def seen(body: str, sample: list[float], constants: str = "", inputs: str = "float[N] x") -> Coverage:
    model = ir.from_onnx_text(text(inputs, "float[] y", body, initializers=constants))
    x = model.graph.inputs[0]
    array = np.array(sample, np.float32)
    return coverage_of(model, lambda value: [array] if value is x else None)


def test_signs_and_zeros_of_inputs_are_counted():
    one = Coverage(inputs=1, negative=1, positive=1)
    assert seen("y = Sin(x)", [-1, 2, np.nan]) == one
    assert seen("y = Sin(x)", [0, 0]) == Coverage(inputs=1, zero=1)
    assert seen("v = Sin(x) y = Cos(v)", [1]) == Coverage(inputs=2, positive=1)


def test_sides_of_boundaries_are_counted():
    limit = "float limit = {2.5}"
    body = "b = Less(x, limit) y = Cast<to=1>(b)"
    found = [seen(body, sample, limit) for sample in ([1.0], [2.5], [3.0], [1.0, 2.5, 3.0])]
    sides = [(coverage.boundaries, coverage.below, coverage.at, coverage.above) for coverage in found]
    assert sides == [(1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 1, 1, 1)]


def test_sides_of_boundaries_of_channels_are_counted():
    limits = "float[2] limits = {1.0, 5.0}"
    body = "b = Greater(x, limits) y = Cast<to=1>(b)"
    assert seen(body, [[2.0, 4.0]], limits, "float[N,2] x") == Coverage(  # type: ignore[list-item]
        inputs=2, positive=1, boundaries=1, below=1, above=1
    )


def test_only_a_part_of_large_arrays_is_looked_at():
    many = [1.0] * 100_000 + [-1.0]
    assert seen("y = Sin(x)", many) == Coverage(inputs=1, positive=1)


def test_words_and_data_leave_out_what_there_is_none_of():
    coverage = Coverage(inputs=3, negative=1, zero=2, positive=3)
    assert coverage.to_json() == {"inputs": {"count": 3, "negative": 1, "zero": 2, "positive": 3}}
    assert str(coverage) == "inputs of elementwise operators: 1 negative, 2 zero, 3 positive of 3"
    assert str(coverage.with_branches(4, 3, 1)).endswith("; branches: 3 taken, 1 run alone of 4")


def test_a_verified_run_reports_its_coverage():
    pair = exchange("right", "w = Relu(v)", "n = Relu(v) w = Relu(n)")
    record = apply(pair.right(), pair.pass_class(), verify=Verification(prove=False)).record
    assert record.coverage == Coverage(inputs=3, negative=2, zero=3, positive=3)
    assert record.to_json()["coverage"] == record.coverage.to_json()
    assert "coverage" not in apply(pair.right(), pair.pass_class(), verify=False).record.to_json()


def test_a_verified_run_reports_its_branches():
    branches = "then_branch = t () => (float[4] p) { p = Neg(x) }, else_branch = e () => (float[4] q) { q = Abs(x) }"
    body = f"n = Relu(x) s = ReduceMin<keepdims=0>(n) c = Less(s, zero) z = If (c) <{branches}> @ y = Neg(w)"
    pair = exchange(
        "right", "w = Relu(z)", "m = Relu(z) w = Relu(m)", body, inputs="float[4] x", constants="float zero = {0.0}"
    )
    coverage = apply(pair.right(), pair.pass_class(), verify=Verification(prove=False)).record.coverage
    assert coverage is not None
    assert (coverage.branches, coverage.taken, coverage.alone) == (2, 1, 1)
