"""Values as a scale times integers plus a bias, all exact: the integers are terms, which are equal if computed alike.

Whatever passes between integers and floats, a value is ``scale * term + bias``. A term is a computation on integers, in
a normal form in which no scale is left; scale and bias are real numbers. Two sides with the same term, scale and bias
mean the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.surds import Number, Surd
from onnx_passes.ops.semantics.exact import exact_value, has_exact_value
from onnx_passes.verify.proving.facts import Facts


class NoFormError(Exception):
    """A value is not known to be a scale times integers, for a reason."""


@dataclass(frozen=True)
class Form:
    """``scale * term + bias``; arrays have the rank of the tensor, and size 1 along axes where nothing varies.

    ``size`` bounds the integers of the term, and all partial sums on the way to them. ``reach`` bounds the numbers in
    whatever order floats compute them, and ``roundings`` counts how often that rounds. Integers that are ``unsigned``
    are not negative. ``added`` is the size of what the bias is made of, where it is known to be more than the bias.
    """

    term: int
    scale: Reals
    bias: Reals
    size: float
    reach: np.ndarray
    roundings: int = 0
    unsigned: bool = False
    added: np.ndarray | None = None

    @property
    def size_of_bias(self) -> np.ndarray:
        """Return the size of the constants that the bias was made of, which rounding of it is in proportion to."""
        own = np.abs(self.bias.near)
        return own if self.added is None else np.maximum(own, self.added)

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return max(self.scale.ndim, self.bias.ndim)

    @property
    def has_bias(self) -> bool:
        """Return whether the bias is not zero."""
        return not self.bias.is_everywhere(0)

    def times(self, factor: Reals) -> Form:
        """Multiply with a number."""
        factor = factor.spread(self.rank)
        reach = self.reach * np.abs(factor.near)
        return replace(
            self,
            scale=self.scale * factor,
            bias=self.bias * factor,
            reach=reach,
            roundings=self.roundings + 1,
            added=self.size_of_bias * np.abs(factor.near),
        )

    def plus(self, number: Reals) -> Form:
        """Add a number."""
        number = number.spread(self.rank)
        reach = self.reach + np.abs(number.near)
        added = self.size_of_bias + np.abs(number.near)
        return replace(self, bias=self.bias + number, reach=reach, roundings=self.roundings + 1, added=added)

    def means(self, other: Form) -> tuple[int, int] | None:
        """Count the numbers compared exactly, and all compared, if two scaled integers are equal; None if not."""
        if self.term != other.term or self.rank != other.rank:
            return None
        scale = same_numbers(self.scale, other.scale)
        bias = None if scale is None else same_numbers(self.bias, other.bias)
        return None if scale is None or bias is None else (scale[0] + bias[0], scale[1] + bias[1])


@dataclass(frozen=True)
class Weights:
    """Constants as integers times a scale, in which ``integers`` are of their whole shape."""

    integers: np.ndarray
    scale: Reals


class Forms:
    """Finds the forms of values; terms are numbers, one for each computation.

    Sources are what quantizers make of anything or, ``closely``, of what can come there.
    """

    def __init__(self, facts: Facts, *, closely: bool = False) -> None:
        self.facts = facts
        self._range_of = facts.range_of if closely else facts.near_range_of
        self.known: dict[ir.Value, Form] = {}
        self._terms: dict[Hashable, int] = {}
        self._arrays: list[np.ndarray] = []

    def term(self, *key: Hashable) -> int:
        """Return the number of a computation."""
        return self._terms.setdefault(key, len(self._terms))

    def array(self, integers: np.ndarray) -> Hashable:
        """Return the key of an integer array within terms; equal arrays share one key, which is the key of no term."""
        for number, known in enumerate(self._arrays):
            if np.array_equal(known, integers):
                return "array", number
        self._arrays.append(integers)
        return "array", len(self._arrays) - 1

    def of(self, side: Fragment) -> list[Form]:
        """Return the forms of the results of a side. Raises NoFormError."""
        from onnx_passes.verify.proving.form_rules import SCALED_FORMS

        for value in side.inputs:
            self._source(value)
        for node in side.moving:
            if node.outputs[0] in self.known:
                continue
            rule = SCALED_FORMS.get(node)
            if rule is None:
                raise NoFormError(f"{node.op_type} has no form")
            found = rule(Visit(self, side, node))
            self.known.update(zip(node.outputs, found if isinstance(found, list) else [found], strict=True))
        return [self.known[value] for value in side.outputs]

    def _source(self, value: ir.Value) -> None:
        if value in self.known:
            return
        grid, length = self._range_of(value).integer_grid, rank(value)
        if grid is None or not grid.exact or length is None:
            raise NoFormError(f"{value.name} is not known to hold integers")
        size = float(np.maximum(np.abs(grid.low), np.abs(grid.high)).max())
        reach = np.full((1,) * length, size)
        term, unsigned = self.term("value", id(value)), bool((grid.low >= 0).all())
        self.known[value] = Form(term, Reals.ones(length), Reals.zeros(length), size, reach, unsigned=unsigned)


@dataclass(frozen=True)
class Visit:
    """A node of a fragment, with the scaled integers and constants of its inputs."""

    forms: Forms
    side: Fragment
    node: ir.Node

    @property
    def rank(self) -> int:
        """Return the number of axes of the result."""
        found = rank(self.node.outputs[0])
        if found is None:
            raise NoFormError(f"the number of axes of {self.node.op_type} is not known")
        return found

    def has(self, index: int) -> bool:
        """Return whether an input is present."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def is_constant(self, index: int) -> bool:
        """Return whether an input is the same in every run."""
        return not self.side.is_dynamic(self.node.inputs[index])

    def form(self, index: int = 0) -> Form:
        """Return the form of an input that is computed."""
        value = self.node.inputs[index]
        if value is None or value not in self.forms.known:
            raise NoFormError(f"an input of {self.node.op_type} has no form")
        return self.forms.known[value]

    def numbers(self, index: int) -> Reals:
        """Return the exact values of an input that is the same in every run."""
        value = self.node.inputs[index]
        assert value is not None
        said = stands_for(value)
        if said is not None:
            return said
        found = self.weights(index)
        return Reals.of(found.integers) * found.scale

    def weights(self, index: int) -> Weights:
        """Return an input that is the same in every run as integers times a scale."""
        value = self.node.inputs[index]
        assert value is not None
        held = constant(value)
        known = self.forms.facts.near_range_of(value)
        grid = known.grid.centred() if known.is_point and known.grid is not None else None
        shape = held.shape if held is not None else _static(value)
        if grid is None or shape is None:
            raise NoFormError(f"an input of {self.node.op_type} is not known as integers times a scale")
        return Weights(np.broadcast_to(grid.low, shape), Reals.of(grid.scale))

    def attributes(self, *without: str) -> Hashable:
        """Return attributes as part of a term."""
        kept = ((name, attribute) for name, attribute in self.node.attributes.items() if name not in without)
        return tuple(sorted((name, repr(attribute.value)) for name, attribute in kept))

    def made(
        self, key: Sequence[Hashable], scale: Reals, bias: Reals, size: float, reach: np.ndarray, roundings: int
    ) -> Form:
        """Make the form of a result."""
        length = self.rank
        shape = (1,) * max(0, length - reach.ndim)
        return Form(
            self.forms.term(*key),
            scale.spread(length),
            bias.spread(length),
            size,
            reach.reshape(*shape, *reach.shape),
            roundings,
        )


