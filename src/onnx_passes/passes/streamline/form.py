"""Scaled-integer forms of float tensors, and the nodes that compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, EXACT_IN_FLOAT
from onnx_passes.datatypes.types import smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.grid import same
from onnx_passes.numbers.range import Range
from onnx_passes.numbers.reals import Reals, joined
from onnx_passes.ops.facts.sums import Bounds
from onnx_passes.ops.quantizer import has_scales, is_quantizer
from onnx_passes.ops.semantics.exact import exact_value

FEWER_BITS = "quantize its input again, to fewer bits"
ALONG_SUM = Reason("the scales of its inputs vary along the sum", "use the same scale for all summands")
BIAS = Reason("the bias of an input is not a multiple of its scale", "use integer zero points")
MULTIPLES = Reason("the scales of its operands are not multiples of one another", "use the same scale for them")
NEGATIVE = Reason("a scale is not positive", "move the sign after it")
PARAMETER = Reason("a parameter of it is computed", "make it constant")
RANK = Reason("its rank is not known", "give inputs a shape")
SHAPE = Reason("a number enlarges its result", "give the other operand the shape of the result")
VARIES = Reason("scale or bias vary along an axis that it reduces or moves", "use constant ones along it")
_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True)
class Form:
    """``scale * integer + bias``; the arrays have the rank of the tensor, and size 1 along axes where they do not vary.

    Scale and bias are exact; they are rounded when they become constants, which store their exact values.
    """

    integer: ir.Value
    scale: Reals
    bias: Reals

    def __post_init__(self) -> None:
        # Rules of plug-ins may return numpy arrays, whose floats are exact values.
        for name in ("scale", "bias"):
            if not isinstance(getattr(self, name), Reals):
                object.__setattr__(self, name, Reals.of(getattr(self, name)))

    @property
    def is_plain(self) -> bool:
        """Return whether the tensor is the integer itself."""
        return self.scale.is_everywhere(1) and self.bias.is_everywhere(0)

    @property
    def has_bias(self) -> bool:
        """Return whether there is a bias."""
        return not self.bias.is_everywhere(0)

    def times(self, factor: Reals | float) -> Form:
        """Return the form multiplied by a number."""
        by = factor if isinstance(factor, Reals) else Reals.of(factor)
        return Form(self.integer, self.scale * by, self.bias * by)

    def plus(self, offset: Reals) -> Form:
        """Return the form plus a number."""
        return Form(self.integer, self.scale, self.bias + offset)


class FormBuilder:
    """Builds nodes of floats that hold integers: float32, or double if ``wide``.

    ``here`` is the current node. The built nodes stay outside of the graph until a rewrite inserts them. ``roundings``
    lists the numbers that were replaced by others with the same float.
    """

    def __init__(self, op: Builder, ranges: Mapping[ir.Value, Range]) -> None:
        self.op = op
        self.ranges = ranges
        self.here: ir.Node | None = None
        self.wide = False
        self.roundings: list[str] = []
        self._doubles: dict[ir.Value, ir.Value] = {}

    def node(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        attributes: Sequence[ir.Attr] = (),
        *,
        domain: str = "",
        wide: bool | None = None,
    ) -> ir.Value:
        """Build a node whose result has the shape of ``like``.

        An equal node nearby in the model is reused, so that a second run changes nothing.
        """
        is_wide = self.wide if wide is None else wide
        given = [self.widened(value) if is_wide and _is_float(value) else value for value in inputs]
        return self._made((domain, operator), given, attributes, [like], wide=is_wide)[0]

    def widened(self, value: ir.Value) -> ir.Value:
        """Return floats as doubles."""
        if value.dtype is ir.DataType.DOUBLE:
            return value
        if value not in self._doubles:
            held = constant(value)
            if held is not None:
                self._doubles[value] = self.constant(held, f"{value.name}_double", wide=True)
            else:
                to = [ir.AttrInt64("to", ir.DataType.DOUBLE)]
                self._doubles[value] = self._made(("", "Cast"), [value], to, [value], wide=True)[0]
        return self._doubles[value]

    def parts(self, like: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
        """Build a node with several results: a copy of ``like`` with ``x`` as its first input."""
        inputs, is_wide = [x, *like.inputs[1:]], x.dtype is ir.DataType.DOUBLE
        return self._made(
            (like.domain, like.op_type), inputs, list(like.attributes.values()), like.outputs, wide=is_wide
        )

    def _made(
        self,
        operator: tuple[str, str],
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        like: Sequence[ir.Value],
        *,
        wide: bool,
    ) -> Sequence[ir.Value]:
        wanted = _Computation(operator, inputs, {attribute.name: attribute for attribute in attributes}, len(like))
        for near in self._near():
            if wanted.is_that_of(near):
                return near.outputs
        domain, name = operator
        names = [f"{old.name}_q" for old in like]
        made = self.op.op(name, *inputs, _domain=domain, _outputs=names, **cast(dict[str, Any], wanted.attributes))
        outputs = cast(list[ir.Value], made if len(like) > 1 else [made])
        if self.here is not None:
            self.op.places[self.op.nodes[-1]] = self.here
        for output, old in zip(outputs, like, strict=True):
            output.type = ir.TensorType(ir.DataType.DOUBLE if wide else ir.DataType.FLOAT)
            output.shape = None if old.shape is None else old.shape.copy()
        return outputs

    def _near(self) -> list[ir.Node]:
        """Return the current node, and two levels of producers before it."""
        nodes = [] if self.here is None else [self.here]
        near = list(nodes)
        for _ in range(2):
            nodes = [found for node in nodes for value in node.inputs if value and (found := value.producer())]
            near += nodes
        return near

    def constant(self, array: np.ndarray, wish: str, *, wide: bool | None = None) -> ir.Value:
        """Build a constant of floats, or of doubles."""
        held = np.asarray(array, np.float64 if (self.wide if wide is None else wide) else np.float32, order="C")
        value = self.op.initializer(held, wish)
        if held.size and bool((held == np.rint(held)).all()):
            set_datatype(value, smallest_for_values(held))
        return value

    def lacking(self, value: ir.Value | None, what: str = "input") -> Reason:
        """Return the reason why a required value has no scaled-integer form."""
        known, subject = None if value is None else self.known(value), f"its {what} '{value.name if value else None}'"
        producer = None if value is None else value.producer()
        kind = None if value is None else value.dtype
        if kind is not None and kind in _NARROW:
            return Reason(f"{subject} is {kind.name}, but streamlining needs float32", "export it in float32")
        if known is None or known.grid is None:
            reason = self._unknown_levels(subject, producer)
            return reason or Reason(f"{subject} is not a scaled integer", "quantize it")
        largest = 0 if value is None else self.largest(value)
        if largest >= EXACT_IN_FLOAT:
            return Reason(f"{subject} reaches {int(largest):,}, more than floats hold", FEWER_BITS)
        if producer is not None and is_quantizer(producer):
            return Reason(f"{subject} has a scale", "run extract-quant-scale-zeropoint first")
        if producer is not None and has_scales(producer):
            return Reason(
                f"{subject} is dequantized", "run streamline, whose notes have the reason why DequantizeLinear stays"
            )
        return Reason(f"{subject} is computed in floats", "see the notes about its producer")

    def _unknown_levels(self, subject: str, producer: ir.Node | None) -> Reason | None:
        """Return the reason why a quantizer's levels are not known; None if the node is not a quantizer."""
        if producer is None or not has_scales(producer):
            return None
        block = producer.attributes.get_int("block_size", 0)
        if block:
            return Reason(f"{subject} has a scale for each block of {block}", ALONG_SUM.remedy)
        if any(self.number(value) is None for value in producer.inputs[1:] if value is not None):
            return Reason(f"{subject} has a computed scale, zero point or bit width", "make it constant")
        return Reason(f"the levels of {subject} are not known", "quantize it to integers times a scale")

    def known(self, value: ir.Value) -> Range | None:
        """Return the range of a value; None if unknown."""
        return self.ranges.get(value)

    def number(self, value: ir.Value | None) -> np.ndarray | None:
        """Return the elements of a value that is the same in every run, quantized weights included; None otherwise."""
        if value is None:
            return None
        array = constant(value)
        if array is not None:
            return array.astype(np.float64)
        known = self.known(value)
        shape = static_shape(value)
        if known is None or shape is None or not known.is_point:
            return None
        return np.broadcast_to(known.exact, shape)

    def exact(self, value: ir.Value) -> Reals:
        """Return the exact values of a constant, before their rounding to floats."""
        held = exact_value(value)
        if held is not None:
            return held
        known, shape = self.known(value), static_shape(value)
        assert known is not None
        assert shape is not None
        grid = known.grid
        found = Reals.of(known.low)
        if grid is not None:
            found = Reals.of(grid.scale) * Reals.of(grid.low) + Reals.of(grid.bias)
        return found if found.shape == shape else found.moved(lambda places: np.broadcast_to(places, shape))

    def resolved(self, wanted: np.ndarray, among: Sequence[Reals]) -> Reals | None:
        """Return the real numbers among candidates that doubles approximate; None if there is none for one of them."""
        for each in among:
            if each.shape == wanted.shape and same(each.near, wanted):
                return each
        if not among:
            return None
        known = joined(among)
        order = np.argsort(known.near)
        after = np.searchsorted(known.near[order], wanted).clip(1, known.size - 1) if known.size > 1 else 0 * wanted
        places = order[np.asarray(after, np.intp)]
        before = order[np.maximum(np.asarray(after, np.intp) - 1, 0)]
        places = np.where(np.abs(known.near[before] - wanted) < np.abs(known.near[places] - wanted), before, places)
        return known.taken(places) if same(known.near[places], wanted) else None

    def rounds(self, what: str) -> None:
        """Record that a number of the current node was replaced by another."""
        where = "" if self.here is None else name_of(self.here)
        self.roundings.append(f"{where} is not exact: {what}")

    def centred(self, form: Form, like: ir.Value) -> Form | Reason:
        """Move the bias into the integers, or return the reason if it is not a multiple of the scale."""
        if not form.has_bias:
            return form
        steps = (form.bias / form.scale).integers()
        if steps is None:
            return BIAS
        return Form(self.shifted(form.integer, steps, like), form.scale, Reals.zeros(form.bias.ndim))

    def shifted(self, integer: ir.Value, by: np.ndarray, like: ir.Value) -> ir.Value:
        """Add an integer."""
        if not by.any():
            return integer
        held = constant(integer)
        if held is not None:
            return self.constant(held + by, f"{integer.name}_shifted")
        return self._elementwise("Add", integer, self.constant(by, f"{like.name}_shift"), like)

    def multiplied(self, integer: ir.Value, by: np.ndarray, like: ir.Value) -> ir.Value:
        """Multiply by an integer."""
        if bool((by == 1).all()):
            return integer
        held = constant(integer)
        if held is not None:
            return self.constant(held * by, f"{integer.name}_multiplied")
        return self._elementwise("Mul", integer, self.constant(by, f"{like.name}_factor"), like)

    def _elementwise(self, operator: str, integer: ir.Value, by: ir.Value, like: ir.Value) -> ir.Value:
        made = self.node(operator, [integer, by], like)
        made.shape = None if integer.shape is None else integer.shape.copy()
        return made

    def rebased(self, form: Form, scale: Reals, bias: Reals, like: ir.Value) -> Form | None:
        """Convert a form to another scale and bias; None if the integers would not be integers."""
        factor, shift = in_steps(form.scale, scale), in_steps(form.bias - bias, scale)
        if factor is None or shift is None:
            return None
        integer = self.shifted(self.multiplied(form.integer, factor, like), shift, like)
        return Form(integer, scale, bias)

    def ends(self, form: Form, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of the integers of a value in its form."""
        known = None if value is None else self.known(value)
        if known is None or known.grid is None:
            return None
        ends = [np.rint((end - form.bias.near) / form.scale.near) for end in known.grid.bounds]
        return int(np.minimum(*ends).min()), int(np.maximum(*ends).max())

    def fits(self, value: ir.Value) -> bool:
        """Return whether the integers of a value are bounded, and floats hold them."""
        return self.largest(value) < EXACT_IN_FLOAT

    def fits_in_double(self, value: ir.Value) -> bool:
        """Return whether the integers of a value are bounded, and doubles hold them."""
        return self.largest(value) < EXACT_IN_DOUBLE

    def largest(self, value: ir.Value) -> float:
        """Return the largest magnitude of the integers of a value."""
        known = self.known(value)
        grid = None if known is None else known.grid
        return np.inf if grid is None else max(abs(int(grid.low.min())), abs(int(grid.high.max())))


def _is_float(value: ir.Value | None) -> TypeGuard[ir.Value]:
    return value is not None and value.dtype is ir.DataType.FLOAT


def spread(array: np.ndarray, rank: int) -> np.ndarray:
    """Add leading axes up to a rank."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def in_steps(numbers: Reals, scale: Reals) -> np.ndarray | None:
    """Return numbers as integer multiples of a scale; None if they are not."""
    if numbers is scale:
        return np.ones((1,) * scale.ndim)
    return (numbers / scale).integers()


class _Computation(NamedTuple):
    operator: tuple[str, str]
    inputs: Sequence[ir.Value | None]
    attributes: Mapping[str, ir.Attr]
    results: int

    def is_that_of(self, node: ir.Node) -> bool:
        """Return whether a node is this computation."""
        if (node.domain, node.op_type) != self.operator or len(node.outputs) != self.results:
            return False
        given, wanted = (
            {name: each.value for name, each in held.items()} for held in (node.attributes, self.attributes)
        )
        alike = len(node.inputs) == len(self.inputs) and given == wanted
        return alike and all(_are_same(left, right) for left, right in zip(node.inputs, self.inputs, strict=True))


def _are_same(left: ir.Value | None, right: ir.Value | None) -> bool:
    if left is right:
        return True
    a, b = constant(left), constant(right)
    return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b)
