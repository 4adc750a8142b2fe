"""The judge: what it holds against a rule, and what only the runtime is to blame for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.testing.fuzz.generate import case_of_model
from onnx_passes.testing.fuzz.judge import CaseJudge, CaseVerdict
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import FuzzTarget, targets_of
from onnx_passes.verify.run.execute import Executor
from tests.testing.fuzz.sound_rules import exact

_HEADER = '<ir_version: 9, opset_import: ["": 20]>'


def target(pattern: Any, rewrite: Any) -> FuzzTarget:
    [found] = targets_of(exact(pattern, rewrite))
    return found


def judged(of: FuzzTarget, graph: str) -> CaseVerdict:
    case = case_of_model(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f"{_HEADER} {graph}")), seed=0)
    return CaseJudge(of, Executor(), lambda: None)(case)


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


CHAIN = "g (float[2] x) => (float[2] z) { p = Identity (x) q = Identity (p) r = Relu (q) z = Abs (r) }"
RELU = target(lambda op, x: op.Abs(op.Relu(x)), lambda op, x: op.Relu(x))


def bypassing(at_most: int) -> Callable[[ir.Model], int]:
    """Return what takes out Identity nodes, as many at a time as it is told: right, but not until none is left."""

    def apply(model: ir.Model) -> int:
        found = [node for node in model.graph if node.op_type == "Identity"][:at_most]
        for node in found:
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            model.graph.remove(node, safe=True)
        return len(found)

    return apply


def test_what_a_second_run_still_finds_is_held_against_a_rule() -> None:
    assert judged(replace(RELU, apply=bypassing(2)), CHAIN).outcome == "fine"
    verdict = judged(replace(RELU, apply=bypassing(1)), CHAIN)
    assert (verdict.outcome, verdict.kind) == ("finding", Kind.HANG)
    assert "a second run rewrites nodes that the first one left" in verdict.message


def declaring(name: str, shape: list[int | str]) -> Callable[[ir.Model], int]:
    """Return what changes nothing but the declared shape of a value."""

    def apply(model: ir.Model) -> int:
        (value,) = (value for node in model.graph for value in node.outputs if value.name == name)
        changes = value.shape != ir.Shape(shape)
        value.shape = ir.Shape(shape)
        return int(changes)

    return apply


@pytest.mark.parametrize("shape", [[3], [2, 1], []], ids=str)
def test_a_shape_that_does_not_occur_is_held_against_a_rule(shape: list[int | str]) -> None:
    verdict = judged(replace(RELU, apply=declaring("r", shape)), CHAIN)
    assert (verdict.outcome, verdict.kind) == ("finding", Kind.SHAPE)
    assert "'r' is declared with shape" in verdict.message
    assert verdict.message.endswith("and has [2]")


@pytest.mark.parametrize("shape", [["N"], [2]], ids=str)
def test_a_shape_that_occurs_is_fine(shape: list[int | str]) -> None:
    assert judged(replace(RELU, apply=declaring("r", shape)), CHAIN).outcome in ("fine", "no match")


def test_a_model_that_declares_what_is_not_so_says_nothing_of_a_rule() -> None:
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f"{_HEADER} {CHAIN}"))
    (info,) = (info for info in model.graph.value_info if info.name == "r")
    case = case_of_model(model, seed=0)
    info.type.tensor_type.shape.dim[0].dim_value = 3
    lying = replace(case, model=model.SerializeToString())
    judge = CaseJudge(replace(RELU, apply=bypassing(2)), Executor(), lambda: None)
    assert judge(case).outcome == "fine"
    assert judge(lying).outcome == "skipped"


@pytest.mark.parametrize(
    ("rule", "graph"),
    [
        (
            "fuse-reshaped-gemm",
            """g (float16[2,1,3] x, float16[3,2] w, float16[1,2] c) => (float16[2,1,2] y)
                <int64[2] s = {-1, 3}, int64[3] t = {2, 1, 2}, float16[A,3] r, float16[A,2] p> {
                    r = Reshape (x, s) p = Gemm (r, w, c) y = Reshape (p, t)
                }""",
        ),
        (
            "fuse-gemm/MatMulAdd",
            """g (float16[2,3] x, float16[3,2] w, float16[1,2] c) => (float16[2,2] y)
                <float16[2,2] p> { p = MatMul (x, w) y = Add (p, c) }""",
        ),
    ],
)
def test_product_that_overflows_before_the_sum_is_not_promised(rule: str, graph: str) -> None:
    [of] = targets_of(rule)
    case = case_of_model(onnx.parser.parse_model(f"{_HEADER} {graph}"), seed=0)
    x = np.ones(case.inputs[0].shape, np.float16)
    w = np.array([[1, -65504], [1, -65504], [1, 0]], np.float16)
    c = np.array([[0, np.inf]], np.float16)
    assert CaseJudge(of, Executor(), lambda: None)(replace(case, given={"x": x, "w": w, "c": c})).outcome == "fine"
