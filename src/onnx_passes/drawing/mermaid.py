"""Write a scene in the language of Mermaid, for Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_passes.drawing.palette import COLOURS, fill_colour, line_colour
from onnx_passes.drawing.scene import Box, Role, Scene

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
