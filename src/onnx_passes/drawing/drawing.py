"""A drawing of a graph, and its file formats."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.drawing.layout import Placed, lay_out
from onnx_passes.drawing.scene import Scene
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
        from onnx_passes.drawing.dot import dot_text

        return dot_text(self.scene)

    @property
    def mermaid(self) -> str:
        """Return the graph in the language of Mermaid, as Markdown pages take it."""
        from onnx_passes.drawing.mermaid import mermaid_text

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
            from onnx_passes.drawing.png import png_bytes

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
