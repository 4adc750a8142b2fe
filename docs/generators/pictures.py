"""Graphs before and after as HTML: removed nodes are red in the first, added nodes green in the second."""

from __future__ import annotations

import re

import onnx_ir as ir

import onnx_passes
from generators.examples import Example
from onnx_passes.drawing.draw import marks_between

_STYLE = re.compile("<style>.*?</style>", re.DOTALL)
PAGE_STYLE = """<style>
.before-after { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; margin: 1rem 0; }
.before-after figure { margin: 0; overflow-x: auto; max-width: 100%; }
.before-after figcaption { font-size: 0.85rem; opacity: 0.75; }
</style>"""


def before_after(example: Example) -> str:
    """Draw both graphs; nodes that are in both have no colour."""
    before, after = example.before, example.after
    marks = marks_between(before.graph, after.graph)
    removed = [node for nodes in marks.ghosts.nodes.values() for node in nodes]
    new: dict[str, list[ir.Node]] = {}
    for node, role in marks.roles.items():
        new.setdefault(role, []).append(node)
    first = onnx_passes.draw(before, highlight={"removed": removed} if removed else None, title="before")
    second = onnx_passes.draw(after, highlight=new, title="after")
    # Styles apply to the whole page: one copy is enough.
    drawn = (first.to_svg(theme="notebook"), _STYLE.sub("", second.to_svg(theme="notebook")))
    figures = "".join(f"<figure>{picture.strip()}</figure>" for picture in drawn)
    return f'{PAGE_STYLE}\n<div class="before-after">{figures}</div>'


def is_visible(example: Example) -> bool:
    """Return whether a drawing shows the change; names, annotations and the order of nodes are invisible."""
    drawn = [onnx_passes.draw(model, title="model").svg for model in (example.before, example.after)]
    return drawn[0] != drawn[1]
