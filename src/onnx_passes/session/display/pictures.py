"""Drawings on pages: the neighbourhood of what matters."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.diff import ModelDiff
from onnx_passes.session.display.html import Html
from onnx_passes.session.finding import Matches


def picture_of_diff(diff: ModelDiff) -> Html:
    """Draw what changed and what is next to it."""
    return Html("")


def picture_of_matches(matches: Matches) -> Html:
    """Draw what was found and what is next to it."""
    return Html("")


def picture_of_graph(graph: ir.Graph) -> Html:
    """Draw a graph, or a summary of a large one."""
    return Html("")


def picture_of_node(node: ir.Node) -> Html:
    """Draw a node and what is next to it."""
    return Html("")
