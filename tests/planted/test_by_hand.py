"""Faults planted in passes that are written by hand are blamed on the rewrite and its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.debug.bisect import bisect
from onnx_passes.passes.eliminate import eliminate_common_subexpression
from onnx_passes.passes.fold.evaluation import ConstantEvaluator
from onnx_passes.passes.fold.vectors import Vectors
from onnx_passes.verify.failure import Failure, PostconditionError

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
SHAPES = f"""{HEAD} g (float[2,3] x, float[4,5] z) => (int64[2] y, int64[2] v) {{
    a = Shape (x) y = Neg (a)
    b = Shape (z) v = Neg (b)
}}"""
CONSTANTS = f"""{HEAD} g (float[3] x) => (float[3] y, float[3] z)
    <float[3] w = {{1, 4, 9}}, float[3] u = {{1, 2, 3}}> {{
    a = Sqrt (w) y = Add (x, a)
    b = Neg (u) z = Mul (x, b)
}}"""
SAME = f"""{HEAD} g (float[3] x) => (float[3] y, float[3] z) {{
    a = Relu (x) b = Relu (x) y = Neg (a) z = Exp (b)
}}"""


def failure_of(text: str, pipeline: str) -> Failure:
    with pytest.raises(PostconditionError) as raised:
        apply(ir.from_onnx_text(text), pipeline)
    return raised.value.failure


def plant_in_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Vectors.array

    def wrong(self: Vectors, value: ir.Value) -> np.ndarray | None:
        array = right(self, value)
        return array if array is None or value.name != "v" else array + 1

    monkeypatch.setattr(Vectors, "array", wrong)


def plant_in_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ConstantEvaluator.run

    def wrong(self: ConstantEvaluator, nodes: Any, wanted: Any) -> dict[ir.Value, ir.TensorProtocol]:
        results = right(self, nodes, wanted)
        return {v: ir.Tensor(t.numpy() * 2) if v.name == "b" else t for v, t in results.items()}

    monkeypatch.setattr(ConstantEvaluator, "run", wrong)


@pytest.mark.parametrize("pipeline", ["fold-shapes", "fold-constants", "simplify"])
def test_a_wrong_shape(monkeypatch: pytest.MonkeyPatch, pipeline: str):
    plant_in_shapes(monkeypatch)
    failure = failure_of(SHAPES, pipeline)
    assert failure.application.endswith("by shape known before the run")
    assert failure.matched == "v = Neg(b)"
    assert "fold_shapes.py" in failure.source


@pytest.mark.parametrize("pipeline", ["fold-constants", "simplify"])
def test_a_wrong_constant(monkeypatch: pytest.MonkeyPatch, pipeline: str):
    plant_in_constants(monkeypatch)
    failure = failure_of(CONSTANTS, pipeline)
    assert failure.application.endswith("by result of constants")
    assert failure.matched == "b = Neg(u)"


def test_a_wrong_shape_is_found_by_bisection(monkeypatch: pytest.MonkeyPatch):
    plant_in_shapes(monkeypatch)
    found = bisect(ir.from_onnx_text(SHAPES), "fold-shapes")
    assert (found.rule, found.application) == ("shape known before the run", 2)


def test_what_is_not_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eliminate_common_subexpression, "operator", lambda node: ("", "Relu", ""))
    sharing = eliminate_common_subexpression._Sharing
    monkeypatch.setattr(sharing, "key", lambda self, node: len(node.inputs))
    failure = failure_of(SAME.replace("b = Relu", "b = Abs"), "eliminate-common-subexpression")
    assert "by the same computation" in failure.application
    assert failure.matched == "b = Abs(x)"
