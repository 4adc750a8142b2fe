"""The findings of a visit of a model: new, changed and removed nodes and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_

import onnx_ir as ir

from onnx_passes.history.versions import Description, Interface, NodeVersion, ValueVersion

_SCOPES = ("namespace", "pkg.torch.onnx.name_scopes")
"""Metadata in which exporters store the module of a node."""


@dataclass(slots=True, eq=False)
class KnownNode:
    """Existing node: its version, and the objects whose identity shows changes without comparing texts."""

    version: NodeVersion
    operator: tuple[str, str, str, str | None]
    inputs: Sequence[ir.Value | None]
    attributes: tuple[ir.Attr, ...]
    outputs: Sequence[ir.Value]


@dataclass(slots=True)
class Seen:
    """The changes that a visit of a model, or of a part of it, found."""

    fresh: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])
    altered: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])
    gone: dict[ir.Node, KnownNode] = field(default_factory=dict[ir.Node, KnownNode])
    values: dict[ir.Value, Description] = field(default_factory=dict[ir.Value, Description])
    lost: dict[ir.Value, ValueVersion] = field(default_factory=dict[ir.Value, ValueVersion])
    slots: list[tuple[ir.Value | None, ir.Value | None]] = field(
        default_factory=list[tuple[ir.Value | None, ir.Value | None]]
    )
    interfaces: list[Interface] = field(default_factory=list[Interface])


@dataclass(slots=True)
class Present:
    """Everything in a model."""

    graphs: set[ir.Graph] = field(default_factory=set[ir.Graph])
    nodes: set[ir.Node] = field(default_factory=set[ir.Node])
    values: set[ir.Value] = field(default_factory=set[ir.Value])


def is_altered(node: ir.Node, known: KnownNode, number: int) -> bool:
    """Return whether a node may differ from its version."""
    return (
        known.inputs is not node.inputs
        or known.version.graph != number
        or known.operator != (node.domain, node.op_type, node.overload, node.name)
        or known.outputs is not node.outputs
        or not same_objects(known.attributes, node.attributes.data.values())
    )


def same_objects(a: Sequence[object], b: Iterable[object]) -> bool:
    """Return whether two sequences hold the same objects."""
    others = tuple(b)
    return len(a) == len(others) and all(map(is_, a, others))


def look_of(version: NodeVersion) -> tuple[object, ...]:
    """Return all properties of a node."""
    return version.graph, version.op, version.name, version.inputs, version.outputs, tuple(version.texts.items())


def scope_of(node: ir.Node) -> str:
    """Return the modules of a node as its exporter wrote them."""
    texts = node._metadata_props  # pyright: ignore[reportPrivateUsage]
    return next((texts[key] for key in _SCOPES if key in texts), "") if texts else ""