def _static(value: ir.Value) -> tuple[int, ...] | None:
    return tuple(value.shape.numpy()) if value.shape is not None and value.shape.is_static() else None


_UNITS = {np.dtype(np.float32): (2.0**-24, 2.0**-149), np.dtype(np.float64): (2.0**-53, 2.0**-1074)}
"""How far rounding takes a number of a type, in proportion and at least."""
_MOST_EXACT = 4
"""Numbers of one array that are compared without rounding: that of a root takes a tenth of a millisecond."""


def stands_for(value: ir.Value | None) -> Reals | None:
    """Return the exact values of a constant; None if they differ from its elements by more than rounding."""
    said, held = exact_value(value), constant(value)
    if said is None or held is None or not has_exact_value(value):
        return said
    if held.dtype not in _UNITS:
        return None
    unit, least = _UNITS[held.dtype]
    allowed = np.abs(said.near) * unit * (1 + unit) + said.slack + least
    return said if bool((np.abs(held.astype(np.float64) - said.near) <= allowed).all()) else None


def same_numbers(a: Reals, b: Reals) -> tuple[int, int] | None:
    """Compare two arrays, which are broadcast: all numbers as closely as doubles tell, and some without rounding.

    Returns how many were compared without rounding, and how many there are; None if any two differ.
    """
    if bool((np.abs(a.near - b.near) > a.slack + b.slack).any()):
        return None
    shape = np.broadcast_shapes(a.shape, b.shape)
    if a.shape != b.shape:
        a, b = (each.moved(lambda places: np.broadcast_to(places, shape)) for each in (a, b))
    if not a.slack.any() and not b.slack.any():
        return a.size, a.size
    places = range(a.size) if a.size <= _MOST_EXACT else np.linspace(0, a.size - 1, _MOST_EXACT).astype(int).tolist()
    return (len(places), a.size) if all(_equal(a[place], b[place]) for place in places) else None


def _equal(a: Number, b: Number) -> bool:
    # Roots of one number are written alike, so that nothing has to be computed where numbers are the same.
    return (isinstance(a, Surd) and isinstance(b, Surd) and a.terms == b.terms) or a == b
