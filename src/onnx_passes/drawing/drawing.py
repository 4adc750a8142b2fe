"""A drawing of a graph, and its file formats: SVG, PNG and the language of Graphviz."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.drawing.layout import Placed, lay_out
from onnx_passes.drawing.palette import fill_colour, line_colour
from onnx_passes.drawing.scene import Box, Scene
from onnx_passes.drawing.svg import Theme, svg_text
from onnx_passes.graph.atomic import is_special, replacing


class Drawing:
    """Drawing of a graph: displayed by notebooks, saved as SVG, PNG, HTML, DOT, Mermaid or GraphML."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __repr__(self) -> str:
        return f"<Drawing of {self.description}>"

    @property
    def description(self) -> str:
        """Describe the picture in one line."""
        boxes = list(self.scene.all_boxes())
        roles = [f"{sum(box.role == role for box in boxes)} {role}" for role in self.scene.roles]
        return ", ".join(filter(None, (self.scene.title, self.scene.note, *roles)))

    @cached_property
    def _placed(self) -> Placed:
        return lay_out(self.scene)

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the graph in pixels, without its heading."""
        return round(self._placed.width), round(self._placed.height)

    @cached_property
    def svg(self) -> str:
        """Return the picture as SVG, stand-alone or in a page, in the light or dark theme of the reader."""
        return self.to_svg()

    def to_svg(self, *, theme: Theme = "auto") -> str:
        """Return the drawing as SVG with a fixed theme, or that of its notebook."""
        return svg_text(self._placed, theme=theme, description=self.description)

    @property
    def dot(self) -> str:
        """Return the graph in the language of Graphviz."""
        from onnx_passes.drawing.drawing import dot_text

        return dot_text(self.scene)

    @property
    def mermaid(self) -> str:
        """Return the graph in the language of Mermaid, as Markdown pages take it."""
        from onnx_passes.drawing.graphml import mermaid_text

        return mermaid_text(self.scene)

    @property
    def graphml(self) -> str:
        """Return the graph as GraphML, for NetworkX, Gephi and yEd."""
        from onnx_passes.drawing.graphml import graphml_text

        return graphml_text(self._placed)

    def save(self, path: str | PathLike[str], *, theme: Theme = "auto", scale: float = 2.0) -> Path:
        """Write the drawing in the format of the suffix, and return the path.

        ``.svg``, ``.png``, ``.html``, ``.dot`` or ``.gv``, ``.mmd`` or ``.mermaid``, ``.graphml``. PNG has ``scale``
        pixels for each of SVG, and needs ``resvg-py``: ``pip install 'onnx-passes[draw]'``.
        """
        target = Path(path)
        make = self._formats(theme, scale).get(target.suffix.lower())
        if make is None:
            known = ", ".join(self._formats(theme, scale))
            raise UsageError(
                f"'{target.suffix}' is not a format of drawings", where=str(path), hint=f"there are {known}"
            )
        write_bytes(target, make())
        return target

    def _formats(self, theme: Theme, scale: float) -> dict[str, Callable[[], bytes]]:
        def png() -> bytes:
            from onnx_passes.drawing.drawing import png_bytes

            return png_bytes(self.to_svg(theme="dark" if theme == "dark" else "light"), scale, self.size)

        def dot() -> bytes:
            return self.dot.encode()

        def mermaid() -> bytes:
            return self.mermaid.encode()

        def graphml() -> bytes:
            return self.graphml.encode()

        return {
            ".svg": lambda: self.to_svg(theme=theme).encode(),
            ".png": png,
            ".dot": dot,
            ".gv": dot,
            ".mmd": mermaid,
            ".mermaid": mermaid,
            ".graphml": graphml,
            ".html": lambda: self._page().encode(),
        }

    def _page(self) -> str:
        head = '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        return f"{head}<title>onnx-passes</title>{self.svg}"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Display the drawing in a notebook, in a box that scrolls if it is large."""
        wanted = set(include or ("text/html", "text/plain")) - set(exclude or ())
        style = "overflow:auto;max-height:640px;max-width:100%"
        makers: dict[str, Callable[[], str]] = {
            "text/html": lambda: f'<div style="{style}">{self.to_svg(theme="notebook")}</div>',
            "image/svg+xml": lambda: self.svg,
            "text/plain": lambda: repr(self),
        }
        return {mime: make() for mime, make in makers.items() if mime in wanted}


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    try:
        if is_special(path):
            path.write_bytes(data)
            return
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror or error}", where=str(path), hint="choose another place"
        ) from error


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


_LARGEST = 16_000
"""Maximum number of pixels per side that viewers support."""


def png_bytes(svg: str, scale: float, size: tuple[int, int]) -> bytes:
    """Render SVG, with fewer pixels if it would exceed the limits of viewers."""
    try:
        renderer: Any = importlib.import_module("resvg_py")
    except ImportError:
        raise UsageError(
            "PNG needs the package resvg-py",
            hint="pip install 'onnx-passes[draw]', or save as .svg",
        ) from None
    factor = min(scale, _LARGEST / max(*size, 1))
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=factor))
