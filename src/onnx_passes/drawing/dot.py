"""Write a scene in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_passes.drawing.palette import fill_colour, line_colour
from onnx_passes.drawing.scene import Box, Scene


def dot_text(scene: Scene) -> str:
    """Return a digraph, in which nested graphs are clusters."""
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
        options += [f'color="{line_colour(wire.role)}"', "style=dashed"] if wire.role else []
        attributes = f" [{', '.join(options)}]" if options else ""
        yield f"{indent}{_quoted(wire.source)} -> {_quoted(wire.target)}{attributes};"


def _box(box: Box) -> str:
    options = [f"label={_quoted(chr(10).join(box.lines))}"]
    options.append(f'color="{line_colour(box.role)}", fillcolor="{fill_colour(box.role)}"')
    if not box.is_card:
        options.append("shape=ellipse")
    return ", ".join(options)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
