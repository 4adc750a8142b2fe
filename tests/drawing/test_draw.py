from __future__ import annotations

import random
import re
import time
import xml.etree.ElementTree as ET

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Drawing, draw, examples
from onnx_passes.core.errors import UsageError
from onnx_passes.drawing.scene import Box, Scene
from onnx_passes.graph.tensor_types import set_datatype

SVG = "{http://www.w3.org/2000/svg}"
BODY = """
    [first] a = Conv<kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]>(x, w, b)
    [second] r = Relu(a)
    [left] l = Mul(r, half)
    [last] y = Add(l, r)
"""


def model(body: str = BODY, *, inputs: str = "float[1,3,8,8] x", outputs: str = "float[1,4,8,8] y") -> ir.Model:
    ones = ", ".join(["1"] * 108)
    weights = f"<float[4,3,3,3] w = {{{ones}}}, float[4] b = {{1, 2, 3, 4}}, float half = {{0.5}}>"
    interface = f"({inputs}) => ({outputs})"
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> g {interface} {weights} {{{body}}}')


def chain(length: int) -> ir.Model:
    lines = [f"[n{k}] v{k + 1} = {('Relu', 'Neg', 'Abs')[k % 3]}(v{k})" for k in range(length)]
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[4] v0) => (float[4] v{length}) {{{chr(10).join(lines)}}}'
    return ir.from_onnx_text(text)


def titles(scene: Scene) -> list[str]:
    return [box.title for box in scene.boxes]


def box(drawing: Drawing, name: str) -> Box:
    return next(each for each in drawing.scene.all_boxes() if each.name == name or each.title == name)


def ends(drawing: Drawing) -> set[tuple[str, str]]:
    names = {each.key: each.name or each.title for each in drawing.scene.boxes}
    return {(names[wire.source], names[wire.target]) for wire in drawing.scene.wires}


def test_nodes_ends_and_wires():
    drawing = draw(model())
    assert titles(drawing.scene) == ["x", "Conv", "Relu", "Mul", "Add", "y"]
    assert ends(drawing) == {
        *(("x", "first"), ("first", "second"), ("second", "left")),
        *(("left", "last"), ("second", "last"), ("last", "y")),
    }


def test_constants_and_attributes_are_inside_of_nodes():
    rows = {row.label: row.text for row in box(draw(model()), "first").rows}
    assert rows == {"W": "4×3×3×3", "B": "[1, 2, 3, 4]", "kernel_shape": "[3,3]", "pads": "[1,1,1,1]"}
    assert {row.label: row.text for row in box(draw(model()), "left").rows} == {"B": "0.5"}


def test_few_elements_are_written_as_they_are():
    body = """e = Constant<value_ints=[9223372036854775807, 100000]>()
        s = Constant<value_ints=[0, 1]>()
        [slice] y = Slice(x, s, e)
        t = Constant<value = bool {1}>()
        [other] z = Where(t, x, x)"""
    drawing = draw(model(body, outputs="float[1,3,8,8] y, float[1,3,8,8] z"))
    assert {row.label: row.text for row in box(drawing, "slice").rows} == {"starts": "[0, 1]", "ends": "[max, 100000]"}
    assert box(drawing, "other").rows[0].text == "True"


def test_wires_have_shapes_and_types():
    given = model()
    set_datatype(given.graph.outputs[0], "INT4")
    labels = {wire.label for wire in draw(given).scene.wires}
    assert {"1×3×8×8", "1×4×8×8 INT4"} <= labels


def test_constant_nodes_are_no_boxes():
    given = model("c = Constant<value_float=2.0>()\n [n] y = Mul(x, c)", outputs="float[1,3,8,8] y")
    drawing = draw(given)
    assert titles(drawing.scene) == ["x", "Mul", "y"]
    assert box(drawing, "n").rows[0].text == "2"


