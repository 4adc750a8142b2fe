"""Generated samples: inputs for a model from nothing but the model and a seed."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.verify.reference import Array, Sample, integer_limits

Range = tuple[float, float]
Sizes = Mapping[str, int]

_PERIOD = 1_000_003
"""Larger inputs repeat what is drawn for this many elements; prime, so that rows of a tensor do not repeat."""
_MOST_ELEMENTS = 2**31
_EXACT_INTEGERS = 2**53
_EDGES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 0.25, -0.125, 16.0, -64.0, 1e3, -1e3, 1e-6)
_WORDS = ("", "a", "b", "Hello World", "hello world", "ß", "0", "-1.5")

_MOVES_DATA = {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Slice", "Tile"}
_CALCULATES = {"Add", "Sub", "Mul", "Neg", "Abs", "Cast", "Min", "Max", "Equal", "Less", "Greater", "Where", "Sign"}
_WINDOWS = {"Conv", "MaxPool", "AveragePool", "Pad", "ConvInteger", "QLinearConv", "STFT"}
"""Operators that need room: images of some dozens of pixels, signals of some hundreds of values."""
_TABLE_OF_INDICES = {
    ("", "Gather", 1): 0,
    ("", "GatherElements", 1): 0,
    ("", "GatherND", 1): 0,
    ("", "Scatter", 1): 0,
    ("", "ScatterElements", 1): 0,
    ("", "ScatterND", 1): 0,
    ("com.microsoft", "EmbedLayerNormalization", 0): 2,
    ("com.microsoft", "EmbedLayerNormalization", 1): 4,
}
"""Inputs of operators that hold indices, and the input that holds what they point into."""
_DEMANDS = {
    ("", "Div", 1): (1, 4),
    ("", "Mod", 1): (1, 4),
    ("", "Expand", 1): (1, 1),
    ("", "Tile", 1): (1, 2),
    ("", "ConstantOfShape", 0): (1, 3),
    ("", "TopK", 1): (1, 1),
}
"""Inputs of operators that fail, some of them by ending the process, on integers out of this range."""
_QUANTIZER_DOMAINS = {"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn"}


def generate(
    model: ir.Model,
    *,
    seed: int = 0,
    samples: int = 3,
    dimensions: Mapping[str, int] | None = None,
    special: bool = False,
    ranges: Mapping[str, Range] | None = None,
) -> list[Sample]:
    """Draw samples for the inputs of a model that have no default.

    The first sample is normally distributed, the second holds small integers (exact arithmetic: any difference is
    an error), the third edge values; then the same again. Inputs of a quantizer lie on its grid, between, on the ties
    and beyond; inputs annotated with a data type hold only values of that type; integers that serve as indices stay
    in bounds. Dynamic dimensions differ from sample to sample, one size for one name. What an input gets depends on
    its name and the seed, not on other inputs.

    ``dimensions`` fixes dynamic dimensions by name (``x[0]`` for an unnamed one), ``ranges`` the values of inputs,
    and ``special`` adds infinities, NaN, the largest and the smallest numbers to the edge values.
    """
    if seed < 0 or samples < 1:
        raise UsageError(f"cannot generate {samples} samples from seed {seed}", hint="give a positive number and seed")
    graph = model.graph
    inputs = {str(v.name): v for v in graph.inputs if str(v.name) not in graph.initializers}
    for name, value in inputs.items():
        _check_type(name, value)
    _check_names(ranges or {}, inputs, "input")
    dynamic = _dynamic_dimensions(model, inputs)
    _check_names(dimensions or {}, dynamic, "dynamic dimension")
    for name, size in (dimensions or {}).items():
        if size < 0:
            raise UsageError(f"dynamic dimension '{name}' cannot have the size {size}")
    bounds = {name: _check_range(inputs[name], low, high) for name, (low, high) in (ranges or {}).items()}
    result: list[Sample] = []
    for number in range(samples):
        sizes = _sizes(dynamic, number, dimensions or {})
        draws = (
            _Draw(model, value, sizes, number, special, bounds.get(name), _random(seed, number, name))
            for name, value in inputs.items()
        )
        result.append({str(draw.value.name): draw.array() for draw in draws})
    return result


@dataclass(frozen=True)
class _Grid:
    """The values ``(k - zero) * scale`` for integers ``k`` from ``low`` to ``high``; ``closed`` if no others occur."""

    low: int
    high: int
    scale: Array
    zero: Array
    closed: bool = False


@dataclass(frozen=True)
class _Draw:
    """What decides the values of one input in one sample."""

    model: ir.Model
    value: ir.Value
    sizes: Sizes
    number: int
    special: bool
    bounds: Range | None
    random: np.random.Generator

    @property
    def dtype(self) -> ir.DataType:
        return cast("ir.DataType", self.value.dtype)

    def array(self) -> Array:
        shape = _shape_of(self.value, self.sizes)
        if math.prod(shape) > _MOST_ELEMENTS:
            raise UsageError(
                f"input '{self.value.name}' of shape {list(shape)} is too large to generate",
                hint="give its data with --inputs",
            )
        count = min(math.prod(shape), _PERIOD)
        grid = _annotated_grid(self.value) or self._quantizer_grid(shape) if self.bounds is None else None
        drawn = self._values(count) if grid is None else self._on_grid(grid, count, shape)
        return drawn.reshape(shape) if drawn.size == math.prod(shape) else np.resize(drawn, shape)

    def _on_grid(self, grid: _Grid, count: int, shape: Sequence[int]) -> Array:
        steps = self._steps(grid, count)
        scale, zero = grid.scale.reshape(()) if grid.scale.size == 1 else grid.scale, grid.zero
        zero = zero.reshape(()) if zero.size == 1 else zero
        if scale.ndim or zero.ndim:
            steps = np.resize(steps, shape)
        values = self._finish((steps - zero) * scale)
        if self.special and self.number % 3 == 2 and not grid.closed:
            chosen = np.resize(_shuffled_cycle(self.random, 5, count) == 0, values.shape)
            picks = self._finish(self.random.permutation(self._special_values()))
            values[chosen] = np.resize(picks, int(chosen.sum()))
        return values

    def _values(self, count: int) -> Array:
        dtype, random = self.dtype, self.random
        if dtype is ir.DataType.STRING:
            return np.array(_WORDS, dtype=object)[random.integers(len(_WORDS), size=count)]
        if dtype is ir.DataType.BOOL:
            return random.integers(2, size=count).astype(bool)
        if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            return (random.standard_normal(count) + 1j * random.standard_normal(count)).astype(dtype.numpy())
        if dtype.is_integer():
            low, high = self.bounds or self._integer_bounds()
            return self._integers(int(low), int(high), count).astype(dtype.numpy())
        if self.bounds is not None:
            return self._finish(_with_ends(random, random.uniform(*self.bounds, count), *self.bounds))
        indices = self._demanded(floats=True)
        if indices is not None:
            return self._finish(self._integers(*indices, count))
        return self._floats(count)

    def _floats(self, count: int) -> Array:
        if self.number % 3 == 1:
            return self._finish(self.random.integers(-4, 5, count).astype(np.float32))
        values = self.random.standard_normal(count, np.float64 if self.dtype is ir.DataType.DOUBLE else np.float32)
        if self.number % 3 == 0:
            return self._finish(values)
        edges = np.array(_EDGES)
        pool = edges[np.abs(edges) <= float(_float_info(self.dtype).max)]
        if self.special:
            pool = np.concatenate([pool, self._special_values()])
        chosen = _shuffled_cycle(self.random, 2, count) == 0
        picks = np.resize(self.random.permutation(pool), count)
        return self._finish(np.where(chosen, picks, values))

    def _special_values(self) -> Array:
        info = _float_info(self.dtype)
        largest, normal, smallest = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
        return np.array([np.inf, -np.inf, np.nan, largest, -largest, normal, -normal, smallest, -smallest])

    def _finish(self, values: Array) -> Array:
        """Convert to the element type; one that holds nothing but powers of two gets these as exponents."""
        if self.dtype is ir.DataType.FLOAT8E8M0:
            values = np.exp2(np.rint(np.clip(values, -8, 8)))
        if self.dtype.is_integer():
            values = np.clip(np.rint(values), *integer_limits(self.dtype))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return values.astype(self.dtype.numpy(), copy=False)

    def _integers(self, low: int, high: int, count: int) -> Array:
        kind = np.uint64 if high >= 2**63 else np.int64
        drawn = self.random.integers(low, high, count, kind, endpoint=True)
        return _with_ends(self.random, drawn, low, high)

    def _integer_bounds(self) -> tuple[int, int]:
        demanded = self._demanded()
        if demanded is not None:
            return demanded
        if self.dtype.bitwidth <= 16:
            return integer_limits(self.dtype)
        signed = self.dtype.is_signed() and self.number % 3 == 2
        if signed and all(use.node.op_type in _CALCULATES and use.node.domain == "" for use in self.value.uses()):
            return -4, 4
        return 0, 3

    def _demanded(self, *, floats: bool = False) -> tuple[int, int] | None:
        """Return the range that every operator reached accepts, if any cares; for floats, as indices only."""
        low, high = None, None
        for node, index in _reached(self.model, self.value):
            table = _TABLE_OF_INDICES.get((node.domain, node.op_type, index))
            found = None if floats else _DEMANDS.get((node.domain, node.op_type, index))
            if table is not None and table < len(node.inputs):
                found = 0, max(self._rows(node, node.inputs[table]) - 1, 0)
            elif (node.domain, node.op_type, index) == ("", "OneHot", 0):
                depth = constant(node.inputs[1])
                found = 0, max(int(depth.reshape(-1)[0]) - 1, 0) if depth is not None and depth.size else 0
            if found is not None:
                low = found[0] if low is None else max(low, found[0])
                high = found[1] if high is None else min(high, found[1])
        return None if low is None or high is None else (low, max(low, high))

    def _rows(self, node: ir.Node, table: ir.Value | None) -> int:
        """Count what indices can point at; one where the size is not known, since the first is always there."""
        tensor = constant_tensor(table)
        shape = tensor.shape if tensor is not None else None if table is None else table.shape
        if shape is None or len(shape) == 0:
            return 1
        dims = [d if isinstance(d, int) else self.sizes.get(str(d.value), 1) for d in cast("ir.Shape", shape)]
        if node.op_type.endswith("ND"):
            return min(dims)
        axis = node.attributes.get_int("axis", 0)
        return dims[axis] if -len(dims) <= axis < len(dims) else 1

    def _quantizer_grid(self, shape: Sequence[int]) -> _Grid | None:
        if not self.dtype.is_floating_point():
            return None
        for node, index in self.value.uses():
            grid = _grid_of(node, len(shape)) if index == 0 else None
            if grid is not None and _broadcasts(grid, shape):
                return grid
        return None

    def _steps(self, grid: _Grid, count: int) -> Array:
        """Draw positions on the grid: steps, ties between them, anything, and what lies at and beyond its ends."""
        low, high, random = grid.low, grid.high, self.random
        if grid.closed:
            return self._integers(low, high, count).astype(np.float64)
        steps = random.integers(low - 1, high + 1, count, endpoint=True).astype(np.float64)
        inside, outside = (low, high, low + 0.5, high - 0.5), (low - 0.5, high + 0.5, 2 * low - 1, 2 * high + 1)
        ends = np.array([*inside, *outside, -0.0])
        kind = _shuffled_cycle(random, 4, count)
        steps[kind == 1] += 0.5
        steps[kind == 2] += random.uniform(-0.5, 0.5, int((kind == 2).sum()))
        steps[kind == 3] = np.resize(random.permutation(ends), int((kind == 3).sum()))
        return steps


def _reached(model: ir.Model, value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Yield where the values of an input arrive, unchanged but for their place, calls of functions included."""
    todo, seen = [value], {value}
    while todo:
        for node, index in todo.pop().uses():
            yield node, index
            function = model.functions.get(node.op_identifier())
            if function is not None:
                onward = function.inputs[index : index + 1]
            elif node.domain == "" and (node.op_type == "Concat" or (node.op_type in _MOVES_DATA and index == 0)):
                onward = node.outputs
            else:
                continue
            todo += [value for value in onward if value not in seen]
            seen.update(onward)


