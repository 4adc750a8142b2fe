"""Build the operators of a sketch: choose inputs, attributes and element types that fit together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.schemas import schema_of
from onnx_passes.ops.definition import DEFINITIONS
from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.testing.fuzz.site import RECIPES, Built, Recipe, RecipeSite
from onnx_passes.testing.fuzz.sketch import Leaf, OpenOperator, OperatorResult, Sketch, Slot
from onnx_passes.testing.fuzz.values import Shape, convert, make, recipes

_MODES = ("all but one", "variables", "free", "all but two", "all but one", "constants")
_CONSTANTS = ("initializer", "initializer", "Constant")
_MOST_ELEMENTS = 4096


@dataclass
class ModelInput:
    """Input of the model, with the data that it may or must have."""

    name: str
    dtype: ir.DataType
    shape: Shape
    values: np.ndarray | None = None
    at_most: int | None = None
    overridable: bool = False


@dataclass
class ModelParts:
    """Parts of a model under construction."""

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    heads: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    """Nodes outside the pattern that compute its inputs: these stay in the main graph."""
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    inputs: list[ModelInput] = field(default_factory=list[ModelInput])
    results: list[Built] = field(default_factory=list[Built])
    """Outputs of the pattern."""
    interior: list[Built] = field(default_factory=list[Built])
    constants: list[Built] = field(default_factory=list[Built])


def build(sketch: Sketch, draws: Draws, hints: Hints) -> ModelParts:
    """Decide everything that a sketch leaves open."""
    building = Build(sketch, draws, hints)
    want = shapes.shape(draws)
    for root in sketch.roots:
        building.op(root, want)
        want = building.built[root.result(0)].shape
    returned = list(dict.fromkeys(sketch.outputs))
    parts = building.parts
    parts.results = [building.built[result] for result in returned]
    names = {built.name for built in parts.results}
    computed = [built for slot, built in building.built.items() if isinstance(slot, OperatorResult)]
    parts.interior = [built for built in computed if built.name not in names]
    return parts


class Build:
    """State of building: the values that exist already."""

    def __init__(self, sketch: Sketch, draws: Draws, hints: Hints) -> None:
        self.sketch = sketch
        self.draws = draws
        self.hints = hints
        self.types = Types(sketch, draws, hints)
        self.built: dict[Slot, Built] = {}
        self.shared_attributes: dict[str | None, Any] = {}
        self.parts = ModelParts(sketch.opset)
        self._variables = self._choose_variables()
        self._pool: list[Built] = []
        self._named = 0

    def _choose_variables(self) -> set[str] | None:
        """Choose the leaves that are variable; None if each leaf decides for itself."""
        names = list(dict.fromkeys(leaf.name for leaf in self.sketch.leaves() if leaf.fixed is None))
        mode = self.draws.choose("mode", _MODES)
        if mode == "variables" or not names:
            return set(names)
        if mode in ("all but one", "all but two"):
            count = 1 if mode == "all but one" else 2
            return {self.draws.choose(f"variable:{number}", names) for number in range(count)}
        return set() if mode == "constants" else None

    def name(self, prefix: str) -> str:
        """Return a fresh name."""
        self._named += 1
        return f"{prefix}{self._named}"

    def value(self, slot: Slot, shape: Shape, **wishes: Any) -> Built:
        """Return a value, building it on first use."""
        if slot not in self.built:
            if isinstance(slot, OperatorResult):
                self.op(slot.op, shape)
            else:
                self.built[slot] = self._leaf(slot, shape, **wishes)
        return self.built[slot]

    def op(self, op: OpenOperator, want: Shape) -> None:
        """Build an operator and its operands."""
        if op.result(0) in self.built:
            return
        site = RecipeSite(self, op, want)
        recipe_of(op)(site)
        site.finish()
        inputs = ["" if built is None else built.name for built in site.inputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        outputs = [self.name("v") for _ in op.pattern.outputs]
        node = onnx.helper.make_node(op.op_type, inputs, outputs, domain=op.domain)
        for name, value in site.attributes.items():
            # An empty list has no element type.
            kind = onnx.AttributeProto.INTS if value == [] else None
            node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
        self.parts.nodes.append(node)
        for index, (name, shape) in enumerate(zip(outputs, self._infer(op, node, site), strict=True)):
            self.built[op.result(index)] = Built(name, self.types.of(op.result(index)), shape)

    def _infer(self, op: OpenOperator, node: onnx.NodeProto, site: RecipeSite) -> list[Shape]:
        """Infer the shapes of the results with onnx; if it cannot, keep the wanted shape."""
        schema = schema_of(op.domain, op.op_type, self.sketch.opset if op.domain == "" else 1)
        if schema is None:
            return [_computed(op, site) or site.actual() or site.want for _ in node.output]
        types = {
            b.name: onnx.helper.make_tensor_type_proto(b.dtype.value, b.shape) for b in site.inputs if b is not None
        }
        data = {
            b.name: onnx.numpy_helper.from_array(b.array)
            for b in site.inputs
            if b is not None and b.array is not None and b.dtype is ir.DataType.INT64
        }
        opsets = [onnx.helper.make_opsetid("", self.sketch.opset)]
        try:
            found = cast(Any, onnx.shape_inference.infer_node_outputs)(schema, node, types, data, opset_imports=opsets)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
            raise UnbuildableError(str(error)) from error
        shapes_found: list[Shape] = []
        for name in node.output:
            known = found[name].tensor_type if name in found else None
            if known is None or not known.HasField("shape"):
                shapes_found.append(site.want)
                continue
            dims = [d.dim_value if d.HasField("dim_value") else 2 for d in known.shape.dim]
            shapes_found.append(tuple(dims))
        if any(size < 0 for shape in shapes_found for size in shape):
            raise UnbuildableError("negative size")
        if any(int(np.prod(shape)) > _MOST_ELEMENTS for shape in shapes_found):
            raise UnbuildableError("too large")
        return shapes_found

    def _leaf(
        self, leaf: Leaf, shape: Shape, values: Any = None, recipe: str | None = None, at_most: int | None = None
    ) -> Built:
        dtype = self.types.of(leaf)
        if leaf.fixed is not None:
            kind = self.draws.choose("fixed", ("initializer", "initializer", "Constant"))
            return self._constant(leaf, kind, convert(leaf.fixed, dtype))
        if leaf.name in self.hints.shapes and values is None:
            shape = tuple(self.draws.choose(f"shape:{leaf.name}", [tuple(s) for s in self.hints.shapes[leaf.name]]))
        kind = self._kind(leaf, fixed=values is not None)
        same = [b for b in self._pool if values is None and (b.dtype, b.shape) == (dtype, shape)]
        if same and self.draws.often("share", percent=10):
            return self.draws.choose("shared", same)
        if kind in ("input", "computed"):
            return self._input(leaf, kind, dtype, shape, None if values is None else convert(values, dtype), at_most)
        array = self._contents(leaf, dtype, shape, values, recipe, at_most)
        return self._constant(leaf, kind, array)

    def _kind(self, leaf: Leaf, *, fixed: bool) -> str:
        if fixed:
            return self.draws.choose("kind of argument", (*_CONSTANTS * 4, "input"))
        varies = leaf.name in self._variables if self._variables is not None else None
        if varies is None:
            varies = not self.draws.often(f"constant:{leaf.name}", percent=50)
        if varies:
            return self.draws.choose("kind of variable", ("input",) * 5 + ("computed",))
        return self.draws.choose("kind of constant", _CONSTANTS)

    def _contents(
        self, leaf: Leaf, dtype: ir.DataType, shape: Shape, given: Any, recipe: str | None, at_most: int | None
    ) -> np.ndarray:
        if given is not None:
            return convert(given, dtype)
        if leaf.name in self.hints.constants:
            return convert(self.draws.choose(f"hint:{leaf.name}", self.hints.constants[leaf.name]), dtype)
        if at_most is not None:
            indices = np.random.default_rng(self.draws.number(0, 3)).integers(-at_most - 1, at_most + 1, shape)
            return convert(np.abs(indices) % (at_most + 1) if self.draws.number(0, 1) else indices, dtype)
        chosen = recipe or self.draws.choose(f"recipe:{leaf.name}", recipes(dtype, shape))
        return make(chosen, dtype, shape, self.draws.number(0, 3))

    def _input(
        self,
        leaf: Leaf,
        kind: str,
        dtype: ir.DataType,
        shape: Shape,
        fixed: np.ndarray | None,
        at_most: int | None,
    ) -> Built:
        name = self.name("x")
        shape = shape if fixed is None else fixed.shape
        self.parts.inputs.append(ModelInput(name, dtype, shape, fixed, at_most))
        built = Built(name, dtype, shape, fixed)
        if kind == "computed":
            built = Built(self.name("h"), dtype, shape)
            self.parts.heads.append(onnx.helper.make_node("Identity", [name], [built.name]))
        elif fixed is None:
            self._pool.append(built)
        return built

    def _constant(self, leaf: Leaf, kind: str, array: np.ndarray) -> Built:
        dtype = self.types.of(leaf)
        name = self.name("c")
        tensor = ir.to_proto(ir.Tensor(array, dtype, name=name)) if array.dtype != object else _strings(array, name)
        if kind == "Constant":
            self.parts.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.parts.initializers.append(tensor)
        built = Built(name, dtype, array.shape, array)
        if kind == "initializer":
            self._pool.append(built)
            self.parts.constants.append(built)
        return built


def _computed(op: OpenOperator, site: RecipeSite) -> Shape | None:
    """Return the shape that an operator's definition infers for its result."""
    definition = next(iter(DEFINITIONS.get((op.domain, op.op_type)) or ()), None)
    if definition is None:
        return None
    given = [np.zeros(built.shape, built.dtype.numpy()) for built in site.inputs if built is not None]
    defaults = {attribute.name: attribute.default for attribute in definition.attributes}
    try:
        with np.errstate(all="ignore"):
            return definition.compute(given, {**defaults, **site.attributes}).shape
    except (ModelError, ValueError, IndexError, TypeError) as error:
        raise UnbuildableError(str(error)) from error


