"""One operator of the sketch while its inputs, attributes and outputs are chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.graph.operators import Interface
from onnx_passes.graph.schemas import schema_of
from onnx_passes.rewrite.patterns import AttributeConstant
from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError
from onnx_passes.testing.fuzz.shapes import broadcast
from onnx_passes.testing.fuzz.sketch import OpenOperator, OperatorResult
from onnx_passes.testing.fuzz.values import Shape

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz.build import Build


@dataclass
class Built:
    """Value that exists: its name, type, shape, and contents if it is constant."""

    name: str
    dtype: ir.DataType
    shape: Shape
    array: np.ndarray | None = None


class RecipeSite:
    """Operator under construction, for its recipe; ``want`` is the shape that the consumer of the result prefers."""

    def __init__(self, build: Build, op: OpenOperator, want: Shape) -> None:
        self._build = build
        self.op = op
        self.want = want
        self.attributes: dict[str, Any] = {}
        self.inputs: list[Built | None] = [None] * len(op.inputs)
        self._done = [slot is None for slot in op.inputs]

    @property
    def draws(self) -> Draws:
        """Return the source of choices."""
        return self._build.draws

    def has(self, index: int) -> bool:
        """Return whether an input is present."""
        return index < len(self.op.inputs) and self.op.inputs[index] is not None

    def known(self, index: int) -> Shape | None:
        """Return the shape of an input that exists already, since it is also used elsewhere."""
        slot = self.op.inputs[index] if index < len(self.op.inputs) else None
        built = self._build.built.get(slot) if slot is not None else None
        return None if built is None else built.shape

    def is_computed(self, index: int) -> bool:
        """Return whether an input comes from another operator, which decides its shape."""
        return self.has(index) and (isinstance(self.op.inputs[index], OperatorResult) or self.known(index) is not None)

    def input(
        self, index: int, shape: Shape, *, values: Any = None, recipe: str | None = None, at_most: int | None = None
    ) -> Built | None:
        """Build an input with a preferred shape; ``values`` are the contents that it needs.

        ``recipe`` fills a constant, ``at_most`` bounds integers, for example indices.
        """
        if not self.has(index) or self._done[index]:
            return self.inputs[index] if self.has(index) else None
        if any(size < 0 for size in shape):
            raise UnbuildableError("a negative dimension")
        self._done[index] = True
        slot = self.op.inputs[index]
        assert slot is not None
        self.inputs[index] = self._build.value(slot, shape, values=values, recipe=recipe, at_most=at_most)
        return self.inputs[index]

    def in_order(self) -> list[int]:
        """List the remaining inputs: existing ones, then computed ones, then free ones."""
        left = [i for i, done in enumerate(self._done) if not done]
        return sorted(left, key=lambda i: (self.known(i) is None, not self.is_computed(i)))

    def actual(self) -> Shape | None:
        """Broadcast the shapes of all inputs built so far."""
        shapes = [built.shape for built in self.inputs if built is not None]
        return broadcast(shapes) if shapes else None

    def attribute(self, name: str, options: Sequence[Any], *, default: Any = None, optional: bool = True) -> Any:
        """Choose an attribute if the pattern leaves it open; return its value, or ``default`` if it is absent."""
        if name in self.attributes:
            return self.attributes[name]
        pattern = self.op.pattern.attributes.get(name)
        if isinstance(pattern, AttributeConstant):
            fixed = pattern.value
            value: Any = list(cast(Sequence[Any], fixed)) if isinstance(fixed, list | tuple) else fixed
            self.attributes[name] = value
            return value
        if pattern is not None and pattern.name in self._build.shared_attributes:
            self.attributes[name] = self._build.shared_attributes[pattern.name]
            return self.attributes[name]
        may_be_absent = optional and (pattern is None or pattern.can_match_none)
        forbidden = pattern is None and not self.op.pattern.allow_other_attributes
        if forbidden or (may_be_absent and self.draws.often(f"no {self.op.op_type}.{name}", percent=30)):
            return default
        value = self.draws.choose(f"{self.op.op_type}.{name}", options)
        self.attributes[name] = value
        if pattern is not None and pattern.name is not None:
            self._build.shared_attributes[pattern.name] = value
        return value

    def _offer(self, name: str, attribute: Any) -> None:
        if options := _options(attribute):
            self.attribute(name, options)

    def dtype(self, variable: str) -> ir.DataType:
        """Return the element type of a type variable of the operator."""
        return self._build.types.variable(self.op, variable)

    def finish(self) -> None:
        """Build the inputs and choose the attributes that the recipe has left open."""
        for index in self.in_order():
            self.input(index, self.actual() or self.want)
        for name, attribute in _attributes(self.op, self._build.sketch.opset).items():
            if name not in self.attributes and (attribute.required or name in self.op.pattern.attributes):
                self.attribute(name, _options(attribute), optional=not attribute.required)
            elif name not in self.attributes and self.draws.often(f"{self.op.op_type}.{name}?", percent=30):
                self._offer(name, attribute)
        for name in self.op.pattern.attributes:
            if name not in self.attributes:
                self.attribute(name, (1,))


def _attributes(op: OpenOperator, opset: int) -> dict[str, Any]:
    schema = schema_of(op.domain, op.op_type, opset)
    return {} if schema is None else dict(schema.attributes)


def _options(attribute: Any) -> list[Any]:
    """List values for an attribute without further information: its default, and some others."""
    default = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
    kind = onnx.AttributeProto
    if attribute.name == "saturate":
        # Only for 8-bit types, which are not drawn; for others ONNX Runtime accepts the default only.
        return [default]
    match int(attribute.type):
        case kind.FLOAT:
            others = [0.5, 1.0, 2.0, -1.0, 0.0]
            return others if default is None else [default, *others]
        case kind.INT if default is not None:
            return [default, *([1 - default] if default in (0, 1) else [])]
        case kind.INT:
            return [0, 1]
        case kind.STRING if default is not None:
            return [default]
        case _:
            return []


Recipe = Callable[[RecipeSite], None]
"""Chooses inputs and attributes of an operator that fit together."""
RECIPES: Interface[Recipe] = Interface(
    "fuzz",
    "inputs and attributes that fit together, for generated models",
    *(f"onnx_passes.testing.fuzz.{name}" for name in ("build", "compute", "images", "movement")),
)