def _shuffled_cycle(random: np.random.Generator, kinds: int, count: int) -> Array:
    """Give every kind its share, in no order, however few there are to share."""
    return random.permutation((np.arange(count) + random.integers(kinds)) % kinds)


def _with_ends(random: np.random.Generator, values: Array, low: float, high: float) -> Array:
    """Let both ends of a range occur, where there is room for both."""
    if values.size > 1:
        first = int(random.integers(values.size))
        second = (first + 1 + int(random.integers(values.size - 1))) % values.size
        values[first], values[second] = low, high
    return values


def _annotated_grid(value: ir.Value) -> _Grid | None:
    """Return the values of the data type that a value is annotated with."""
    name = annotations.get(value).get("finn_datatype", "")
    dtype = cast("ir.DataType", value.dtype)
    if not (dtype.is_floating_point() or dtype.is_integer()):
        return None
    one, zero = np.array(1.0), np.array(0.0)
    if name == "BIPOLAR":
        return _Grid(0, 1, np.array(2.0), np.array(0.5), closed=True)
    if name in ("BINARY", "TERNARY"):
        return _Grid(-1 if name == "TERNARY" else 0, 1, one, zero, closed=True)
    parsed = re.fullmatch(r"(U?INT|FIXED<)(\d{1,4})(?:,(\d{1,4})>)?", name)
    if parsed is None or int(parsed[2]) == 0 or (parsed[1] == "FIXED<") != (parsed[3] is not None):
        return None
    bits = int(parsed[2])
    low, high = (0, 2**bits - 1) if parsed[1] == "UINT" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # Beyond the precision of the element type there are values of the data type that it cannot hold.
    exact = 2 ** (_float_info(dtype).nmant + 1) if dtype.is_floating_point() else _EXACT_INTEGERS
    scale = one if parsed[3] is None else np.exp2(np.array(float(int(parsed[3]) - bits)))
    return _Grid(max(low, -exact), min(high, exact), scale, zero, closed=True)