def _strings(array: np.ndarray, name: str) -> onnx.TensorProto:
    texts = [str(text).encode() for text in array.reshape(-1).tolist()]
    return cast(Any, onnx.helper.make_tensor)(name, onnx.TensorProto.STRING, array.shape, texts)


def recipe_of(op: OpenOperator) -> Recipe:
    """Return the recipe of an operator; the default is elementwise."""
    return RECIPES.get((op.domain, op.op_type)) or elementwise


def elementwise(site: RecipeSite) -> None:
    """Give every input a shape that broadcasts with the existing ones."""
    for index in site.in_order():
        whole = site.actual()
        if site.is_computed(index) or len(site.inputs) == 1:
            site.input(index, site.want if whole is None else whole)
        else:
            site.input(index, shapes.part(site.draws, site.want if whole is None else whole))


def _scalars(site: RecipeSite) -> None:
    site.input(0, site.want)
    for index in site.in_order():
        site.input(index, ())


def _mod(site: RecipeSite) -> None:
    floating = site.dtype("T").is_floating_point()
    site.attribute("fmod", (1,) if floating else (0, 1), optional=not floating)
    elementwise(site)


def _shift(site: RecipeSite) -> None:
    site.attribute("direction", ("LEFT", "RIGHT"), optional=False)
    elementwise(site)


