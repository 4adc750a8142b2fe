"""Make a scene from nodes: boxes for them and for the ends of the graph, wires for the values between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.core.text import shortened, told_apart
from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.drawing.cards import LONGEST, held_tensor, hint_of, label_of, rows_of
from onnx_passes.drawing.scene import Box, Kind, Role, Row, Scene, Wire
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.edits import used_values
from onnx_passes.graph.hashing.content import subgraphs
from onnx_passes.graph.wording import count, operator_name
from onnx_passes.ops.describe import family_of


@dataclass(frozen=True)
class Block:
    """Nodes drawn as one box: ``shown`` represent all of them, which repeat ``times`` times."""

    nodes: tuple[ir.Node, ...]
    shown: tuple[ir.Node | Block, ...] = ()
    times: int = 1
    name: str = ""


@dataclass(frozen=True)
class Ghosts:
    """Nodes of another graph that are drawn next to those of this one, and the mapping of their surroundings."""

    nodes: Mapping[ir.Graph, Sequence[ir.Node]] = field(default_factory=dict[ir.Graph, Sequence[ir.Node]])
    value: Callable[[ir.Value], ir.Value | None] = lambda value: value
    node: Callable[[ir.Node], ir.Node | None] = lambda node: node


@dataclass(frozen=True)
class Marks:
    """Special nodes: their roles, and removed ones."""

    roles: Mapping[ir.Node, Role] = field(default_factory=dict[ir.Node, Role])
    ghosts: Ghosts = field(default_factory=Ghosts)
    nested: bool = True
    """Whether subgraphs of nodes without a role are drawn, or only named."""

    def concern(self, graph: ir.Graph) -> bool:
        """Return whether any node inside a graph is marked."""
        inside = [*all_graphs(graph), graph]
        return any(each in self.ghosts.nodes for each in inside) or any(node in self.roles for node in all_nodes(graph))


def scene_of(
    graph: ir.Graph, items: Sequence[ir.Node | Block], marks: Marks, *, title: str = "", note: str = ""
) -> Scene:
    """Show nodes and blocks of a graph, given in topological order."""
    return _Builder(graph, marks, "", graph.opset_imports.get("")).scene(items, title or graph.name or "graph", note)


def is_drawn(node: ir.Node) -> bool:
    """Return whether a node has a separate box; constants are shown at their consumers."""
    return not (is_constant_node(node) and _is_held(node.outputs[0]))


def read_values(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the operands of a node, and the outer values that its subgraphs read, each once."""
    seen: set[ir.Value] = set()
    for value in used_values(node):
        if value is not None and value not in seen and not _is_held(value):
            seen.add(value)
            yield value


def _is_held(value: ir.Value) -> bool:
    return held_tensor(value) is not None


