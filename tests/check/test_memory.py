"""A model that takes more memory than it may is verified by fragments, also beside threads, and the run says so."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, limited, passes
from onnx_passes.core.base import PassResult
from onnx_passes.verify.failure import PostconditionError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")

WIDTH = 4096
"""Large beside what allocators keep of memory that was used before: a process may use that without asking for more."""
WEIGHT = 2 * WIDTH * WIDTH
"""Bytes of the weight; ONNX Runtime widens it to twice as many."""
TOO_LITTLE, ENOUGH = 3 * WEIGHT, 10 * WEIGHT
MODEL = f"""
<ir_version: 10, opset_import: ["": 20]>
g (float16[N, {WIDTH}] x) => (float16[N, {WIDTH}] y)
{{
    t = Transpose <perm = [1, 0]> (w)
    h = MatMul(x, t)
    n = Neg(h)
    a = Abs(n)
    y = Identity(a)
}}
"""


@pytest.fixture(params=[False, True], ids=["alone", "threads"])
def _others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let another thread run, or none."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    if request.param:
        other.start()
    yield
    over.set()
    if request.param:
        other.join()


def model() -> ir.Model:
    made = ir.from_onnx_text(MODEL)
    w = ir.val("w", ir.DataType.FLOAT16, [WIDTH, WIDTH])
    w.const_value = ir.Tensor(np.random.default_rng(0).normal(0, 0.02, (WIDTH, WIDTH)).astype(np.float16), name="w")
    made.graph.register_initializer(w)
    made.graph[0].replace_input_with(0, w)
    for node in made.graph:
        node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
        node.outputs[0].shape = ir.Shape([WIDTH if node.op_type == "Transpose" else "N", WIDTH])
    return made


@passes.verify.equality
class AbsOfNeg(Transformation, RewriteRulePass):
    """Drops a Neg before Abs or, wrongly, Abs behind Neg."""

    wrong: bool = False

    def pattern(self, op, x):
        return op.Abs(op.Neg(x))

    def rewrite(self, op, x):
        return op.Neg(x) if self.wrong else op.Abs(x)


@passes.verify.equality
class Copies(Transformation):
    """Lets the model compute with copies of the weight, which change no result."""

    def call(self, model: ir.Model) -> PassResult:
        value = model.graph[0].inputs[0]
        for number in range(20):
            node = ir.Node("", "Concat", [value, value], [ir.AttrInt64("axis", 0)])
            node.outputs[0].name, node.outputs[0].type = f"copy{number}", ir.TensorType(ir.DataType.FLOAT16)
            model.graph.insert_before(model.graph[number], node)
            value = node.outputs[0]
        shape = ir.val("first", ir.DataType.INT64, [1])
        shape.const_value = ir.Tensor(np.arange(1), name="first")
        model.graph.register_initializer(shape)
        picked = ir.Node("", "Gather", [value, shape])
        zero = ir.Node("", "ReduceSum", [picked.outputs[0]], [ir.AttrInt64("keepdims", 0)])
        nothing = ir.Node("", "Sub", [zero.outputs[0], zero.outputs[0]])
        last = model.graph[-1]
        added = ir.Node("", "Add", [last.inputs[0], nothing.outputs[0]])
        for name, node in zip(("picked", "zero", "nothing", "added"), (picked, zero, nothing, added), strict=True):
            node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(ir.DataType.FLOAT16)
            model.graph.insert_before(last, node)
        last.replace_input_with(0, added.outputs[0])
        return PassResult(model, modified=True)


@pytest.mark.usefixtures("_others")
def test_what_does_not_fit_is_verified_by_fragments_and_says_so():
    with limited(memory_limit=TOO_LITTLE):
        result = apply(model(), AbsOfNeg)
    (step,) = result.steps
    assert step.evidence.level == "bits:tested"
    assert "the model needs more than 0.0938 GiB of memory" in step.notes[0]
    assert "rewrites run one by one on values that are drawn, not the model" in step.notes[0]


@pytest.mark.usefixtures("_others")
def test_a_wrong_rewrite_is_caught_by_fragments():
    with limited(memory_limit=TOO_LITTLE), pytest.raises(PostconditionError):
        apply(model(), AbsOfNeg(wrong=True))


@pytest.mark.usefixtures("_others")
def test_what_fits_runs_as_a_whole():
    with limited(memory_limit=ENOUGH):
        result = apply(model(), AbsOfNeg)
    assert result.steps[0].evidence.level == "bits:sampled"


@pytest.mark.usefixtures("_others")
def test_a_result_that_does_not_fit_is_not_called_wrong_but_not_verified():
    with limited(memory_limit=8 * WEIGHT):
        result = apply(model(), Copies)
    evidence = result.steps[0].evidence
    assert evidence.level == "unverified"
    assert "the original fits in memory, what became of it does not" in evidence.reason
