"""Put a replacement into the graph: names stay unique, the interface stays, annotations go along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.core.errors import RewriteError
from onnx_passes.graph.annotations import referenced_names
from onnx_passes.graph.edits import (
    carry_annotations,
    copy_type_and_shape,
    detach,
    remove_if_dead,
    replace_value,
)
from onnx_passes.graph.names import Container, Names
from onnx_passes.rewrite.builder import Builder
from onnx_passes.rewrite.match import Match


@dataclass
class Scope:
    """One graph with its subgraphs, or one function: what shares names and opset imports."""

    model: ir.Model
    container: Container
    _names: Names | None = None
    _keep: set[str] | None = None

    @property
    def names(self) -> Names:
        """Return the names in use, collected when first needed."""
        if self._names is None:
            self._names = Names.of(self.container)
        return self._names

    @property
    def keep(self) -> set[str]:
        """Return the names that quantization annotations refer to: their tensors look unused but are not."""
        if self._keep is None:
            self._keep = referenced_names(self.container)
        return self._keep


@dataclass
class Change:
    """What an application did to the graph."""

    added: list[ir.Node]
    removed: list[ir.Node] = field(default_factory=list[ir.Node])


def check_replacement(builder: Builder, match: Match, new: Sequence[object], imports: dict[str, int]) -> None:
    """Refuse what cannot be put in place, before anything is touched."""
    if len(new) != len(match.output_values):
        raise RewriteError(f"the rewrite returns {len(new)} values for the {len(match.output_values)} of its pattern")
    for old, value in zip(match.output_values, new, strict=True):
        if not isinstance(value, ir.Value):
            raise RewriteError(
                f"the rewrite returns {type(value).__name__} for '{old.name}'",
                hint="return values built by op",
            )
        if old.is_graph_output() and None not in (old.dtype, value.dtype) and old.dtype != value.dtype:
            raise RewriteError(f"graph output '{old.name}' would change from {old.dtype} to {value.dtype}")
    for domain, version in builder.opsets.items():
        if version is not None and imports.get(domain, version) != version:
            raise RewriteError(
                f"the rewrite needs opset {version} of domain '{domain}', the model imports {imports[domain]}",
                hint="convert the opset first",
            )


def splice(scope: Scope, builder: Builder, match: Match, new: Sequence[ir.Value], anchor: ir.Node) -> Change:
    """Insert what the rewrite built after ``anchor``, use it instead of the old values, remove what died."""
    graph = anchor.graph
    assert graph is not None
    _import_opsets(scope, builder)
    nodes = _drop_unused(builder, new)
    fresh = {output: node.op_type for node in nodes for output in node.outputs}
    initializers = [value for value in builder.initializers if value.uses() or value in new]
    for value in initializers:
        value.name = scope.names.value(value.name or "constant")
        graph.register_initializer(value)
    _name_nodes(scope.names, nodes, match)
    for value in [value for value in fresh if value not in new]:
        value.name = scope.names.value(value.name or f"{_base_name(match)}_{fresh[value]}")
    graph.insert_after(anchor, nodes)
    _merge_node_metadata(nodes, match)

    change = Change(nodes)
    for old, value in zip(match.output_values, new, strict=True):
        if value in fresh:
            del fresh[value]
            _take_place(scope.names, old, value)
        elif value is not old:
            identity = replace_value(old, value, scope.names)
            if identity is not None:
                change.added.append(identity)
    change.removed = remove_if_dead(match.nodes, scope.keep)
    return change


def _take_place(names: Names, old: ir.Value, new: ir.Value) -> None:
    """Let a new value take name, type, shape and annotations of the old one."""
    name = old.name
    copy_type_and_shape(old, new)
    carry_annotations(old, new)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    if name is not None:
        old.name = names.value(f"{name}_old")
        new.name = name
    else:
        new.name = names.value(new.name or "value")


def _import_opsets(scope: Scope, builder: Builder) -> None:
    for domain, version in builder.opsets.items():
        wanted = version or scope.model.graph.opset_imports.get(domain, 1)
        scope.container.opset_imports.setdefault(domain, wanted)
        scope.model.graph.opset_imports.setdefault(domain, wanted)


def _drop_unused(builder: Builder, new: Sequence[ir.Value]) -> list[ir.Node]:
    """Keep the built nodes that the result uses."""
    needed = {value.producer() for value in new}
    kept: list[ir.Node] = []
    for node in reversed(builder.nodes):
        if node in needed or any(use.node in needed for output in node.outputs for use in output.uses()):
            needed.add(node)
            kept.append(node)
        else:
            detach(node)
    return kept[::-1]


def _base_name(match: Match) -> str:
    return match.output_values[0].name or "value"


def _name_nodes(names: Names, nodes: Sequence[ir.Node], match: Match) -> None:
    base = match.root.name or _base_name(match)
    for node in nodes:
        node.name = names.node(node.name or (base if len(nodes) == 1 else f"{base}/{node.op_type}"))


def _merge_node_metadata(nodes: Sequence[ir.Node], match: Match) -> None:
    """Let new nodes say what the matched ones said; the root has the last word."""
    merged: dict[str, str] = {}
    for node in (*match.nodes, match.root):
        merged.update(node.metadata_props)
    if merged:
        for node in nodes:
            for key, text in merged.items():
                node.metadata_props.setdefault(key, text)
