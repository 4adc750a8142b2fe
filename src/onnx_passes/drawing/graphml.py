"""Write a scene as GraphML for NetworkX, Gephi and yEd, or in the language of Mermaid for Markdown pages."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from onnx_passes.drawing.layout import Placed, PlacedBox
from onnx_passes.drawing.palette import COLOURS, fill_colour, line_colour
from onnx_passes.drawing.scene import Box, Role, Scene
from onnx_passes.drawing.svg import clean

_SPACE = "http://graphml.graphdrawing.org/xmlns"
_YED = "http://www.yworks.com/xml/graphml"
_NODE_KEYS = ("label", "kind", "op_type", "name", "details", "role", "inside", "graph")
_EDGE_KEYS = ("label", "role")


def graphml_text(placed: Placed) -> str:
    """Return a document without nested graphs, which few programs support: boxes name their enclosing box."""
    ET.register_namespace("", _SPACE)
    ET.register_namespace("y", _YED)
    root = ET.Element(f"{{{_SPACE}}}graphml")
    for target, names in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for name in names:
            attributes = {"id": f"{target}_{name}", "for": target, "attr.name": name, "attr.type": "string"}
            ET.SubElement(root, f"{{{_SPACE}}}key", attributes)
    ET.SubElement(root, f"{{{_SPACE}}}key", {"id": "node_graphics", "for": "node", "yfiles.type": "nodegraphics"})
    graph = ET.SubElement(root, f"{{{_SPACE}}}graph", {"id": clean(placed.scene.title), "edgedefault": "directed"})
    for box, x, y, inside, scene in _boxes(placed, 0.0, 0.0, ""):
        _node(graph, box, x, y, inside, scene)
    for scene in _scenes(placed.scene):
        for wire in scene.wires:
            edge = ET.SubElement(graph, f"{{{_SPACE}}}edge", {"source": wire.source, "target": wire.target})
            _data(edge, "edge", label=wire.label, role=wire.role)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _boxes(placed: Placed, dx: float, dy: float, inside: str) -> Iterator[tuple[PlacedBox, float, float, str, str]]:
    title = placed.scene.title if inside else ""
    for box in placed.boxes:
        x, y = dx + box.x, dy + box.y
        yield box, x, y, inside, title
        for inner_x, inner_y, inner in box.inner:
            yield from _boxes(inner, x + inner_x, y + inner_y, box.box.key)


def _scenes(scene: Scene) -> Iterator[Scene]:
    yield scene
    for box in scene.all_boxes():
        yield from box.inner


def _node(graph: ET.Element, placed: PlacedBox, x: float, y: float, inside: str, scene: str) -> None:
    box = placed.box
    node = ET.SubElement(graph, f"{{{_SPACE}}}node", {"id": box.key})
    details = "\n".join(map(str, box.rows))
    op_type = box.title if box.kind == "node" else ""
    name = box.name if box.kind == "node" else box.title
    _data(
        node,
        "node",
        label=_label(box),
        kind=box.kind,
        op_type=op_type,
        name=name,
        details=details,
        role=box.role,
        inside=inside,
        graph=scene,
    )
    graphics = ET.SubElement(node, f"{{{_SPACE}}}data", {"key": "node_graphics"})
    shape = ET.SubElement(graphics, f"{{{_YED}}}ShapeNode")
    place = {"x": x, "y": y, "width": placed.width, "height": placed.height}
    ET.SubElement(shape, f"{{{_YED}}}Geometry", {name: f"{number:.1f}" for name, number in place.items()})
    ET.SubElement(shape, f"{{{_YED}}}Fill", {"color": fill_colour(box.role)})
    ET.SubElement(shape, f"{{{_YED}}}NodeLabel").text = clean(_label(box))
    kind = "roundrectangle" if box.is_card else "ellipse"
    ET.SubElement(shape, f"{{{_YED}}}Shape", {"type": kind})


def _label(box: Box) -> str:
    return "\n".join(filter(None, (box.title, box.name)))


def _data(parent: ET.Element, target: str, **texts: str) -> None:
    for name, text in texts.items():
        if text:
            ET.SubElement(parent, f"{{{_SPACE}}}data", {"key": f"{target}_{name}"}).text = clean(text)


_SPECIAL = re.compile(r'["#<>&;`\\\[\](){}|]')


def mermaid_text(scene: Scene) -> str:
    """Return a flowchart, in which nested graphs are subgraphs."""
    lines = ["flowchart TD", *_scene(scene, "  ")]
    lines += [f"  classDef {role} {_style(role)}" for role in scene.roles]
    return "\n".join(lines) + "\n"


def _scene(scene: Scene, indent: str) -> Iterator[str]:
    for box in scene.boxes:
        yield f"{indent}{_identifier(box.key)}{_shape(box)}{f':::{box.role}' if box.role else ''}"
        for number, inner in enumerate(box.inner):
            title = " ".join(filter(None, (box.title, inner.title)))
            yield f'{indent}subgraph {_identifier(box.key)}_{number}["{_escaped(title)}"]'
            yield from _scene(inner, indent + "  ")
            yield f"{indent}end"
    for wire in scene.wires:
        arrow = "-.->" if wire.role == "removed" else "-->"
        label = f'|"{_escaped(wire.label)}"|' if wire.label else ""
        yield f"{indent}{_identifier(wire.source)} {arrow}{label} {_identifier(wire.target)}"


def _style(role: Role) -> str:
    dashes = ",stroke-dasharray:5 3" if role == "removed" else ""
    return f"fill:{fill_colour(role)},stroke:{line_colour(role)},color:{COLOURS['text'][0]}{dashes}"


def _shape(box: Box) -> str:
    text = "<br/>".join(map(_escaped, box.lines))
    return f'["{text}"]' if box.is_card else f'(["{text}"])'


def _identifier(key: str) -> str:
    return re.sub(r"\W", "_", key)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text.replace("\n", " "))
