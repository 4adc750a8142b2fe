"""Write a scene in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_passes.drawing.scene import Box, Role, Scene

_COLOURS: dict[Role, str] = {
    "": "#8b94a5",
    "added": "#1a7f37",
    "removed": "#cf222e",
    "changed": "#9a6700",
    "found": "#0969da",
}
_FILLS: dict[Role, str] = {
    "": "#f7f8fa",
    "added": "#e6f6ea",
    "removed": "#fdecec",
    "changed": "#fff6dc",
    "found": "#e4f0fd",
}


def dot_text(scene: Scene) -> str:
    """Return a digraph; what is inside of a node is a cluster."""
    lines = [
        "digraph {",
        f"  graph [label={_quoted(scene.title)}, labelloc=t, fontname=Helvetica];",
        "  node [shape=box, style=filled, fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=9, fontcolor=gray30];",
        *_scene(scene, "  "),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _scene(scene: Scene, indent: str) -> Iterator[str]:
    for box in scene.boxes:
        yield f"{indent}{_quoted(box.key)} [{_box(box)}];"
        for number, inner in enumerate(box.inner):
            yield f"{indent}subgraph {_quoted(f'cluster {box.key} {number}')} {{"
            yield f"{indent}  label={_quoted(' '.join(filter(None, (box.title, inner.title))))};"
            yield from _scene(inner, indent + "  ")
            yield f"{indent}}}"
    for wire in scene.wires:
        options = [f"label={_quoted(wire.label)}"] if wire.label else []
        options += [f'color="{_COLOURS[wire.role]}"', "style=dashed"] if wire.role else []
        attributes = f" [{', '.join(options)}]" if options else ""
        yield f"{indent}{_quoted(wire.source)} -> {_quoted(wire.target)}{attributes};"


def _box(box: Box) -> str:
    lines = [box.title, box.name, *(" ".join(filter(None, (row.label, row.text))) for row in box.rows)]
    options = [f"label={_quoted(chr(10).join(filter(None, lines)))}"]
    options.append(f'color="{_COLOURS[box.role]}", fillcolor="{_FILLS[box.role]}"')
    if box.kind not in ("node", "block"):
        options.append("shape=ellipse")
    return ", ".join(options)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
