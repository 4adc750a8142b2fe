from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.expand_laws import EliminateExpand
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    ("shape", "target"), [("2,3", "2, 3"), ("2,3", "3"), ("N,3", "1, 3"), ("N,M", "1"), ("0,3", "0, 3")]
)
def test_removes_expansion_to_the_same_shape(shape: str, target: str):
    text = f"""g (float[{shape}] x) => (float[{shape}] y) <int64[{target.count(",") + 1}] s = {{{target}}}> {{
        a = Expand (x, s) y = Neg (a)
    }}"""
    assert body(rewritten(EliminateExpand(), text)) == "y = Neg(x)"


def test_removes_expansion_to_nothing_in_particular():
    text = "g (float[2,2] x) => (float[2,2] y) <int64[0] s = {}> {n = Abs (x) a = Expand (n, s) y = Neg (a)}"
    assert body(rewritten(EliminateExpand(), text, infer=False)) == "n = Abs(x); y = Neg(n)"


def test_removes_expansion_to_the_own_shape_without_knowing_it():
    text = "g (float[2,2] x) => (float[2,2] y) {n = Abs (x) s = Shape (n) a = Expand (n, s) y = Neg (a)}"
    assert body(rewritten(EliminateExpand(), text, infer=False)) == "n = Abs(x); y = Neg(n)"


@pytest.mark.parametrize(("shape", "target"), [("", "2"), ("2", "1, 2"), ("1,3", "2, 1"), ("N", "3")])
def test_keeps_what_widens(shape: str, target: str):
    rank = max(target.count(",") + 1, shape.count(",") + 1)
    text = f"""g (float{f"[{shape}]" if shape else ""} x) => (float[{"A,B" if rank == 2 else "A"}] y)
        <int64[{target.count(",") + 1}] s = {{{target}}}> {{a = Expand (x, s) y = Neg (a)}}"""
    assert "the shape changes, or is not known" in refusals(EliminateExpand(), text)


@pytest.mark.parametrize("node", ["Add (e, y)", "Add (y, e)", "Sub (y, e)", "Div (e, y)", "Mul (e, e2)"])
def test_operators_broadcast_themselves(node: str):
    text = f"""g (float[3,1] x, float[4] y) => (float[3,4] z) <int64[2] s = {{3, 4}}> {{
        e = Expand (x, s) e2 = Expand (y, s) z = {node}
    }}"""
    model = rewritten(EliminateExpand(), text)
    assert body(model).split("; ")[-1] == "z = " + node.replace("e2", "y").replace("e", "x").replace(" (", "(")


@pytest.mark.parametrize("node", ["Sub (e, y)", "Div (y, e)", "Less (e, y)", "Less (y, e)", "LessOrEqual (e, y)",
    "LessOrEqual (y, e)", "Greater (e, y)", "Greater (y, e)", "GreaterOrEqual (e, y)", "GreaterOrEqual (y, e)",
    "Equal (e, y)", "And (e, y)", "Or (y, e)", "Xor (e, y)"])  # fmt: skip
def test_operators_on_either_side_broadcast_themselves(node: str):
    op_type = node.split()[0]
    kind = "bool" if op_type in ("And", "Or", "Xor") else "float"
    text = f"""g ({kind}[3,1] x, {kind}[3,4] y) => ({kind if op_type in ("Sub", "Div") else "bool"}[3,4] z)
        <int64[2] s = {{3, 4}}> {{e = Expand (x, s) z = {node}}}"""
    expected = f"z = {op_type}(" + node.split("(")[1].replace("e", "x")
    assert body(rewritten(EliminateExpand(), text)) == expected


@pytest.mark.parametrize("branches", ["e, y", "y, e"])
def test_where_of_integers_broadcasts_itself(branches: str):
    text = f"""g (bool[3,1] c, int32 x, int32[4] y) => (int32[3,4] z) <int64[2] s = {{3, 4}}> {{
        e = Expand (x, s) d = Expand (c, s) z = Where (d, {branches})
    }}"""
    assert body(rewritten(EliminateExpand(), text)) == f"z = Where(c, {branches.replace('e', 'x')})"


@pytest.mark.parametrize(("x", "y", "target"), [("1", "1", "3"), ("", "", "3"), ("3", "3", "1, 3"), ("1", "N", "3")])
def test_keeps_expansion_that_widens_the_result(x: str, y: str, target: str):
    shapes = [f"[{shape}]" if shape else "" for shape in (x, y)]
    text = f"""g (float{shapes[0]} x, float{shapes[1]} y) => (float[{"A,B" if "," in target else "A"}] z)
        <int64[{target.count(",") + 1}] s = {{{target}}}> {{e = Expand (x, s) z = Add (e, y)}}"""
    assert "the result may become smaller" in refusals(EliminateExpand(), text)


def test_keeps_expansion_of_both_operands():
    text = "g (float[1] x) => (float[3] z) <int64[1] s = {3}> {e = Expand (x, s) z = Mul (e, e)}"
    assert refusals(EliminateExpand(), text)


def test_expansion_stays_for_others():
    text = (
        "g (float[1] x, float[3] y) => (float[3] e, float[3] z) <int64[1] s = {3}> {e = Expand (x, s) z = Add (e, y)}"
    )
    assert body(rewritten(EliminateExpand(), text)) == "e = Expand(x, s); z = Add(x, y)"


def test_keeps_target_that_may_be_overridden():
    text = "g (float[2] x, int64[1] s = {2}) => (float[A] y) {a = Expand (x, s) y = Neg (a)}"
    assert "the shapes are not known" in refusals(EliminateExpand(), text)