def _grid_of(node: ir.Node, rank: int) -> _Grid | None:
    """Return the grid of a quantizer whose parameters are constant."""
    parameters = [constant(value) for value in node.inputs[1:]]
    if not parameters or parameters[0] is None:
        return None
    scale = parameters[0].astype(np.float64)
    if node.domain in _QUANTIZER_DOMAINS and node.op_type == "BipolarQuant":
        return _Grid(-1, 1, scale, np.array(0.0))
    if node.domain in _QUANTIZER_DOMAINS and node.op_type in ("Quant", "IntQuant") and len(parameters) == 3:
        _, zero, bits = parameters
        if zero is None or bits is None or bits.size == 0 or not 1 <= float(bits.max()) <= 52:
            return None
        width, narrow = float(bits.max()), node.attributes.get_int("narrow", 0)
        if node.attributes.get_int("signed", 1):
            low, high = -(2 ** (width - 1)) + narrow, 2 ** (width - 1) - 1
        else:
            low, high = 0, 2**width - 1 - narrow
        # One signed bit is bipolar.
        return _Grid(math.floor(low), max(math.ceil(high), 1), scale, zero.astype(np.float64))
    if node.domain == "" and node.op_type == "QuantizeLinear" and not node.attributes.get_int("block_size", 0):
        return _linear_grid(node, scale, rank)
    return None