def _cast(site: RecipeSite) -> None:
    site.attribute("to", (site.dtype("T2").value,), optional=False)
    site.input(0, site.want)


def _prelu(site: RecipeSite) -> None:
    x = site.input(0, site.want)
    whole = site.want if x is None else x.shape
    part = shapes.part(site.draws, whole)
    site.input(1, part if shapes.broadcast([whole, part]) == whole else whole)


def _quantize(site: RecipeSite) -> None:
    x = site.input(0, site.want)
    whole = site.want if x is None else x.shape
    shape: Shape = ()
    if whole and site.draws.often("per axis", percent=40):
        axis = int(site.attribute("axis", range(-len(whole), len(whole)), default=1))
        shape = whole[axis : axis + 1 or None]
    site.input(1, shape, recipe="power")
    site.input(2, shape)


RECIPES.attach(
    {
        "BitShift": _shift,
        "Cast": _cast,
        "Clip": _scalars,
        "DequantizeLinear": _quantize,
        "Dropout": _scalars,
        "Mod": _mod,
        "PRelu": _prelu,
        "QuantizeLinear": _quantize,
    }
)


_D = ir.DataType
_USUAL = (
    *(_D.FLOAT,) * 7,
    *(_D.DOUBLE, _D.INT32, _D.INT64, _D.FLOAT16, _D.INT8, _D.UINT8, _D.BOOL),
    *(_D.DOUBLE, _D.INT32, _D.INT64, _D.BFLOAT16),
)
_RARE = (_D.INT16, _D.UINT16, _D.UINT32, _D.UINT64, _D.STRING)
_POOL = frozenset(_USUAL) | frozenset(_RARE)
_FLOATS = frozenset({_D.FLOAT, _D.DOUBLE, _D.FLOAT16, _D.BFLOAT16})
_UNSIGNED = frozenset({_D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.BOOL})


