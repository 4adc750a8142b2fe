from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET

import onnx_ir as ir
import pytest

from onnx_passes import draw, examples
from onnx_passes.core.errors import UsageError

NASTY = 'a<b>&"c"\\ \x07'


@pytest.fixture
def nasty() -> ir.Model:
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) {y = Relu(x)}')
    node = next(iter(model.graph))
    node.name, model.graph.name = NASTY, "</svg><script>alert(1)</script>"
    node.attributes["note"] = ir.AttrString("note", "]]>`|{}[]();")
    return model


def test_svg_is_well_formed_whatever_names_hold(nasty):
    root = ET.fromstring(draw(nasty).svg)
    texts = "".join(root.itertext())
    assert "a<b>&" in texts
    assert "\x07" not in texts
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_svg_stands_alone_and_can_be_read_aloud():
    svg = draw(examples.path("digits-cnn")).svg
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert root[0].tag.endswith("title")
    assert not re.search(r"(href|src|url\(|@import|\bid=)", svg)
    assert "prefers-color-scheme:dark" in svg


def test_colours_can_be_fixed():
    drawing = draw(examples.path("digits-mlp"))
    assert "prefers-color-scheme" not in drawing.to_svg(theme="dark")
    assert drawing.to_svg(theme="dark") != drawing.to_svg(theme="light")


def test_heads_have_enough_contrast():
    from onnx_passes.drawing.palette import COLOURS, FAMILIES

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a: str, b: str) -> float:
        light, dark = sorted((luminance(a), luminance(b)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    for side in (0, 1):
        colours = {name: pair[side] for name, pair in COLOURS.items()}
        for family in FAMILIES:
            assert contrast("#ffffff", colours[family]) >= 4.5, family
        for ground in ("page", "card", "inside", "added-fill", "removed-fill", "changed-fill"):
            assert contrast(colours["text"], colours[ground]) >= 4.5
            assert contrast(colours["muted"], colours[ground]) >= 4.5, ground


def test_dot_names_every_box_once(nasty):
    text = draw(nasty).dot
    assert text.startswith("digraph {")
    assert text.count("->") == 2
    assert '\\"c\\"' in text
    quoted = re.sub(r'"(\\.|[^"\\])*"', "", text)
    assert '"' not in quoted
    assert quoted.count("{") == quoted.count("}")


def test_mermaid_escapes_what_has_a_meaning(nasty):
    lines = draw(nasty).mermaid.splitlines()
    assert lines[0] == "flowchart TD"
    node = next(line for line in lines if "Relu" in line)
    assert re.fullmatch(r'\s+n0\["[^"<>]*(<br/>[^"<>]*)*"\]', node)


def test_subgraphs_are_clusters():
    body = """c = ReduceMax<keepdims=0>(x)
        b = Cast<to=9>(c)
        y = If(b) <
            then_branch = t () => (float[4] p) { p = Relu(x) }, else_branch = e () => (float[4] q) { q = Neg(x) }
        >"""
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) {{{body}}}'
    drawing = draw(ir.from_onnx_text(text))
    assert drawing.dot.count("subgraph") == drawing.mermaid.count("subgraph ") == 2
    assert "If then_branch" in drawing.mermaid


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("svg", b"<svg"), ("dot", b"digraph"), ("gv", b"digraph"), ("mmd", b"flowchart"), ("html", b"<!d")],
)
def test_suffixes_name_formats(tmp_path, suffix, start):
    path = tmp_path / f"graph.{suffix}"
    assert draw(examples.path("digits-mlp")).save(path) == path
    assert path.read_bytes().startswith(start)


def test_an_unknown_suffix_names_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"'.jpg' is not a format of drawings; there are .svg"):
        draw(examples.path("digits-mlp")).save(tmp_path / "graph.jpg")
    assert not list(tmp_path.iterdir())


def test_png(tmp_path):
    pytest.importorskip("resvg_py", reason="PNG is optional")
    drawing = draw(examples.path("digits-mlp"))
    data = drawing.save(tmp_path / "graph.png", scale=1).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") >= drawing.size[0]


def test_png_without_its_renderer_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError, match=r"pip install 'onnx-passes\[draw\]'"):
        draw(examples.path("digits-mlp")).save(tmp_path / "graph.png")
    assert not list(tmp_path.iterdir())


def test_graphml_is_read_back(tmp_path, nasty):
    networkx = pytest.importorskip("networkx", reason="NetworkX is optional")
    drawing = draw(examples.path("digits-cnn"), limit=None)
    graph = networkx.read_graphml(drawing.save(tmp_path / "graph.graphml"))
    labels = {key: data["label"].split("\n")[0] for key, data in graph.nodes(data=True)}
    assert labels == {box.key: box.title for box in drawing.scene.boxes}
    assert graph.number_of_edges() == len(drawing.scene.wires)
    assert networkx.is_directed_acyclic_graph(graph)
    assert {"Conv"} <= {data.get("op_type") for _, data in graph.nodes(data=True)}
    assert len({(data["x"], data["y"]) for _, data in graph.nodes(data=True)}) == len(graph)
    odd = networkx.read_graphml(draw(nasty).save(tmp_path / "odd.graphml"))
    assert len(odd) == 3


def test_graphml_has_what_is_inside_of_nodes(tmp_path):
    networkx = pytest.importorskip("networkx", reason="NetworkX is optional")
    body = """c = ReduceMax<keepdims=0>(x)
        b = Cast<to=9>(c)
        [choice] y = If(b) <
            then_branch = t () => (float[4] p) { [inner] p = Relu(x) },
            else_branch = e () => (float[4] q) { q = Neg(x) }
        >"""
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) {{{body}}}'
    graph = networkx.read_graphml(draw(ir.from_onnx_text(text)).save(tmp_path / "graph.graphml"))
    named = {data["name"]: (key, data) for key, data in graph.nodes(data=True)}
    assert named["inner"][1]["inside"] == named["choice"][0]
    assert named["inner"][1]["graph"] == "then_branch"