def _linear_grid(node: ir.Node, scale: Array, rank: int) -> _Grid | None:
    dtype, zero = ir.DataType(node.attributes.get_int("output_dtype", 0) or ir.DataType.UINT8), np.array(0.0)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        tensor = constant_tensor(node.inputs[2])
        if tensor is None:
            return None
        dtype, zero = tensor.dtype, tensor.numpy().astype(np.float64)
    if not dtype.is_integer():
        return None
    axis = node.attributes.get_int("axis", 1)
    axis += rank if axis < 0 else 0
    if scale.ndim == 1 and scale.size > 1 and 0 <= axis < rank:
        along = [-1 if dim == axis else 1 for dim in range(rank)]
        scale, zero = scale.reshape(along), zero.reshape(along) if zero.size > 1 else zero
    return _Grid(*integer_limits(dtype), scale, zero)


def _broadcasts(grid: _Grid, shape: Sequence[int]) -> bool:
    """Tell whether the parameters of a grid are sane and apply to the shape without enlarging it."""
    if not (np.isfinite(grid.scale).all() and np.isfinite(grid.zero).all() and grid.scale.size and grid.zero.size):
        return False
    try:
        return np.broadcast_shapes(grid.scale.shape, grid.zero.shape, tuple(shape)) == tuple(shape) or (
            grid.scale.size == grid.zero.size == 1
        )
    except ValueError:
        return False


