"""Write a scene in the language of Mermaid, for Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_passes.drawing.scene import Box, Role, Scene

_CLASSES: dict[Role, str] = {
    "added": "fill:#e6f6ea,stroke:#1a7f37,color:#1d2330",
    "removed": "fill:#fdecec,stroke:#cf222e,color:#1d2330,stroke-dasharray:5 3",
    "changed": "fill:#fff6dc,stroke:#9a6700,color:#1d2330",
    "found": "fill:#e4f0fd,stroke:#0969da,color:#1d2330",
}
_SPECIAL = re.compile(r'["#<>&;`\\\[\](){}|]')


def mermaid_text(scene: Scene) -> str:
    """Return a flowchart; what is inside of a node is a subgraph."""
    lines = ["flowchart TD", *_scene(scene, "  ")]
    lines += [f"  classDef {role} {_CLASSES[role]}" for role in scene.roles]
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


def _shape(box: Box) -> str:
    lines = [box.title, box.name, *(" ".join(filter(None, (row.label, row.text))) for row in box.rows)]
    text = "<br/>".join(_escaped(line) for line in lines if line)
    return f'["{text}"]' if box.kind in ("node", "block") else f'(["{text}"])'


def _identifier(key: str) -> str:
    return re.sub(r"\W", "_", key)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text.replace("\n", " "))