class _Builder:
    def __init__(self, graph: ir.Graph, marks: Marks, prefix: str, opset: int | None, *, part: bool = False) -> None:
        self.graph = graph
        self.marks = marks
        self.prefix = prefix
        self.opset = opset
        self.part = part
        self.boxes: dict[str, Box] = {}
        self.wires: dict[tuple[str, str, str], Wire] = {}
        self._owners: dict[ir.Value, str] = {}
        self._nets: dict[ir.Value, str] = {}
        self._ends = told_apart((value.name or "" for value in (*graph.inputs, *graph.outputs)), LONGEST)

    def scene(self, items: Sequence[ir.Node | Block], title: str, note: str) -> Scene:
        removed = () if self.part else self.marks.ghosts.nodes.get(self.graph, ())
        ghosts = [node for node in removed if is_drawn(node)]
        drawn = [item for item in items if isinstance(item, Block) or is_drawn(item)]
        keys = [f"{self.prefix}n{number}" for number in range(len(drawn) + len(ghosts))]
        inputs = [value for value in self.graph.inputs if not _is_held(value)]
        for number, value in enumerate(inputs):
            self._owners[value] = f"{self.prefix}i{number}"
        for key, item in zip(keys, (*drawn, *ghosts), strict=True):
            for node in item.nodes if isinstance(item, Block) else (item,):
                self._owners.update(dict.fromkeys(node.outputs, key))
        whole = _covers(self.graph, drawn)
        read = {value for item in drawn for node in _nodes(item) for value in read_values(node)}
        read.update(self._read_now(ghosts))
        for value in inputs:
            if whole or value in read:
                self._end(self._owners[value], "input", value)
        for key, item in zip(keys, drawn, strict=False):
            self.boxes[key] = self._block(key, item) if isinstance(item, Block) else self._node(key, item)
        for key, item in zip(keys, drawn, strict=False):
            for node in _nodes(item):
                self._connect(key, read_values(node))
        for key, node in zip(keys[len(drawn) :], ghosts, strict=True):
            self._ghost(key, node)
        self._outputs(drawn)
        return Scene(title, tuple(self.boxes.values()), tuple(self.wires.values()), note)

    def _node(self, key: str, node: ir.Node, role: Role = "") -> Box:
        inner: list[Scene] = []
        rows = list(rows_of(node, self.opset))
        for name, position, graph in subgraphs(node):
            label = f"{name}{f'[{position}]' if position else ''}"
            if self.marks.nested or self.marks.concern(graph):
                inner.append(_Builder(graph, self.marks, f"{key}.{label}.", self.opset).scene(list(graph), label, ""))
            else:
                rows.append(Row(label, count(sum(1 for _ in all_nodes(graph)), "node")))
        role = role or self.marks.roles.get(node, "")
        name = node.name or (node.outputs[0].name if node.outputs else "") or ""
        return Box(key, "node", node.op_type, name, tuple(rows), family_of(node), role, hint_of(node), tuple(inner))

    def _block(self, key: str, block: Block) -> Box:
        times = f" × {block.times}" if block.times > 1 else ""
        name = shortened(block.name, LONGEST, front=True)
        title = f"{name or count(len(block.nodes) // block.times, 'node')}{times}"
        inner: tuple[Scene, ...] = ()
        if block.shown:
            shown = _Builder(self.graph, self.marks, f"{key}.", self.opset, part=True).scene(block.shown, "", "")
            inner = (shown,)
        rows = () if block.shown else operator_rows(block.nodes)
        roles: set[Role] = {self.marks.roles[node] for node in block.nodes if node in self.marks.roles}
        role: Role = "changed" if len(roles) > 1 else roles.pop() if roles else ""
        return Box(key, "block", title, "", rows, "control", role, f"{count(block.nodes, 'node')}", inner)

    def _end(self, key: str, kind: Kind, value: ir.Value) -> str:
        if key not in self.boxes:
            name = value.name or "?"
            kind = "value" if self.part else kind
            hint = f"{kind} {name}: {label_of(value)}".rstrip(": ")
            shown = self._ends.get(name) or shortened(name, LONGEST, front=True)
            self.boxes[key] = Box(key, kind, shown, hint=hint)
        return key

    def _connect(self, key: str, values: Iterable[ir.Value], role: Role = "") -> None:
        for value in values:
            source = self._owners.get(value)
            if source is None:
                source = self._end(f"{self.prefix}v{len(self.boxes)}", "value", value)
                self._owners[value] = source
            if source != key:
                self._wire(source, key, value, role)

    def _wire(self, source: str, target: str, value: ir.Value, role: Role = "") -> None:
        net = self._nets.setdefault(value, f"{self.prefix}{len(self._nets)}")
        self.wires.setdefault((source, target, net), Wire(source, target, net, label_of(value), role))

    def _ghost(self, key: str, node: ir.Node) -> None:
        ghosts = self.marks.ghosts
        self.boxes[key] = self._node(key, node, "removed")
        self._connect(key, self._read_now([node]), "removed")
        for value in node.outputs:
            for reader, _ in value.uses():
                partner = ghosts.node(reader)
                target = None if partner is None or not partner.outputs else self._owners.get(partner.outputs[0])
                if partner is not None and partner.graph is self.graph and target is not None and target != key:
                    self._wire(key, target, value, "removed")

    def _read_now(self, nodes: Iterable[ir.Node]) -> list[ir.Value]:
        """Return the current values that removed nodes read."""
        return [
            now for node in nodes for value in read_values(node) if (now := self.marks.ghosts.value(value)) is not None
        ]

    def _outputs(self, drawn: Sequence[ir.Node | Block]) -> None:
        """Show outputs of the graph, and values for nodes that are not shown."""
        results = {value: number for number, value in reversed([*enumerate(self.graph.outputs)])}
        for number, value in enumerate(self.graph.outputs):
            source = self._owners.get(value)
            if source in self.boxes and results[value] == number:
                self._wire(source, self._end(f"{self.prefix}o{number}", "output", value), value)
        inside = {node: None for item in drawn for node in _nodes(item)}
        for value in [value for node in inside for value in node.outputs if value not in results]:
            readers = [reader for reader, _ in value.uses() if reader.graph is self.graph]
            if readers and not any(reader in inside for reader in readers):
                target = self._end(f"{self.prefix}v{len(self.boxes)}", "value", value)
                self._wire(self._owners[value], target, value)


def operator_rows(nodes: Iterable[ir.Node]) -> tuple[Row, ...]:
    """Count operators, the most frequent ones first."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[operator_name(node)] = counts.get(operator_name(node), 0) + 1
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    rows = [Row(name, str(number)) for name, number in ranked[:6]]
    return (*rows, Row(f"… {len(ranked) - 6} more", "")) if len(ranked) > 6 else tuple(rows)


def _nodes(item: ir.Node | Block) -> tuple[ir.Node, ...]:
    return item.nodes if isinstance(item, Block) else (item,)


def _covers(graph: ir.Graph, items: Iterable[ir.Node | Block]) -> bool:
    shown = {node for item in items for node in _nodes(item)}
    return all(node in shown or not is_drawn(node) for node in graph)
