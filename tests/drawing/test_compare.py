from __future__ import annotations

import onnx_ir as ir

import onnx_passes
from onnx_passes import draw, examples
from tests.drawing.test_draw import ends


def model(body: str) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) {{{body}}}')


def roles(drawing: onnx_passes.Drawing) -> dict[str, str]:
    return {box.name: box.role for box in drawing.scene.boxes if box.kind == "node"}


def test_added_removed_and_changed_nodes():
    before = model("[a] s = Abs(x)\n [t] t = LeakyRelu<alpha=0.1>(s)\n [gone] u = Identity(t)\n [last] y = Exp(u)")
    after = model("[new] r = Neg(x)\n [a] s = Abs(r)\n [t] t = LeakyRelu<alpha=0.2>(s)\n [last] y = Exp(t)")
    expected = {"new": "added", "a": "", "t": "changed", "last": "", "gone": "removed"}
    assert roles(draw(after, before=before)) == expected


def test_removed_nodes_are_wired_to_what_remains():
    before = model("[a] s = Abs(x)\n [gone] t = Identity(s)\n [last] y = Exp(t)")
    after = model("[a] s = Abs(x)\n [last] y = Exp(s)")
    drawing = draw(after, before=before)
    assert roles(drawing) == {"a": "", "last": "", "gone": "removed"}
    assert {("a", "gone"), ("gone", "last"), ("a", "last")} <= ends(drawing)
    assert {wire.role for wire in drawing.scene.wires} == {"", "removed"}


def test_around_a_node_only_what_was_near_it_is_shown():
    lines = [f"[a{k}] v{k} = Abs({'x' if k == 0 else f'i{k - 1}'})\n [i{k}] i{k} = Identity(v{k})" for k in range(8)]
    before = model("\n".join([*lines, "[last] y = Exp(i7)"]))
    kept = [f"[a{k}] v{k} = Abs({'x' if k == 0 else f'v{k - 1}'})" for k in range(8)]
    after = model("\n".join([*kept, "[last] y = Exp(v7)"]))
    found = roles(draw(after, before=before, around="a4", hops=1))
    assert found == {"a3": "", "a4": "", "a5": "", **dict.fromkeys(("i2", "i3", "i4", "i5"), "removed")}


def test_what_was_removed_may_read_an_input_that_nothing_else_shown_reads():
    before = model("[a] s = Abs(x)\n [g] t = Neg(x)\n [b] u = Exp(s)\n [last] y = Add(u, t)")
    after = model("[a] s = Abs(x)\n [b] u = Exp(s)\n [last] y = Add(u, u)")
    drawing = draw(after, before=before, around="last", hops=0)
    assert ("x", "g") in ends(drawing)
    assert drawing.svg


def test_renamed_nodes_are_the_same():
    before = model("[a] s = Abs(x)\n [b] y = Exp(s)")
    after = model("[c] t = Abs(x)\n [d] y = Exp(t)")
    assert set(roles(draw(after, before=before)).values()) == {""}


def test_changes_inside_of_branches_are_drawn_there():
    text = """[c] c = ReduceMax<keepdims=0>(x)
        b = Cast<to=9>(c)
        [choice] y = If(b) <
            then_branch = t () => (float[4] p) {{ {then} }},
            else_branch = e () => (float[4] q) {{ q = Neg(x) }}
        >"""
    before = model(text.format(then="[i] k = Identity(x)\n [r] p = Relu(k)"))
    after = model(text.format(then="[r] p = Relu(x)"))
    drawing = draw(after, before=before)
    choice = next(box for box in drawing.scene.boxes if box.title == "If")
    inner = {box.name: box.role for scene in choice.inner for box in scene.boxes if box.kind == "node"}
    assert inner["i"] == "removed"
    assert inner["r"] == ""


def test_a_real_run_shows_what_it_did():
    before = onnx_passes.load(examples.path("digits-mlp"))
    after = onnx_passes.apply(before, "streamline", verify=False).model
    drawing = draw(after, before=before)
    difference = onnx_passes.diff(before, after)
    found = [box.role for box in drawing.scene.boxes]
    assert found.count("added") == len(difference.added)
    assert found.count("removed") == len(difference.removed)
    assert drawing.scene.roles == ("added", "removed", "changed")
