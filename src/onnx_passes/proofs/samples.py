"""Numbers to try on two terms, and the inputs and results of two models side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.content import type_key
from onnx_passes.graph.shapes import dims, static_shape
from onnx_passes.graph.wording import count, type_text
from onnx_passes.numbers.algebra import Algebra, Tensor, UnsupportedError
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.ops.semantics.table import POOLING
from onnx_passes.proofs.proof import Assumption

Array = np.ndarray[Any, Any]

_MOST = 1 << 16
_SAMPLES = 2048


@dataclass(frozen=True)
class Domain:
    """The numbers that an input can hold: those from ``low`` to ``high``, multiples of ``step`` if that is given."""

    low: float
    high: float
    step: float | None = None

    def contains(self, array: Array) -> Array:
        """Tell which numbers are among them."""
        wide = array.astype(np.float64)
        inside = (wide >= self.low) & (wide <= self.high)
        return inside if self.step is None else inside & (np.remainder(wide, self.step) == 0)

    def __str__(self) -> str:
        grid = "" if self.step is None else f" in steps of {self.step:g}"
        return f"{self.low:g} … {self.high:g}{grid}"


def values_of(dtype: ir.DataType, domain: Domain | None = None) -> Array | None:
    """Return all numbers of a type, if there are not too many."""
    kind = dtype.numpy()
    if domain is not None and (domain.step is not None or dtype.is_integer()):
        step = domain.step or 1.0
        amount = int(np.floor((domain.high - domain.low) / step)) + 1
        if not 0 < amount <= _MOST:
            return None
        first = np.ceil(domain.low / step)
        every = (first + np.arange(amount)) * step
        every = every[every <= domain.high].astype(kind)
        # Zero is one number of a grid, but two of a float.
        return every if dtype.is_integer() or not (every == 0).any() else np.append(every, np.asarray(-0.0, kind))
    if dtype is ir.DataType.BOOL:
        return np.array([False, True])
    if dtype.bitwidth > 16 or dtype.bitwidth < 8:
        return None
    bits = np.arange(1 << dtype.bitwidth, dtype=np.uint8 if dtype.bitwidth == 8 else np.uint16)
    if dtype.bitwidth == 8:
        bits = np.arange(256, dtype=np.int64).astype(np.uint8)
    found = bits.view(kind)
    return found if domain is None else found[domain.contains(found)]


def all_inputs(
    variables: Mapping[int, ir.DataType], domains: Mapping[int, Domain], most: int = _MOST
) -> dict[int, Array] | None:
    """Return every combination of numbers for variables, if there are not too many."""
    each: dict[int, Array] = {}
    total = 1
    for variable, dtype in variables.items():
        found = values_of(dtype, domains.get(variable))
        if found is None or (total := total * len(found)) > most:
            return None
        each[variable] = found
    grids: list[Array] = list(np.meshgrid(*each.values(), indexing="ij", copy=False)) if each else []
    return {variable: grid.reshape(-1) for variable, grid in zip(each, grids, strict=True)}


def some_inputs(
    variables: Mapping[int, ir.DataType],
    domains: Mapping[int, Domain],
    constants: Iterable[Array],
    *,
    amount: int = _SAMPLES,
    seed: int = 0,
) -> dict[int, Array]:
    """Return combinations of special numbers, numbers beside constants, and random ones."""
    random = np.random.default_rng(seed)
    nearby = list(constants)
    pools = {dtype: _special(dtype, nearby, random) for dtype in set(variables.values())}
    each = {v: _within(pools[dtype], domains.get(v), dtype, random) for v, dtype in variables.items()}
    amount = max(min(amount, 8 * amount // max(len(each), 1)), 128)
    if len(each) <= 2:
        grids = np.meshgrid(
            *(pool[: max(_SAMPLES, 1) if len(each) == 1 else 96] for pool in each.values()), indexing="ij"
        )
        found = {v: grid.reshape(-1) for v, grid in zip(each, grids, strict=True)}
        if len(each) == 1:
            return found
    else:
        found = {}
    mixed = {v: random.choice(pool, amount) if len(pool) else pool for v, pool in each.items()}
    # Among many variables that are special one after the other is seldom alone.
    plain = {v: random.choice(pool[-len(pool) // 2 :], amount) for v, pool in each.items()}
    for place, variable in enumerate(plain):
        spot = slice(place % amount, None, max(len(plain), 1))
        plain[variable][spot] = random.choice(each[variable], len(plain[variable][spot]))
    return {v: np.concatenate([*([found[v]] if found else []), mixed[v], plain[v]]) for v in each}


def _special(dtype: ir.DataType, constants: Iterable[Array], random: np.random.Generator) -> Array:
    """Return special numbers first, plain ones last."""
    kind = dtype.numpy()
    if dtype is ir.DataType.BOOL:
        return np.array([False, True])
    if dtype.is_integer():
        low, high = int(dtype.min), int(dtype.max)
        close = {int(c) + d for c in constants if c.dtype.kind in "biuf" and np.isfinite(float(c)) for d in (-1, 0, 1)}
        ends = {low, low + 1, high, high - 1, high // 2, low // 2, *range(-9, 10), *close}
        drawn = random.integers(low, high, 400, dtype=np.int64 if low < 0 else np.uint64, endpoint=True).tolist()
        small = random.integers(max(low, -100), min(high, 100), 400).tolist()
        return np.array([n for n in [*sorted(ends), *drawn, *small] if low <= n <= high], object).astype(kind)
    limits = [float(dtype.max), -float(dtype.max)]
    tiny = np.array([1, 2], _unsigned(kind)).view(kind).astype(np.float64).tolist()
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, *limits, *tiny, -tiny[0], 2.0, 0.5, 3.0, -3.0, 0.1, 0.3]
    near: list[float] = []
    for constant in constants:
        if constant.dtype.kind not in "biu" and constant.size == 1:
            near.extend(_neighbours(constant))
    with np.errstate(all="ignore"):
        spread = random.standard_normal(300) * 2.0 ** random.integers(-12, 12, 300)
        plain = np.concatenate([random.standard_normal(300), random.integers(-20, 20, 100)])
        wild = random.integers(0, 1 << min(np.dtype(kind).itemsize * 8, 63), 200, dtype=np.uint64)
        patterns = wild.astype(_unsigned(kind)).view(kind)
        start = np.array([*numbers, *near], np.float64).astype(kind)
        return np.concatenate([start, patterns, spread.astype(kind), plain.astype(kind)])


def _neighbours(constant: Array) -> list[float]:
    """Return a number of a float type and those just beside it."""
    kind = constant.dtype
    bits = constant.reshape(1).view(_unsigned(kind))
    with np.errstate(all="ignore"):
        beside = np.concatenate([bits, bits + np.ones(1, bits.dtype), bits - np.ones(1, bits.dtype)]).view(kind)
        return beside.astype(np.float64).tolist()


def _unsigned(kind: Any) -> str:
    return f"u{np.dtype(kind).itemsize}"


def _within(pool: Array, domain: Domain | None, dtype: ir.DataType, random: np.random.Generator) -> Array:
    if domain is None:
        return pool
    drawn = random.uniform(domain.low, domain.high, 400)
    if domain.step is not None:
        drawn = np.round(drawn / domain.step) * domain.step
    ends = np.array([domain.low, domain.high])
    found = np.concatenate([ends.astype(dtype.numpy()), pool, drawn.astype(dtype.numpy())])
    return found[domain.contains(found)]


def paired_inputs(before: ir.Model, after: ir.Model) -> list[int]:
    """Return for each input of the second model the place of the same one in the first, by name, else by order."""
    ours, theirs = before.graph.inputs, after.graph.inputs
    names = {value.name: index for index, value in enumerate(ours)}
    by_name = all(value.name in names for value in theirs)
    if not by_name and len(ours) != len(theirs):
        raise UnsupportedError("the models have different inputs")
    found = [names[value.name] if by_name else index for index, value in enumerate(theirs)]
    for value, index in zip(theirs, found, strict=True):
        other = ours[index]
        if value.dtype is not other.dtype or static_shape(value) != static_shape(other):
            raise UnsupportedError(f"the input '{value.name}' has another type or shape")
        if not has_same_default(value, other):
            raise UnsupportedError(f"the input '{value.name}' has another default")
    return found


def has_same_default(one: ir.Value, other: ir.Value) -> bool:
    """Tell whether who leaves an input out gets the same."""
    a, b = one.const_value, other.const_value
    if a is None or b is None or a is b:
        return a is b
    return a.dtype is b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def variables(algebra: Algebra, model: ir.Model) -> list[Tensor]:
    """Make variables for the inputs of a model."""
    made: list[Tensor] = []
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        if shape is None or dtype is None:
            raise UnsupportedError(f"type or shape of '{value.name}' is not known")
        made.append(Tensor(dtype, None, algebra.variable(value.name or "", dtype, shape)))
    return made


def interface_difference(model: ir.Model, a: Sequence[Tensor], b: Sequence[Tensor]) -> str:
    """Say how the outputs differ in number, type or shape."""
    if len(a) != len(b):
        return f"{len(a)} outputs become {len(b)}"
    for value, one, other in zip(model.graph.outputs, a, b, strict=True):
        if one.dtype is not other.dtype:
            return f"'{value.name}' becomes {other.dtype.name}, and was {one.dtype.name}"
        if one.shape != other.shape:
            return f"'{value.name}' becomes {list(other.shape)}, and was {list(one.shape)}"
    return ""


def assumptions_of(terms: Terms, first: Evaluation, second: Evaluation) -> tuple[Assumption, ...]:
    """Return what equal terms of two models assume, so that outputs are equal bit by bit."""
    pooled = [{place for place in each.places if place.operator == POOLING} for each in (first, second)]
    moved = (first.places ^ second.places) - pooled[0] - pooled[1]
    elements = sorted({place.operator for place in moved if not place.sums})
    sums = sorted({place.operator for place in moved if place.sums})
    found = [Assumption(f"{name} gives an element the same bits wherever it is", "equal-in-reals") for name in elements]
    if sums:
        found.append(Assumption(f"{', '.join(sums)}: the same sums are rounded alike in any place", "equal-in-reals"))
    if all(pooled) and pooled[0] != pooled[1]:
        found.append(
            Assumption("MaxPool treats NaN alike, wherever they are and whatever its attributes", "equal-in-reals")
        )
    return (*(Assumption(text) for text in sorted(terms.assumed)), *found)


def model_interface_difference(before: ir.Model, after: ir.Model) -> str:
    """Return the first difference between the interfaces of two models, or an empty text.

    Inputs must have the same static dimensions, as runtimes refuse others. Dimensions of outputs are claims, of which
    one model may make more than the other; they must not contradict each other.
    """
    return _inputs_differ(before.graph.inputs, after.graph.inputs) or _values_differ(
        "output", before.graph.outputs, after.graph.outputs, open_dims=True
    )


def lone_defaults(before: ir.Model, after: ir.Model) -> list[str]:
    """List the inputs with a default that only one of two models has: whoever leaves them out can use either."""
    names = [{value.name for value in model.graph.inputs} for model in (before, after)]
    inputs = (value for model in (before, after) for value in model.graph.inputs if value.is_initializer())
    return [str(value.name) for value in inputs if value.name in names[0] ^ names[1]]


def without_inputs(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Copy a model without some inputs, which become constants of their defaults."""
    if not names:
        return model
    copied = copy_model(model)
    for value in [value for value in copied.graph.inputs if value.name in names]:
        copied.graph.inputs.remove(value)
    return copied