def test_files_bytes_graphs_functions_and_nodes(tmp_path):
    path = tmp_path / "model.onnx"
    given = model()
    onnx_passes.save(given, path)
    whole = titles(draw(given).scene)
    assert titles(draw(path).scene) == titles(draw(str(path)).scene) == titles(draw(path.read_bytes()).scene) == whole
    assert titles(draw(given.graph).scene) == whole
    nodes = list(given.graph)
    assert titles(draw(nodes[1:3]).scene) == ["Relu", "Mul", "a", "l"]
    assert titles(draw(nodes[3], hops=0).scene) == ["Add", "l", "r", "y"]


def test_a_function_is_drawn_by_its_body():
    text = """<ir_version: 10, opset_import: ["": 21, "own": 1]>
    g (float[4] x) => (float[4] y) { [call] y = own.twice(x) }
    <domain: "own", opset_import: ["": 21]> twice (a) => (b) { [sum] b = Add(a, a) }"""
    given = ir.from_onnx_text(text)
    assert titles(draw(given).scene) == ["x", "twice", "y"]
    body = draw(next(iter(given.functions.values())))
    assert body.scene.title == "own::twice"
    assert titles(body.scene) == ["a", "Add", "b"]
    assert titles(draw(given, around="sum", hops=0).scene) == ["a", "Add", "b"]


def test_subgraphs_are_inside_of_their_node():
    given = model(
        """s = ReduceSum<keepdims=0>(x)
        c = Cast<to=9>(s)
        [choice] y = If(c) <
            then_branch = t () => (float[1,3,8,8] p) { [inner] p = Relu(x) },
            else_branch = e () => (float[1,3,8,8] q) { q = Identity(x) }
        >""",
        outputs="float[1,3,8,8] y",
    )
    drawing = draw(given, highlight={"changed": "inner"})
    inner = box(drawing, "choice").inner
    assert {scene.title for scene in inner} == {"then_branch", "else_branch"}
    then = next(scene for scene in inner if scene.title == "then_branch")
    assert {(each.title, each.kind) for each in then.boxes} == {("x", "value"), ("Relu", "node"), ("p", "output")}
    assert box(drawing, "inner").role == "changed"
    assert ("x", "choice") in ends(drawing)
    assert {row.text for row in box(drawing, "c").rows} == {"bool"}
    texts = [element.text for element in ET.fromstring(drawing.svg).iter(f"{SVG}text")]
    assert {"then_branch", "else_branch"} <= set(texts)


def test_subgraphs_of_large_graphs_are_named_unless_something_changed_there():
    inside = "\n".join(f"[i{k}] p{k + 1} = Relu(p{k})" for k in range(9)).replace("(p0)", "(x)")
    given = model(
        f"""s = ReduceSum<keepdims=0>(x)
        c = Cast<to=9>(s)
        [choice] y = If(c) <
            then_branch = t () => (float[1,3,8,8] p9) {{ {inside} }},
            else_branch = e () => (float[1,3,8,8] q) {{ q = Identity(x) }}
        >""",
        outputs="float[1,3,8,8] y",
    )
    drawing = draw(given, limit=8)
    assert {row.label: row.text for row in box(drawing, "choice").rows} == {
        "then_branch": "9 nodes",
        "else_branch": "1 node",
    }
    changed = draw(given, limit=8, highlight={"changed": "i4"})
    assert [scene.title for scene in box(changed, "choice").inner] == ["then_branch"]


def test_names_of_dimensions_that_were_made_up_are_short():
    given = model("[n] y = Neg(x)", inputs="float[some_very_long_name_dim_0,4] x", outputs="float[A,4] y")
    assert {wire.label for wire in draw(given).scene.wires} == {"…ame_dim_0×4", "A×4"}


def test_around_a_node():
    given = chain(20)
    drawing = draw(given, around="n10", hops=2)
    shown = [each.name for each in drawing.scene.boxes if each.kind == "node"]
    assert shown == ["n8", "n9", "n10", "n11", "n12"]
    assert drawing.scene.note == "5 of 20 nodes"
    assert {each.title for each in drawing.scene.boxes if each.kind == "value"} == {"v8", "v13"}


