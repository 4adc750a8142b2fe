"""The judge: what it holds against a rule, and what only the runtime is to blame for."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from onnx_passes.testing.fuzz.generate import case_of_model
from onnx_passes.testing.fuzz.judge import Judge, Verdict
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import Target, targets_of
from tests.testing.fuzz.sound_rules import exact

_HEADER = '<ir_version: 9, opset_import: ["": 20]>'


def target(pattern: Any, rewrite: Any) -> Target:
    [found] = targets_of(exact(pattern, rewrite))
    return found


def judged(of: Target, graph: str) -> Verdict:
    case = case_of_model(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f"{_HEADER} {graph}")), seed=0)
    return Judge(of, lambda: None)(case)


WRONG_VALUE = target(lambda op, x, y: op.Neg(op.MatMul(x, y)), lambda op, x, y: op.Exp(op.MatMul(x, y)))
WRONG_SHAPE = target(lambda op, x, y: op.Neg(op.MatMul(x, y)), lambda op, x, y: op.Unsqueeze(op.MatMul(x, y), [0]))
EMPTY = "g (float[3,0] x, float[0,2] y) => (float[3,2] z) { p = MatMul (x, y) z = Neg (p) }"
NESTED = """g (float[3,0] x, float[0,2] y, bool b) => (float[3,2] z) {
    z = If (b) <then_branch = t () => (t0) {s = Abs (x) r = Abs (y) p = MatMul (s, r) t0 = Neg (p)},
                else_branch = e () => (e0) {q = MatMul (x, y) e0 = Exp (q)}>
}"""


@pytest.mark.parametrize(
    "graph",
    [EMPTY, EMPTY.replace("float", "float16"), EMPTY.replace("float[0,2] y", "float[0] y").replace("3,2", "3"), NESTED],
    ids=["matrices", "half", "vector", "nested"],
)
def test_product_that_sums_nothing_says_nothing_of_values(graph: str) -> None:
    verdict = judged(WRONG_VALUE, graph)
    assert verdict.outcome == "fine", verdict.message


def test_product_that_sums_nothing_has_a_shape() -> None:
    assert judged(WRONG_SHAPE, EMPTY).kind == Kind.SHAPE


@pytest.mark.parametrize("graph", [EMPTY.replace("0", "1"), EMPTY.replace("float", "int32")], ids=["sum", "integers"])
def test_products_that_are_defined_are_compared(graph: str) -> None:
    rule = target(lambda op, x, y: op.Neg(op.MatMul(x, y)), lambda op, x, y: op.Sub(op.MatMul(x, y), -1))
    assert judged(rule, graph).kind == Kind.WRONG
