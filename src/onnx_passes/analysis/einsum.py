"""What an Einsum of two operands adds up, by the labels of its axes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.graph.shapes import rank

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Contraction:
    """The label of each axis of both operands, and of the result; axes under an ellipsis are numbered from the end."""

    operands: tuple[Labels, Labels]
    result: Labels

    @property
    def summed(self) -> Labels:
        """Return the labels along which products are added up."""
        return tuple(dict.fromkeys(label for labels in self.operands for label in labels if label not in self.result))

    def summed_axes(self, index: int) -> tuple[int, ...]:
        """Return the axes of an operand along which products are added up."""
        return tuple(axis for axis, label in enumerate(self.operands[index]) if label not in self.result)


def contraction_of(node: ir.Node) -> Contraction | None:
    """Read the equation of an Einsum of two operands; nothing of one that takes a diagonal, or of unknown ranks."""
    text = node.attributes.get_string("equation", "").replace(" ", "").replace("...", ".")
    given, _, said = text.partition("->")
    terms, ranks = given.split(","), [rank(value) for value in node.inputs]
    if len(terms) != 2 or len(ranks) != 2:
        return None
    operands = [_labels(term, length) for term, length in zip(terms, ranks, strict=True)]
    first, second = operands
    if first is None or second is None:
        return None
    free = [label for label in dict.fromkeys((*first, *second)) if label.startswith(".")]
    under = tuple(sorted(free, key=lambda label: -int(label[1:])))
    result = _spread(said, under) if "->" in text else (*under, *_once(first, second))
    return Contraction((first, second), result) if set(result) <= {*first, *second} else None


def _labels(term: str, length: int | None) -> Labels | None:
    named = term.replace(".", "")
    if length is None or len(set(named)) < len(named):
        return None
    free = length - len(named)
    if free < 0 or (free and "." not in term):
        return None
    return _spread(term, tuple(f".{place}" for place in range(free, 0, -1)))


def _spread(term: str, under: Labels) -> Labels:
    before, dots, behind = term.partition(".")
    return (*before, *(under if dots else ()), *behind)


def _once(first: Labels, second: Labels) -> Labels:
    """Return the labels of a result that is left open: all that occur once, in the order of letters."""
    return tuple(
        sorted(label for label in {*first, *second} if (label in first) != (label in second) and label[0] != ".")
    )
