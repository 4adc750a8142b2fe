"""Quantization annotations of values: text by key, written to the file as ``quantization_annotation``.

ONNX defines keys such as ``SCALE_TENSOR`` and ``ZERO_POINT_TENSOR``, whose text is the *name* of another
tensor; QONNX and FINN add keys such as ``finn_datatype``, whose text is the value itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import onnx_ir as ir

from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.hashing.snapshot import ANNOTATIONS

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, MutableMapping

KEY = ANNOTATIONS
"""Key of the annotations of a value in ``value.meta`` of onnx_ir."""

_NAMES_A_TENSOR = "_TENSOR"
_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


def get(value: ir.Value) -> dict[str, str]:
    """Return the annotations of a value, as a copy; empty if it has none."""
    # Reading `meta` allocates a store for every value, that is for most of a large graph.
    if value._metadata is None:  # pyright: ignore[reportPrivateUsage]
        return {}
    return dict(_store(value).get(KEY) or {})


def merge(into: ir.Value, other: ir.Value | Mapping[str, str]) -> None:
    """Add the missing annotations of another value; existing ones stay."""
    added = get(other) if isinstance(other, ir.Value) else dict(other)
    if added:
        set(into, added | get(into))


def values(graph: ir.Graph | ir.Function) -> Iterator[ir.Value]:
    """Yield every value that a graph and its subgraphs define: inputs, initializers and results of nodes."""
    scopes: list[ir.Graph | ir.Function] = [graph]
    for scope in scopes:
        yield from scope.inputs
        if isinstance(scope, ir.Graph):
            yield from (value for value in scope.initializers.values() if not value.is_graph_input())
        for node in scope:
            yield from node.outputs
            # Inlined like `all_nodes`: a call for each node would dominate the cost.
            for attribute in node.attributes.data.values():
                kind = attribute.type
                if kind is _GRAPH or kind is _GRAPHS:
                    scopes.extend(nested_graphs(node))
                    break


def referenced_names(graph: ir.Graph | ir.Function) -> builtins.set[str]:
    """Return the names of tensors that annotations refer to: these must not be removed, or renamed alone."""
    return {
        text
        for value in values(graph)
        if value._metadata is not None  # pyright: ignore[reportPrivateUsage]
        for key, text in get(value).items()
        if key.endswith(_NAMES_A_TENSOR)
    }


def rename_references(graph: ir.Graph | ir.Function, names: Mapping[str, str]) -> int:
    """Rename the references of annotations to tensors; return their number."""
    renamed = 0
    for value in values(graph):
        annotation = get(value)
        stale = [k for k, text in annotation.items() if k.endswith(_NAMES_A_TENSOR) and text in names]
        if stale:
            set(value, annotation | {key: names[annotation[key]] for key in stale})
            renamed += len(stale)
    return renamed


def set(value: ir.Value, annotation: Mapping[str, str]) -> None:  # noqa: A001 - reads as `annotations.set`
    """Replace the annotations of a value; an empty mapping removes them."""
    if annotation:
        _store(value)[KEY] = dict(annotation)
    else:
        _store(value).pop(KEY, None)


def _store(value: ir.Value) -> MutableMapping[str, dict[str, str]]:
    return cast("MutableMapping[str, dict[str, str]]", value.meta)
