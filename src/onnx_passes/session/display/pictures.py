"""Drawings on pages: a graph, or the neighbourhood of its relevant nodes."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.drawing.draw import draw
from onnx_passes.drawing.drawing import Drawing
from onnx_passes.graph.diff import ModelDiff
from onnx_passes.session.display.html import Html, element
from onnx_passes.session.finding import Matches

_NODES = 40
"""Maximum number of drawn nodes: larger graphs are summarised, or reduced to coloured nodes and their neighbours."""


def picture_of_graph(graph: ir.Graph) -> Html:
    """Draw a graph, or a summary of a large one."""
    return _picture(lambda: draw(graph, limit=_NODES))


def picture_of_node(node: ir.Node) -> Html:
    """Draw a node and its neighbours."""
    return _picture(lambda: draw(node, hops=1, limit=_NODES)) if node.graph is not None else Html("")


def picture_of_diff(diff: ModelDiff) -> Html:
    """Draw the changes and their neighbours; removed nodes are shown at their old positions."""
    changed = [each.after for each in diff.changed]
    here = next((node.graph for node in (*diff.added, *changed, *diff.removed) if node.graph is not None), None)
    if here is None:
        return Html("")
    marks = {"added": diff.added, "removed": diff.removed, "changed": changed}
    return _picture(lambda: draw(here, highlight=marks, hops=1, limit=_NODES))


def picture_of_matches(matches: Matches) -> Html:
    """Draw the matches and their neighbours."""
    nodes = [node for node in matches.nodes if node.graph is not None]
    if not nodes:
        return Html("")
    here = [node for node in nodes if node.graph is nodes[0].graph][:_NODES]
    return _picture(lambda: draw(matches.model, around=here, highlight={"found": here}, hops=1, limit=_NODES))


def _picture(make: Callable[[], Drawing]) -> Html:
    """Put a drawing into a scrolling box; if drawing fails, the text next to it remains."""
    try:
        return element("div", Html(make().to_svg(theme="notebook")), of="picture")
    except OnnxPassesError:
        return Html("")
