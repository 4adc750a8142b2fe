"""Map the nodes of one graph to those of another that is wired the same, whatever everything is called.

What reaches an output is paired by walking back from the outputs, without a choice anywhere. What reaches none
is paired by colour and by search, one connected piece after the other.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError, did_you_mean
from onnx_passes.graph.equality import Structure, compare
from onnx_passes.graph.hashing.canonical import Numbering
from onnx_passes.graph.hashing.content import Contents, Key, digest, present_inputs
from onnx_passes.graph.hashing.dead_nodes import dead_colours
from onnx_passes.graph.lockstep import Difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Relaxation: TypeAlias = Literal["constants", "attributes", "interface"]
Element: TypeAlias = "ir.Node | ir.Value"
Link: TypeAlias = "tuple[str | int, ...]"

_RELAXATIONS = ("constants", "attributes", "interface")
_CONSTANT = ("", "Constant", "")
# Attempts per element; what needs more is made of look-alikes that no network has.
_PATIENCE = 100


def isomorphic(a: Structure, b: Structure, *, ignore: Iterable[Relaxation] = ()) -> bool:
    """Say whether two models are wired the same, up to what is ignored.

    ``constants``: elements of tensors, and what Constant nodes hold; type and shape still count.
    ``attributes``: all attributes but graphs and those of Constant nodes.
    ``interface``: the names of inputs and outputs; their order and types still count.
    """
    return isomorphism(a, b, ignore=ignore) is not None


def isomorphism(
    a: Structure, b: Structure, *, ignore: Iterable[Relaxation] = ("interface",)
) -> dict[ir.Node, ir.Node] | None:
    """Return for each node of ``a``, nested ones included, that of ``b``; None if they are not wired alike."""
    ignored = set[str](ignore)
    for word in ignored.difference(_RELAXATIONS):
        raise UsageError(f"'{word}' cannot be ignored", hint=did_you_mean(word, _RELAXATIONS))
    contents = _RelaxedContents(constants="constants" in ignored, attributes="attributes" in ignored)
    outcome = compare(a, b, contents, names="interface" not in ignored)
    if isinstance(outcome, Difference):
        return None
    mapping = dict(outcome.nodes)
    if not outcome.covers_all():
        search = _Search(_Rest(_graph(a), contents), _Rest(_graph(b), contents))
        if not search.run():
            return None
        mapping.update(
            (node, image)
            for node, image in search.images.items()
            if isinstance(node, ir.Node) and isinstance(image, ir.Node)
        )
    return mapping


def _graph(structure: Structure) -> ir.Graph:
    return structure if isinstance(structure, ir.Graph) else structure.graph


class _RelaxedContents(Contents):
    """Keys that leave out what is ignored."""

    def __init__(self, *, constants: bool, attributes: bool) -> None:
        super().__init__()
        self._ignore_constants = constants
        self._ignore_attributes = attributes

    def tensor(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the digest of a tensor, without its elements if constants are ignored."""
        if not self._ignore_constants:
            return super().tensor(tensor)
        return digest(int(tensor.dtype), tuple(tensor.shape.numpy()))

    def node(self, node: ir.Node) -> tuple[Key, ...]:
        """Return the key of a node without the attributes that are ignored."""
        key = super().node(node)
        operator, outputs, attributes = key[:3], key[3], key[4:]
        if operator == _CONSTANT:
            if not self._ignore_constants:
                return key
            return (*operator, outputs, *map(self._held, node.attributes.values()))
        if not self._ignore_attributes:
            return key
        graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        kept = {attribute.name for attribute in node.attributes.values() if attribute.type in graphs}
        kept_keys = (entry for entry in attributes if isinstance(entry, tuple) and entry[0] in kept)
        return (*operator, outputs, *kept_keys)

    def _held(self, attribute: ir.Attr) -> Key:
        """Return what is known of a constant without its value: type and shape."""
        if attribute.type == ir.AttributeType.TENSOR:
            return self.attribute(attribute)
        value = cast("object", attribute.value)
        length = len(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else None
        return (attribute.name, int(attribute.type), length)


class _Rest:
    """What reaches no output of a graph: each element with its colour and its links to others.

    A link leads to exactly one element (``links``); backwards it leads to any number, kept by their colour
    (``back``).
    """

    def __init__(self, graph: ir.Graph, contents: Contents) -> None:
        layout = Numbering(graph)
        self.colours = dead_colours(layout, contents)
        self.links: dict[Element, dict[Link, Element]] = {}
        self.back: dict[Element, dict[tuple[Link, bytes], list[Element]]] = {}
        for element, colour in self.colours.items():
            self.links[element] = dict(_links(element, layout))
            for link, target in self.links[element].items():
                self.back.setdefault(target, {}).setdefault((link, colour), []).append(element)

        self.sizes = self._sizes_of_pieces()

    def _sizes_of_pieces(self) -> dict[Element, int]:
        """Return for each element how many are connected to it."""
        sizes: dict[Element, int] = {}
        for start in self.colours:
            if start not in sizes:
                piece = {start: None}
                pending = [start]
                while pending:
                    element = pending.pop()
                    for _, other in (*self.links[element].items(), *self.sources(element)):
                        if other not in piece:
                            piece[other] = None
                            pending.append(other)
                sizes.update(dict.fromkeys(piece, len(piece)))
        return sizes

    def sources(self, element: Element) -> Iterator[tuple[Link, Element]]:
        """Return the elements that link to this one."""
        for (link, _), elements in self.back.get(element, {}).items():
            for source in elements:
                yield link, source


def _links(element: Element, layout: Numbering) -> Iterator[tuple[Link, Element]]:
    holder = layout.holders.get(element.graph) if element.graph is not None else None
    if holder is not None and holder.node in layout.dead_nodes:
        yield ("home", holder.attribute, holder.position), holder.node
    if isinstance(element, ir.Value):
        return
    for position, value in enumerate(present_inputs(element)):
        if value is not None:
            yield from _source(("input", position), value, layout)
    for number, graph in enumerate(layout.held.get(element, ())):
        for position, value in enumerate(graph.outputs):
            yield from _source(("output", number, position), value, layout)


def _source(link: Link, value: ir.Value, layout: Numbering) -> Iterator[tuple[Link, Element]]:
    producer = value.producer()
    if value in layout.dead_leaves:
        yield link, value
    elif producer in layout.dead_nodes:
        yield (*link, value.index() or 0), producer


class _Turn(NamedTuple):
    """An element to be paired: the neighbour that is paired before it, and the link between them."""

    element: Element
    neighbour: Element | None
    link: Link
    is_target: bool


class _Search:
    """Pair the elements of two rests, piece by piece; a piece that is done is never taken back.

    Pieces share nothing but what is paired already, so equal pieces are interchangeable.
    """

    def __init__(self, a: _Rest, b: _Rest) -> None:
        self._a = a
        self._b = b
        self.images: dict[Element, Element] = {}
        self._origins: dict[Element, Element] = {}
        self._patience = _PATIENCE * len(a.colours)
        # How many of the elements that may be chosen at a neighbour are chosen: where to look for the next.
        self._chosen: defaultdict[tuple[Element, Link, bytes], int] = defaultdict(int)

    def run(self) -> bool:
        """Pair everything; say whether that was possible."""
        by_colour: defaultdict[bytes, list[Element]] = defaultdict(list)
        for element, colour in self._b.colours.items():
            by_colour[colour].append(element)
        for start, colour in self._a.colours.items():
            if start in self.images:
                continue
            partners = by_colour[colour]
            while partners and partners[-1] in self._origins:
                partners.pop()
            turns = self._piece(start)
            alike = (partner for partner in reversed(partners) if self._b.sizes[partner] == len(turns))
            if not any(self._pair(turns, partner) for partner in alike):
                return False
        return len(self.images) == len(self._b.colours)

    def _piece(self, start: Element) -> list[_Turn]:
        """Order all that is connected to an element so that each has a neighbour before it."""
        turns = [_Turn(start, None, (), is_target=True)]
        seen = {start}
        for element, *_ in turns:
            for link, target in self._a.links[element].items():
                if target not in seen:
                    seen.add(target)
                    turns.append(_Turn(target, element, link, is_target=True))
            for link, source in self._a.sources(element):
                if source not in seen:
                    seen.add(source)
                    turns.append(_Turn(source, element, link, is_target=False))
        return turns

    def _pair(self, turns: list[_Turn], first: Element) -> bool:
        """Pair a piece beginning with a given partner, going back where a choice turns out wrong."""
        choices: list[Iterator[Element]] = [iter((first,))]
        while choices:
            turn = turns[len(choices) - 1]
            if turn.element in self.images:
                self._release(turn)
            image = next((image for image in choices[-1] if self._fits(turn.element, image)), None)
            if image is None:
                choices.pop()
                continue
            self._take(turn, image)
            if len(choices) == len(turns):
                return True
            choices.append(self._choices(turns[len(choices)]))
        return False

    def _choices(self, turn: _Turn) -> Iterator[Element]:
        assert turn.neighbour is not None
        anchor = self.images[turn.neighbour]
        if turn.is_target:
            target = self._b.links[anchor].get(turn.link)
            return iter(() if target is None else (target,))
        colour = self._a.colours[turn.element]
        sources = self._b.back.get(anchor, {}).get((turn.link, colour), [])
        start = self._chosen[anchor, turn.link, colour]
        return (sources[(start + offset) % len(sources)] for offset in range(len(sources)))

    def _take(self, turn: _Turn, image: Element) -> None:
        self.images[turn.element], self._origins[image] = image, turn.element
        if turn.neighbour is not None:
            self._chosen[self.images[turn.neighbour], turn.link, self._a.colours[turn.element]] += 1

    def _release(self, turn: _Turn) -> None:
        del self._origins[self.images.pop(turn.element)]
        if turn.neighbour is not None:
            self._chosen[self.images[turn.neighbour], turn.link, self._a.colours[turn.element]] -= 1

    def _fits(self, element: Element, image: Element) -> bool:
        """Say whether two elements agree in colour and in all links to what is paired already."""
        self._patience -= 1
        if self._patience < 0:
            raise ModelError(
                "the nodes that reach no output look too much alike to be paired",
                hint="remove unused nodes first",
            )
        if image in self._origins or self._a.colours[element] != self._b.colours[image]:
            return False
        links_a, links_b = self._a.links[element], self._b.links[image]
        if links_a.keys() != links_b.keys():
            return False
        targets_agree = all(
            self.images.get(target) is links_b[link] if target in self.images else links_b[link] not in self._origins
            for link, target in links_a.items()
        )
        return targets_agree and all(
            self._b.links[self.images[source]].get(link) is image
            for link, source in self._a.sources(element)
            if source in self.images
        )