class Types:
    """Equivalence classes of values by type, and the types that each class allows."""

    def __init__(self, sketch: Sketch, draws: Draws, hints: Hints) -> None:
        self._draws = draws
        self._hints = frozenset(_D.from_numpy(np.dtype(name)) for name in hints.dtypes)
        self._parent: dict[Hashable, Hashable] = {}
        self._allowed: dict[Hashable, frozenset[ir.DataType]] = {}
        self._chosen: dict[Hashable, ir.DataType] = {}
        self._labels: dict[Hashable, str] = {}
        for op in sketch.ops:
            self._relate(op)
        for leaf in sketch.leaves():
            if leaf.fixed is not None:
                self._narrow(leaf, _types_of_number(leaf.fixed))

    def of(self, value: Hashable) -> ir.DataType:
        """Return the type of a value, chosen on first use."""
        root = self._find(value)
        if root not in self._chosen:
            allowed = self._allowed[root] & _POOL
            usual = [dtype for dtype in _USUAL if dtype in allowed]
            label = self._labels.setdefault(root, f"dtype:{len(self._labels)}")
            hinted = [dtype for dtype in usual if dtype in self._hints]
            rare = [dtype for dtype in _RARE if dtype in allowed]
            options = hinted or (usual + rare if self._draws.every_type else usual) or rare
            self._chosen[root] = self._draws.choose(label, options)
        return self._chosen[root]

    def variable(self, op: OpenOperator, name: str) -> ir.DataType:
        """Return the type of a type variable of an operator."""
        return self.of((op, name))

    def _relate(self, op: OpenOperator) -> None:
        known = op.signature
        if known is None:
            self._narrow((op, "T"), _POOL - {_D.STRING})
            for value in (*op.inputs, *(op.result(i) for i in range(len(op.pattern.outputs)))):
                if value is not None:
                    self._join((op, "T"), value)
            return
        for name, allowed in known.allowed.items():
            # Variables that may also be sequences are not restricted.
            if allowed:
                self._narrow((op, name), allowed)
        for variables, slots, variadic in (
            (known.inputs, list(op.inputs), known.variadic_inputs),
            (known.outputs, [op.result(i) for i in range(len(op.pattern.outputs))], known.variadic_outputs),
        ):
            for index, slot in enumerate(slots):
                if slot is None:
                    continue
                if index >= len(variables) and not variadic:
                    raise UnbuildableError(f"{op.op_type} has no parameter {index}")
                variable = variables[min(index, len(variables) - 1)] if variables else None
                if variable is not None:
                    self._join((op, variable), slot)
        self._fix_cast(op)

    def _fix_cast(self, op: OpenOperator) -> None:
        """Set the type of the result of Cast to the target of the pattern."""
        target = getattr(op.pattern.attributes.get("to"), "_value", None)
        if op.op_type == "Cast" and isinstance(target, int):
            self._narrow(op.result(0), {_D(target)})

    def _find(self, item: Hashable) -> Hashable:
        while (parent := self._parent.setdefault(item, item)) is not item:
            item = parent
        self._allowed.setdefault(item, _POOL)
        return item

    def _join(self, a: Hashable, b: Hashable) -> None:
        first, second = self._find(a), self._find(b)
        if first is not second:
            self._parent[second] = first
            self._narrow(first, self._allowed[second])

    def _narrow(self, item: Hashable, allowed: Iterable[ir.DataType]) -> None:
        root = self._find(item)
        self._allowed[root] = self._allowed[root] & frozenset(allowed)
        if not self._allowed[root]:
            raise UnbuildableError("no type fits all operators")


def _types_of_number(number: object) -> frozenset[ir.DataType]:
    """Return the types that can hold a number of the pattern."""
    values = np.asarray(number, np.float64)
    if (values != np.rint(values)).any():
        return _FLOATS
    return _POOL - _UNSIGNED if (values < 0).any() else _POOL - {_D.STRING}