def _float_info(dtype: ir.DataType) -> Any:
    return cast("Any", ml_dtypes.finfo(dtype.numpy()))


def _random(seed: int, number: int, name: str) -> np.random.Generator:
    digest = np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4").tolist()
    return np.random.Generator(np.random.PCG64([seed, number, *digest]))


def _key(name: str, axis: int, dim: int | ir.SymbolicDim) -> str | None:
    """Return what a dynamic dimension is called; some exporters write -1 for an unknown one."""
    if isinstance(dim, int):
        return None if dim >= 0 else f"{name}[{axis}]"
    return dim.value or f"{name}[{axis}]"


def _dynamic_dimensions(model: ir.Model, inputs: Mapping[str, ir.Value]) -> dict[str, int]:
    """Return the dynamic dimensions, each with the least size that the operators there are likely to accept."""
    found: dict[str, int] = {}
    for name, value in inputs.items():
        dims = cast("ir.Shape", value.shape).dims
        keys = [_key(name, axis, dim) for axis, dim in enumerate(dims)]
        image = len(dims) == 4 and sum(key is not None for key in keys[1:]) >= 2
        if image or (any(keys[1:]) and any(node.op_type in _WINDOWS for node, _ in _reached(model, value))):
            least = 32 if len(dims) >= 4 else 512
        else:
            least = 1
        for axis, key in enumerate(keys):
            if key is not None:
                found[key] = min(found.get(key, least), least if axis else 1)
    return found


def _sizes(found: Mapping[str, int], number: int, given: Mapping[str, int]) -> dict[str, int]:
    """Choose the sizes of dynamic dimensions in one sample."""
    sizes = {key: given.get(key, least * (1 + number % (8 if least == 1 else 3))) for key, least in found.items()}
    for key in found:
        # Exporters name dimensions after others, such as 'past + 1'; what they name must be there to be believed.
        if key not in given and re.fullmatch(r"[\w .+*()-]+", key) and re.search(r"[+*-]", key) and "**" not in key:
            try:
                dim = ir.SymbolicDim(key)
                size = dim.evaluate(sizes) if dim.free_symbols() <= sizes.keys() - {key} else None
            except (ValueError, TypeError):
                continue
            if isinstance(size, int) and size >= 0:
                sizes[key] = size
    return sizes


def _shape_of(value: ir.Value, sizes: Sizes) -> tuple[int, ...]:
    dims = cast("ir.Shape", value.shape).dims
    keys = [_key(str(value.name), axis, dim) for axis, dim in enumerate(dims)]
    return tuple(cast("int", dim) if key is None else sizes[key] for key, dim in zip(keys, dims, strict=True))


def _check_type(name: str, value: ir.Value) -> None:
    hint = "give its data with --inputs"
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise UsageError(f"input '{name}' is no tensor but {value.type}, for which none is generated", hint=hint)
    if value.dtype is None or value.dtype is ir.DataType.UNDEFINED:
        raise UsageError(f"input '{name}' has no element type, so no data can be generated", hint=hint)
    if value.shape is None:
        raise UsageError(f"input '{name}' has no shape, so no data can be generated", hint=hint)


def _check_names(given: Mapping[str, object], known: Mapping[str, object], kind: str) -> None:
    for name in given:
        if name not in known:
            listed = ", ".join(f"'{k}'" for k in known) or "none"
            hint = did_you_mean(name, known) or f"known: {listed}"
            raise UsageError(f"the model has no {kind} '{name}' to generate", hint=hint)


def _check_range(value: ir.Value, low: float, high: float) -> Range:
    dtype = cast("ir.DataType", value.dtype)
    if not (dtype.is_integer() or dtype.is_floating_point()):
        raise UsageError(f"input '{value.name}' holds {dtype.name.lower()}, which has no range")
    if dtype.is_integer():
        smallest, largest = integer_limits(dtype)
        first, last = (math.ceil(low), math.floor(high)) if math.isfinite(low) and math.isfinite(high) else (1, 0)
    else:
        largest = float(_float_info(dtype).max)
        smallest = -largest
        first, last = low, high
    if not smallest <= first <= last <= largest:
        raise UsageError(
            f"the range {low} to {high} for input '{value.name}' holds no {dtype.name.lower()}, or others too",
            hint=f"give two numbers between {smallest} and {largest}, the smaller first",
        )
    return first, last
