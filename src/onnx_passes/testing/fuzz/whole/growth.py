"""Growing graph: existing values are the inputs of the patterns and operators that are added."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.rewrite.rule import Rule
from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.build import Build, ModelInput, ModelParts
from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.testing.fuzz.site import Built
from onnx_passes.testing.fuzz.sketch import Leaf, OperatorResult, Sketch, sketch
from onnx_passes.testing.fuzz.values import Shape

_MOST_INPUTS = 5
_RECENT = 6
_MOST_VALUES = 512
"""Limit for the size of values that are read again, lest sizes grow."""
_TAME = ("mixed", "mixed", "ramp", "one", "zero", "minus-one", "two", "half", "third", "positive", "power", "power")
_DIVISIONS = ("Div", "Mod")


@dataclass
class Growth:
    """Graph under construction: ``pool`` are the visible values, ``parts`` the nodes, inputs and constants so far."""

    draws: Draws
    opset: int
    favoured: frozenset[str] = frozenset()
    """Passes whose patterns are more likely."""
    parts: ModelParts = field(init=False)
    pool: list[Built] = field(default_factory=list[Built])
    functions: list[onnx.FunctionProto] = field(default_factory=list[onnx.FunctionProto])
    shared: list[Built] = field(default_factory=list[Built])
    """Constants and inputs that several patterns may share."""
    named: int = 0

    def __post_init__(self) -> None:
        self.parts = ModelParts(self.opset)

    def name(self, prefix: str) -> str:
        """Return a fresh name."""
        self.named += 1
        return f"{prefix}{self.named}"

    def input(self, dtype: ir.DataType, shape: Shape, values: np.ndarray | None = None) -> Built:
        """Add an input of the model."""
        name = self.name("x")
        self.parts.inputs.append(ModelInput(name, dtype, shape, values))
        built = Built(name, dtype, shape)
        if values is None:
            self.pool.append(built)
        return built

    def constant(self, array: np.ndarray) -> Built:
        """Add an initializer, or sometimes a Constant."""
        name, dtype = self.name("c"), ir.DataType.from_numpy(array.dtype)
        tensor = ir.to_proto(ir.Tensor(array, dtype, name=name))
        built = Built(name, dtype, array.shape, array)
        if self.draws.happens(percent=20):
            self.parts.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.parts.initializers.append(tensor)
            self.parts.constants.append(built)
        return built

    def node(
        self,
        operator: str,
        inputs: Sequence[Built | None],
        shape: Shape,
        dtype: ir.DataType | None = None,
        *,
        domain: str = "",
        **attributes: Any,
    ) -> Built:
        """Add a node with one result, of the type of its first input unless ``dtype`` is given."""
        first = inputs[0]
        assert first is not None
        built = Built(self.name("v"), dtype or first.dtype, shape)
        names = ["" if value is None else value.name for value in inputs]
        made = onnx.helper.make_node(operator, names, [built.name], domain=domain, **attributes)
        self.parts.nodes.append(made)
        self.pool.append(built)
        return built

    def recent(self, values: Sequence[Built] | None = None) -> Built:
        """Choose a visible value, mostly a recent one."""
        known = [value for value in (self.pool if values is None else values) if math.prod(value.shape) <= _MOST_VALUES]
        if not known:
            raise UnbuildableError("there is nothing to read")
        return self.draws.freely(known[-_RECENT:] if self.draws.happens(percent=60) else known)

    def like(self, dtype: ir.DataType, shape: Shape) -> Built:
        """Return a value of a type and shape: an existing one, one computed from it, or a new input."""
        same = [value for value in self.pool if (value.dtype, value.shape) == (dtype, shape)]
        if same and self.draws.happens(percent=85):
            return self.recent(same)
        may_add = len(self.parts.inputs) < _MOST_INPUTS
        if may_add and self.draws.happens(percent=50):
            return self.input(dtype, shape)
        adapted = self._adapted(dtype, shape)
        if adapted is None and not may_add and same:
            return self.recent(same)
        return self.input(dtype, shape) if adapted is None else adapted

    def _adapted(self, dtype: ir.DataType, shape: Shape) -> Built | None:
        """Reshape a value with the operators that exporters use."""
        alike = [value for value in self.pool if value.dtype == dtype and 0 < math.prod(value.shape) <= _MOST_VALUES]
        if not alike or dtype is ir.DataType.STRING:
            return None
        value = self.recent(alike)
        wanted = self.constant(np.array(shape, np.int64))
        if math.prod(value.shape) == math.prod(shape):
            return self.node("Reshape", [value, wanted], shape)
        if shapes.broadcast([value.shape, shape]) == shape:
            return self.node("Expand", [value, wanted], shape)
        if dtype in (ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.DOUBLE):
            operator = self.draws.freely(("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"))
            return self.node("Expand", [self.node(operator, [value], (), keepdims=0), wanted], shape)
        return None

    def graft(self, rule: Rule, hints: Hints) -> None:
        """Add an instance of a pattern. Raises UnbuildableError, without adding anything."""
        with self.undone():
            dtypes = tuple({value.dtype.numpy().name for value in self.pool if value.dtype is not ir.DataType.STRING})
            if self.draws.happens(percent=80) and not hints.dtypes:
                hints = replace(hints, dtypes=dtypes)
            building = _Graft(self, sketch(rule, self.draws, self.opset), hints)
            building.add(self.recent().shape if self.pool else shapes.shape(self.draws))

    @contextmanager
    def undone(self) -> Generator[None]:
        """Undo all additions if the block raises UnbuildableError."""
        parts = self.parts
        lists: list[list[Any]] = [parts.nodes, parts.initializers, parts.inputs, parts.constants, self.pool]
        lists += [self.shared, self.functions]
        before = [len(items) for items in lists]
        try:
            yield
        except UnbuildableError:
            for items, count in zip(lists, before, strict=True):
                del items[count:]
            raise


class _Graft(Build):
    """Builds a pattern on existing values."""

    def __init__(self, growth: Growth, drawn: Sketch, hints: Hints) -> None:
        super().__init__(drawn, growth.draws, hints)
        self.growth = growth
        self.parts = growth.parts
        self._pool = growth.shared

    def add(self, want: Shape) -> None:
        """Build everything; make the outputs of the pattern, and some inner values, visible."""
        first = len(self.parts.nodes)
        for root in self.sketch.roots:
            self.op(root, want)
            want = self.built[root.result(0)].shape
        known = {built.name: built for built in (*self.built.values(), *self.growth.pool, *self.growth.shared)}
        if any(_may_trap(node, known) for node in self.parts.nodes[first:]):
            raise UnbuildableError("integers may be divided by zero")
        if any(built.dtype is ir.DataType.BFLOAT16 for built in self.built.values()):
            raise UnbuildableError("ONNX Runtime has few kernels for this type")
        returned = {self.built[result].name for result in self.sketch.outputs}
        for slot, built in self.built.items():
            if isinstance(slot, OperatorResult) and (built.name in returned or self.draws.happens(percent=20)):
                self.growth.pool.append(built)

    def name(self, prefix: str) -> str:
        return self.growth.name(prefix)

    def _input(
        self,
        leaf: Leaf,
        kind: str,
        dtype: ir.DataType,
        shape: Shape,
        fixed: np.ndarray | None,
        at_most: int | None,
    ) -> Built:
        if fixed is not None or at_most is not None:
            return super()._input(leaf, "input", dtype, shape, fixed, at_most)
        return self.growth.like(dtype, shape)

    def _contents(
        self, leaf: Leaf, dtype: ir.DataType, shape: Shape, given: Any, recipe: str | None, at_most: int | None
    ) -> np.ndarray:
        # A single NaN or infinity among the constants would spread through most of a large graph.
        if recipe is None and dtype.is_floating_point() and self.draws.happens(percent=95):
            recipe = self.draws.freely(_TAME)
        return super()._contents(leaf, dtype, shape, given, recipe, at_most)


def _may_trap(node: onnx.NodeProto, known: Mapping[str, Built]) -> bool:
    """Return whether a node divides integers by a possible zero, which ends the process."""
    if node.op_type not in _DIVISIONS:
        return False
    divisor = known.get(node.input[1])
    if divisor is None or not divisor.dtype.is_integer():
        return divisor is None
    return divisor.array is None or not divisor.array.all() or bool((divisor.array == -1).any())
