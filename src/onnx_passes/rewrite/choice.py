"""Restrict rewrites: protected nodes, and selected nodes if only these may be rewritten."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import cast

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, PassFailedError, did_you_mean
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.wording import name_of

KEPT = "onnx_passes.keep"
MEANT = "onnx_passes.only"


class Choice:
    """The protected nodes, and the selected ones, as stored in the metadata of a model.

    Replacements of selected nodes are selected as well.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._kept = names_in(model, KEPT) or frozenset()
        self._meant = names_in(model, MEANT)

    def refusal(self, nodes: Sequence[ir.Node]) -> str:
        """Return the reason why some nodes must not be rewritten; empty if they may."""
        if self._kept and (kept := next((node for node in nodes if _is_among(node, self._kept)), None)) is not None:
            return f"{name_of(kept) if len(nodes) > 1 else 'it'} is kept as it is"
        if self._meant is not None and not any(_is_among(node, self._meant) for node in nodes):
            return "'only' names other nodes"
        return ""

    def follow(self, added: Iterable[ir.Node]) -> None:
        """Select the replacements of selected nodes."""
        if self._meant is not None:
            self._meant |= {_label(node) for node in added}
            write_names(self._model, MEANT, self._meant)


def names_in(model: ir.Model, key: str) -> frozenset[str] | None:
    """Return the names that a model carries under a key."""
    text = model.metadata_props.get(key)
    if text is None:
        return None
    try:
        found: object = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise ModelError("the text is no list of names", where=f"{key} of the model", hint="remove it")
    return frozenset(map(str, cast("list[object]", found)))


def write_names(model: ir.Model, key: str, names: Collection[str] | None) -> bool:
    """Store names in the metadata of a model under a key, or remove them; return whether that changed anything."""
    before = model.metadata_props.get(key)
    if names is None:
        model.metadata_props.pop(key, None)
    else:
        model.metadata_props[key] = json.dumps(sorted(names))
    return model.metadata_props.get(key) != before


def chosen(model: ir.Model, patterns: Iterable[str]) -> frozenset[str]:
    """Return the labels of all nodes whose name, operator or result matches a pattern such as ``conv1*``."""
    nodes = [node for container in (model.graph, *model.functions.values()) for node in all_nodes(container)]
    found: set[str] = set()
    for pattern in patterns:
        fitting = {_label(node) for node in nodes if any(fnmatchcase(text, pattern) for text in texts_of(node))}
        if not fitting:
            known = dict.fromkeys(text for node in nodes for text in texts_of(node))
            raise PassFailedError(
                f"no node fits '{pattern}'",
                hint=did_you_mean(pattern, known) or "give the name of a node, of its result or of an operator",
            )
        found |= fitting
    return frozenset(found)


def _label(node: ir.Node) -> str:
    """Return the label of a node in metadata: its name, or its results if it has none."""
    return node.name or _results(node)


def _is_among(node: ir.Node, labels: Collection[str]) -> bool:
    # A node may have got its name only after it was chosen by its results.
    return node.name in labels or _results(node) in labels


def _results(node: ir.Node) -> str:
    return f"-> {', '.join(str(value.name or '') for value in node.outputs)}"


def texts_of(node: ir.Node) -> list[str]:
    """Return the texts that patterns match: the name of a node, its operator, its results."""
    return [text for text in (node.name, node.op_type, *(value.name for value in node.outputs)) if text]
