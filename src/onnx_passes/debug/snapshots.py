"""What nodes and values are in a model before and after a pass, and what took the place of what."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.debug.items import Item, item_of, item_of_value

Thing = ir.Node | ir.Value
Pair = tuple[Item, Item]
"""Something new, and what it stands for."""


@dataclass(frozen=True)
class Changes:
    """What was added and removed; ``links`` says which new thing was made of which old one.

    ``heirs`` were there before, and are now used in the place of something that is gone.
    """

    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    links: tuple[Pair, ...] = ()
    heirs: tuple[Pair, ...] = ()


class Snapshot:
    """Nodes, initializers and inputs of the graph and its subgraphs, described as they are now."""

    def __init__(self, model: ir.Model) -> None:
        self.things: dict[Thing, Item] = {}
        self.slots: dict[Thing | None, tuple[ir.Value | None, ...]] = {None: tuple(model.graph.outputs)}
        self.attributes: dict[Thing, tuple[ir.Attr, ...]] = {}
        for graph in (model.graph, *model.graph.subgraphs()):
            for value in (*graph.inputs, *graph.initializers.values()):
                self.things[value] = item_of_value(value)
        for node in model.graph.all_nodes():
            self.things[node] = item_of(node)
            self.slots[node] = tuple(node.inputs)
            self.attributes[node] = tuple(node.attributes.values())

    def by_name(self) -> dict[str, Item]:
        """Map names to items; a name of a node goes before the same name of a value."""
        values = {name: item for item in self.things.values() for name in item.outputs if name}
        return values | {item.name: item for item in self.things.values() if item.name}


def changes(before: Snapshot, after: Snapshot, explained: Collection[Thing]) -> Changes:
    """Compare two snapshots by identity and, for models that were built anew, by description.

    A node that got another operator, other attributes or other names is made of itself. Any other new thing is made
    of what is gone if its results have the same name, or are now used where those were. Things that are explained
    already are left out.
    """
    gone = {thing: item for thing, item in before.things.items() if thing not in after.things}
    new = {thing: item for thing, item in after.things.items() if thing not in before.things}
    _forget_rebuilt(gone, new)
    for thing in explained:
        gone.pop(thing, None)
        new.pop(thing, None)
    changed = [
        (item, before.things[thing])
        for thing, item in after.things.items()
        if thing in before.things and thing not in explained and _is_changed(thing, before, after)
    ]
    links: dict[Pair, None] = dict.fromkeys(changed)
    heirs: dict[Pair, None] = {}
    by_result = {name: item for item in new.values() for name in item.outputs if name}
    for item in gone.values():
        links.update({(by_result[name], item): None for name in item.outputs if name in by_result})
    for old, now in _rewired(before, after):
        if old in gone and now in after.things:
            (links if now in new else heirs)[after.things[now], gone[old]] = None
    return Changes(
        (*(item for item, _ in changed), *new.values()),
        (*(item for _, item in changed), *gone.values()),
        tuple(links),
        tuple(heirs),
    )


def _forget_rebuilt(gone: dict[Thing, Item], new: dict[Thing, Item]) -> None:
    """Take what looks just like before as the same."""
    known = {item: thing for thing, item in gone.items()}
    for thing, item in list(new.items()):
        same = known.pop(item, None)
        if same is not None:
            del new[thing], gone[same]


def _is_changed(thing: Thing, before: Snapshot, after: Snapshot) -> bool:
    """Tell whether a thing itself changed; inputs change with what is around it."""
    old, new = before.things[thing], after.things[thing]
    if (old.op, old.name, old.outputs) != (new.op, new.name, new.outputs):
        return True
    attributes = before.attributes.get(thing, ()), after.attributes.get(thing, ())
    return list(map(id, attributes[0])) != list(map(id, attributes[1]))


def _rewired(before: Snapshot, after: Snapshot) -> Iterator[tuple[Thing, Thing]]:
    """List what computed an input that a remaining node got from elsewhere, and what computes it now."""
    for user, old_values in before.slots.items():
        new_values = after.slots.get(user)
        # The tuple of inputs is made anew whenever one is replaced.
        if new_values is None or new_values is old_values:
            continue
        for old, new in zip(old_values, new_values, strict=False):
            if old is not None and new is not None and old is not new:
                yield _source(old), _source(new)


def _source(value: ir.Value) -> Thing:
    return value.producer() or value