def test_around_an_unknown_node_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'second'"):
        draw(model(), around="secnd")


def test_highlight_by_name_and_by_node():
    given = model()
    drawing = draw(given, highlight={"added": ["left"], "changed": next(iter(given.graph))})
    roles = {each.name: each.role for each in drawing.scene.boxes if each.role}
    assert roles == {"left": "added", "first": "changed"}
    assert drawing.scene.roles == ("added", "changed")
    assert "1 added, 1 changed" in repr(drawing)


def test_removed_nodes_are_shown_where_they_were():
    given = model()
    relu = next(node for node in given.graph if node.op_type == "Relu")
    relu.outputs[0].replace_all_uses_with(relu.inputs[0])
    given.graph.remove(relu)
    drawing = draw(given, highlight={"removed": [relu]})
    assert box(drawing, "second").role == "removed"
    assert ("first", "second") in ends(drawing)
    assert ("first", "left") in ends(drawing)


def test_an_unknown_role_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'removed'"):
        draw(model(), highlight={"remove": []})


@pytest.mark.parametrize("wrong", [{"hops": -1}, {"limit": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(UsageError, match="at least one node"):
        draw(model(), **wrong)


def test_what_is_no_model_is_refused():
    with pytest.raises(UsageError, match="not nodes"):
        draw([1, 2])  # pyright: ignore[reportArgumentType]


def test_large_graphs_are_summaries():
    drawing = draw(chain(3000), limit=50)
    assert drawing.scene.note == "summary of 3000 nodes"
    (block,) = [each for each in drawing.scene.boxes if each.kind == "block"]
    assert block.title.endswith("× 999")
    assert [each.title for each in block.inner[0].boxes if each.kind == "node"] == ["Neg", "Abs", "Relu"]


def test_large_graphs_without_repetitions_are_pieces():
    source = random.Random(1)
    operators = ("Relu", "Neg", "Abs", "Exp", "Sin", "Cos", "Sqrt")
    lines = [f"v{k + 1} = {source.choice(operators)}(v{k})" for k in range(900)]
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[4] v0) => (float[4] v900) {{{chr(10).join(lines)}}}'
    drawing = draw(ir.from_onnx_text(text), limit=40)
    assert len(drawing.scene.boxes) <= 70
    assert sum(1 for each in drawing.scene.boxes if each.kind == "block") > 5


def test_large_graphs_are_shown_where_they_changed():
    given = chain(3000)
    drawing = draw(given, highlight={"changed": "n1500"}, limit=50)
    assert [each.name for each in drawing.scene.boxes if each.kind == "node"] == [f"n{k}" for k in range(1498, 1503)]


def test_twenty_thousand_nodes_do_not_take_long():
    given = chain(20_000)
    started = time.process_time()
    assert len(draw(given).svg) < 50_000
    assert time.process_time() - started < 6


def test_everything_is_shown_without_a_limit():
    drawing = draw(chain(400), limit=None)
    assert sum(1 for each in drawing.scene.boxes if each.kind == "node") == 400


def test_the_same_model_gives_the_same_picture():
    path = examples.path("digits-cnn")
    assert draw(path).svg == draw(path).svg


def test_notebooks_show_html_and_text():
    drawing = draw(model())
    bundle = drawing._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert drawing.to_svg(theme="notebook") in bundle["text/html"]
    assert bundle["text/plain"] == "<Drawing of g, 4 nodes>"
    assert set(drawing._repr_mimebundle_(include=["image/svg+xml"])) == {"image/svg+xml"}
    assert set(drawing._repr_mimebundle_(exclude=["text/html"])) == {"text/plain"}


def test_the_module_is_not_in_the_place_of_the_function():
    import onnx_passes.drawing.draw

    assert callable(onnx_passes.draw)
    assert re.search("Draw a model", onnx_passes.draw.__doc__ or "")
