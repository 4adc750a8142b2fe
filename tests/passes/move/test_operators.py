"""Every operator that something moves past: the order changes, the results do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.move.move_transpose_down import MoveTransposeDown, MoveTransposeDownRounding
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from tests.helpers.thorough import some
from tests.passes.move.tools import order, rounded
from tests.passes.tools import apply, check, model_of, operators, run

MOVERS = {
    "move-reshape-down": ("Reshape (x, s)", "2,6", "3,4"),
    "move-reshape-down-rounding": ("Reshape (x, s)", "2,6", "3,4"),
    "move-transpose-down": ("Transpose (x)", "3,4", "4,3"),
    "move-transpose-down-rounding": ("Transpose (x)", "3,4", "4,3"),
    "move-expand-down": ("Expand (x, s)", "1,4", "3,4"),
    "move-expand-down-rounding": ("Expand (x, s)", "1,4", "3,4"),
}
ATTRIBUTES = {"BitShift": '<direction = "LEFT">', "Cast": "<to = 6>", "Mod": "<fmod = 1>"}
BOOLEAN = ("Not", "And", "Or", "Xor")
MAKE_TRUTH = (*BOOLEAN, "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsInf", "IsNaN")
OPERANDS = {"Where": ("bool", "float", "float")}


def elementwise_rules() -> Iterator[object]:
    for name in MOVERS:
        cls = REGISTRY.load(REGISTRY.find(name).entries[0])
        assert issubclass(cls, RewriteRuleSetPass)
        for rule in cls().rules():
            op_type, slot = re.fullmatch(r"(.+?)(?:At(\d))?", rule.name).groups()
            if traits_of(op_type).kind == "elementwise":
                yield pytest.param(cls(), op_type, int(slot or 0), id=f"{name}/{rule.name}")


def kinds_of(op_type: str) -> tuple[str, ...]:
    """Return an element type for each operand."""
    kind = "bool" if op_type in BOOLEAN else "uint8" if op_type.startswith("Bit") else "float"
    return OPERANDS.get(op_type, (kind,) * (traits_of(op_type).arity or 2))


def text_of(pass_: RewriteRuleSetPass, op_type: str, slot: int) -> str:
    """Write a model in which an operator reads from a mover and, where it has other operands, single elements."""
    mover, source, result = MOVERS[pass_.name]
    kinds = kinds_of(op_type)
    others = {at: f"c{at}" for at in range(len(kinds)) if at != slot}
    constants = "".join(f", {kinds[at]} {name} = {{1}}" for at, name in others.items())
    if op_type == "PRelu" and slot:
        # A slope is not wider than what it is for.
        constants = f", float[{result}] c0 = {{{', '.join('-1.5' for _ in range(12))}}}"
    made = "bool" if op_type in MAKE_TRUTH else "int32" if op_type == "Cast" else kinds[-1]
    arguments = ", ".join(others.get(at, "m") for at in range(len(kinds)))
    return f"""g ({kinds[slot]}[{source}] x) => ({made}[{result}] y) <int64[2] s = {{3,4}}{constants}> {{
        m = {mover} y = {op_type} {ATTRIBUTES.get(op_type, "")} ({arguments})
    }}"""


@pytest.mark.parametrize(("pass_", "op_type", "slot"), some(elementwise_rules(), every=4))
def test_past_elementwise(pass_: RewriteRuleSetPass, op_type: str, slot: int):
    model = model_of(text_of(pass_, op_type, slot), opset=20)
    ShapeInference().run(model, Context())
    [x] = model.graph.inputs
    numbers = np.random.default_rng(0).integers(0, 4, [int(size) for size in x.shape])
    feeds = {"x": numbers.astype(x.dtype.numpy())}
    [expected] = run(model, feeds)
    assert apply(pass_, model)
    check(model)
    [found] = run(model, feeds)
    assert operators(model.graph) == [op_type, MOVERS[pass_.name][0].split()[0]]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if pass_.claims[0].kind == "equality":
        assert found.tobytes() == expected.tobytes()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("pass_name", ["move-concat-up", "move-concat-up-rounding"])
def test_joined_first(pass_name: str):
    pass_ = REGISTRY.load(REGISTRY.find(pass_name).entries[0])()
    for rule in pass_.rules():
        kind, made = kinds_of(rule.name)[0], "bool" if rule.name in MAKE_TRUTH else "int32"
        made = made if rule.name in (*MAKE_TRUTH, "Cast") else kind
        node = f"{rule.name} {ATTRIBUTES.get(rule.name, '')}"
        text = f"""g ({kind}[2,3] a, {kind}[2,4] b) => ({made}[2,7] y) {{
            c = {node} (a) d = {node} (b) y = Concat <axis = 1> (c, d)
        }}"""
        assert (order if pass_name == "move-concat-up" else rounded)(pass_, text, opset=20) == ["Concat", rule.name]


@pytest.mark.parametrize(
    ("pass_", "node", "kind", "result"),
    [
        (MoveTransposeDown(), "ReduceMin <keepdims = 0> (t, a)", "int32", "int32[4,2]"),
        (MoveTransposeDown(), "ArgMin <axis = 1> (t)", "float", "int64[4,1,2]"),
        (MoveTransposeDown(), "Concat <axis = 0> (e, t)", "float", "float[5,3,2]"),
        *(
            (MoveTransposeDownRounding(), f"{name} (t, a)", "float", "float[4,1,2]")
            for name in ("ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare")
        ),
        (MoveTransposeDownRounding(), "LogSoftmax <axis = 1> (t)", "float", "float[4,3,2]"),
        (MoveTransposeDownRounding(), "LpNormalization <axis = 1> (t)", "float", "float[4,3,2]"),
    ],
)
def test_past_what_has_axes(pass_: RewriteRuleSetPass, node: str, kind: str, result: str):
    text = f"""g ({kind}[2,3,4] x) => ({result} y) <int64[1] a = {{1}}, float[1,3,2] e = {{1,2,3,4,5,6}}> {{
        t = Transpose (x) y = {node}
    }}"""
    after = (rounded if isinstance(pass_, MoveTransposeDownRounding) else order)(pass_, text, opset=20)
    assert after == [node.split()[0], "Transpose"]


@pytest.mark.parametrize("parts", [2, 4])
def test_past_a_split(parts: int):
    names = [f"y{number}" for number in range(parts)]
    outputs = ", ".join(f"float[{4 // parts},3] {name}" for name in names)
    text = f"""g (float[3,4] x) => ({outputs}) {{
        t = Transpose (x) {", ".join(names)} = Split <num_outputs = {parts}> (t)
    }}"""
    assert order(MoveTransposeDown(), text) == ["Split", *["Transpose"] * parts]
