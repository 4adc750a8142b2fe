"""Integer forms of float tensors, and the nodes that compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.arrays import nearly_integer
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.sums import Bounds
from onnx_passes.datatypes.limits import EXACT_IN_DOUBLE, EXACT_IN_FLOAT
from onnx_passes.datatypes.smallest import smallest_for_values
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import detach
from onnx_passes.graph.names import Names
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.tensor_types import set_datatype


@dataclass(frozen=True)
class Form:
    """``scale * integer + bias``; the arrays have the rank of the tensor and size 1 where nothing varies."""

    integer: ir.Value
    scale: np.ndarray
    bias: np.ndarray

    @property
    def is_plain(self) -> bool:
        """Tell whether the tensor is the integer itself."""
        return bool((self.scale == 1).all() and (self.bias == 0).all())

    @property
    def has_bias(self) -> bool:
        """Tell whether something is added."""
        return bool((self.bias != 0).any())

    def times(self, factor: np.ndarray | float) -> Form:
        """Multiply with a number."""
        return Form(self.integer, self.scale * factor, self.bias * factor)

    def plus(self, offset: np.ndarray) -> Form:
        """Add a number."""
        return Form(self.integer, self.scale, self.bias + offset)


class Workshop:
    """Makes nodes beside those of the model, of floats that hold integers: float32, or double where it is ``wide``."""

    def __init__(self, model: ir.Model, ranges: Mapping[ir.Value, Range]) -> None:
        self.model = model
        self.ranges = ranges
        self.names = Names.of(model.graph)
        self.made: set[ir.Node] = set()
        self.constants: list[ir.Value] = []
        self.latest: dict[ir.Node, ir.Node] = {}
        self.here: ir.Node | None = None
        self.wide = False
        self._doubles: dict[ir.Value, ir.Value] = {}
        self.opset = model.opset_imports.get("", 1)

    def node(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        like: ir.Value,
        attributes: Sequence[ir.Attr] = (),
        *,
        after: ir.Node | None = None,
        domain: str = "",
        wide: bool | None = None,
    ) -> ir.Value:
        """Make a node behind the producer of ``like``, or behind ``after``; its result has the shape of ``like``.

        What the model computes so already is taken as it is: a second run changes nothing.
        """
        place = after or like.producer() or self.here
        assert place is not None
        is_wide = self.wide if wide is None else wide
        given = [self.widened(value) if is_wide and _is_float(value) else value for value in inputs]
        made = ir.Node(domain, operator, given, attributes)
        return self._placed(made, [like], place, wide=is_wide)[0]

    def widened(self, value: ir.Value) -> ir.Value:
        """Return floats as doubles."""
        if value.dtype is ir.DataType.DOUBLE:
            return value
        if value not in self._doubles:
            held = constant(value)
            if held is not None:
                self._doubles[value] = self.constant(held, f"{value.name}_double", wide=True)
            else:
                made = ir.Node("", "Cast", [value], [ir.AttrInt64("to", ir.DataType.DOUBLE)])
                place = value.producer() or self.here
                assert place is not None
                self._doubles[value] = self._placed(made, [value], place, wide=True)[0]
        return self._doubles[value]

    def parts(self, like: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
        """Make a node of several results: another with ``x`` as its first input."""
        is_wide = x.dtype is ir.DataType.DOUBLE
        made = ir.Node(
            like.domain,
            like.op_type,
            [x, *like.inputs[1:]],
            tuple(like.attributes.values()),
            num_outputs=len(like.outputs),
        )
        return self._placed(made, like.outputs, like, wide=is_wide)

    def _placed(self, made: ir.Node, like: Sequence[ir.Value], place: ir.Node, *, wide: bool) -> Sequence[ir.Value]:
        twin = self._twin(made)
        if twin is not None:
            detach(made)
            return twin.outputs
        made.name = self.names.node(f"{like[0].name}/{made.op_type}")
        for output, old in zip(made.outputs, like, strict=True):
            output.name = self.names.value(f"{old.name}_q")
            output.type = ir.TensorType(ir.DataType.DOUBLE if wide else ir.DataType.FLOAT)
            output.shape = None if old.shape is None else old.shape.copy()
        assert place.graph is not None
        before = self.latest.get(place, place)
        place.graph.insert_after(before, made)
        self.latest[place] = made
        # What comes next for the node at hand may use what was put behind the last that was made for it.
        if self.here is not None and self.latest.get(self.here) is before:
            self.latest[self.here] = made
        self.made.add(made)
        return made.outputs

    def _twin(self, made: ir.Node) -> ir.Node | None:
        """Find the same computation in the node that is looked at, or in the two before each of its inputs."""
        nodes = [] if self.here is None else [self.here]
        near = list(nodes)
        for _ in range(2):
            nodes = [found for node in nodes for value in node.inputs if value and (found := value.producer())]
            near += nodes
        return next((node for node in near if _compute_same(node, made)), None)

    def constant(self, array: np.ndarray, wish: str, *, wide: bool | None = None) -> ir.Value:
        """Make a constant of floats, or of doubles."""
        held = np.asarray(array, np.float64 if (self.wide if wide is None else wide) else np.float32, order="C")
        value = ir.Value(name=self.names.value(wish), const_value=ir.Tensor(held), shape=ir.Shape(held.shape))
        value.type = ir.TensorType(ir.DataType.from_numpy(held.dtype))
        self.constants.append(value)
        if held.size and bool((held == np.rint(held)).all()):
            set_datatype(value, smallest_for_values(held))
        self.model.graph.register_initializer(value)
        return value

    def indices(self, numbers: Sequence[int], wish: str) -> ir.Value:
        """Make a constant of integers, for axes and shapes."""
        held = np.array(numbers, np.int64)
        value = ir.Value(name=self.names.value(wish), const_value=ir.Tensor(held), shape=ir.Shape(held.shape))
        value.type = ir.TensorType(ir.DataType.INT64)
        self.constants.append(value)
        self.model.graph.register_initializer(value)
        return value

    def tidy(self) -> None:
        """Remove constants that nothing uses."""
        for value in self.constants:
            if not value.uses() and value.name is not None and value.is_initializer():
                del self.model.graph.initializers[value.name]

    def known(self, value: ir.Value) -> Range | None:
        """Return the range of a value."""
        return self.ranges.get(value)

    def number(self, value: ir.Value | None) -> np.ndarray | None:
        """Return the elements of a value that is the same in every run, quantized weights included."""
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

    def centred(self, form: Form, like: ir.Value) -> Form | None:
        """Move the bias into the integers, if it is a multiple of the scale."""
        if not form.has_bias:
            return form
        with np.errstate(divide="ignore", invalid="ignore"):
            steps, meant = nearly_integer(form.bias / form.scale)
        if not meant.all():
            return None
        return Form(self.shifted(form.integer, steps, like), form.scale, np.zeros((1,) * form.bias.ndim))

    def shifted(self, integer: ir.Value, by: np.ndarray, like: ir.Value) -> ir.Value:
        """Add an integer."""
        if not by.any():
            return integer
        held = constant(integer)
        if held is not None:
            return self.constant(held + by, f"{integer.name}_shifted")
        return self._elementwise("Add", integer, self.constant(by, f"{like.name}_shift"), like)

    def multiplied(self, integer: ir.Value, by: np.ndarray, like: ir.Value) -> ir.Value:
        """Multiply with an integer."""
        if bool((by == 1).all()):
            return integer
        held = constant(integer)
        if held is not None:
            return self.constant(held * by, f"{integer.name}_multiplied")
        return self._elementwise("Mul", integer, self.constant(by, f"{like.name}_factor"), like)

    def _elementwise(self, operator: str, integer: ir.Value, by: ir.Value, like: ir.Value) -> ir.Value:
        made = self.node(operator, [integer, by], like, after=integer.producer())
        made.shape = None if integer.shape is None else integer.shape.copy()
        return made

    def rebased(self, form: Form, scale: np.ndarray, bias: np.ndarray, like: ir.Value) -> Form | None:
        """Write a tensor as integers of another scale and bias, if these are integers too."""
        with np.errstate(divide="ignore", invalid="ignore"):
            factor, meant = nearly_integer(form.scale / scale)
            shift, also_meant = nearly_integer((form.bias - bias) / scale)
        if not (meant.all() and also_meant.all()):
            return None
        integer = self.shifted(self.multiplied(form.integer, factor, like), shift, like)
        return Form(integer, scale, bias)

    def ends(self, form: Form, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of the integers of a value, in the form that it has."""
        known = None if value is None else self.known(value)
        if known is None or known.grid is None:
            return None
        ends = [np.rint((end - form.bias) / form.scale) for end in known.grid.bounds]
        return int(np.minimum(*ends).min()), int(np.maximum(*ends).max())

    def fits(self, value: ir.Value) -> bool:
        """Tell whether the integers of a value are bounded, and floats hold them."""
        return self._largest(value) < EXACT_IN_FLOAT

    def fits_in_double(self, value: ir.Value) -> bool:
        """Tell whether the integers of a value are bounded, and doubles hold them."""
        return self._largest(value) < EXACT_IN_DOUBLE

    def _largest(self, value: ir.Value) -> float:
        known = self.known(value)
        grid = None if known is None else known.grid
        return np.inf if grid is None else max(abs(int(grid.low.min())), abs(int(grid.high.max())))


def _is_float(value: ir.Value | None) -> TypeGuard[ir.Value]:
    return value is not None and value.dtype is ir.DataType.FLOAT


def spread(array: np.ndarray, rank: int) -> np.ndarray:
    """Add leading axes up to a rank."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _compute_same(a: ir.Node, b: ir.Node) -> bool:
    if (a.op_type, a.domain, len(a.inputs), len(a.outputs)) != (b.op_type, b.domain, len(b.inputs), len(b.outputs)):
        return False
    given, wanted = ({name: attribute.value for name, attribute in node.attributes.items()} for node in (a, b))
    return given == wanted and all(_are_same(left, right) for left, right in zip(a.inputs, b.inputs, strict=True))


def _are_same(left: ir.Value | None, right: ir.Value | None) -> bool:
    if left is right:
        return True
    a, b = constant(left), constant(right)
    return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b)