def _inputs_differ(before: Sequence[ir.Value], after: Sequence[ir.Value]) -> str:
    found = _values_differ("input", before, after, open_dims=False)
    if found:
        return found
    other = next((a for a, b in zip(before, after, strict=True) if not has_same_default(a, b)), None)
    return "" if other is None else f"the default of input '{other.name}' is another one"


def _values_differ(noun: str, before: Sequence[ir.Value], after: Sequence[ir.Value], *, open_dims: bool) -> str:
    if len(before) != len(after):
        return f"{count(before, noun)} before, {count(after, noun)} after"
    for place, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.name != b.name:
            return f"{noun} {place} is '{a.name}' before, '{b.name}' after"
        types = type_key(a.type), type_key(b.type)
        unknown = open_dims and None in types
        if (types[0] != types[1] and not unknown) or not _fits(a, b, open_dims=open_dims):
            texts = [type_text(value.type, value.shape) for value in (a, b)]
            return f"{noun} '{a.name}' is {texts[0]} before, {texts[1]} after"
    return ""


def _fits(a: ir.Value, b: ir.Value, *, open_dims: bool) -> bool:
    """Return whether two shapes are the same but for names of dimensions."""
    one, other = dims(a), dims(b)
    if one is None or other is None:
        return open_dims or one is other
    fixed = [[dim if isinstance(dim, int) else None for dim in shape] for shape in (one, other)]
    if len(one) != len(other):
        return False
    return all(x == y or (open_dims and None in (x, y)) for x, y in zip(*fixed, strict=True))
