"""Generate sample inputs from the model and a seed, within a budget of time that its estimated cost sets."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.tensor_types import declared_bounds, integer_limits
from onnx_passes.ops.facts.allowed_values import annotated_grid, float_info
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.run.resources import Pace, current_resources
from onnx_passes.verify.samples.draw import Bounds, Draw, Kind, special_places
from onnx_passes.verify.samples.integers import Critical, decisive_values
from onnx_passes.verify.samples.size_search import Place
from onnx_passes.verify.samples.sizes import (
    UNLIKE,
    Sizes,
    dimension_key,
    dynamic_dimensions,
    shape_of,
    sizes_of_sample,
)

_LITTLE = 2**20
"""Products and elements of one run; ONNX Runtime does as many in about a millisecond."""
_ELEMENT = 4
"""What an element of an input counts, as it is drawn and passes through several nodes."""
_FEW_NODES = 400
_MUCH = 2**23
"""What a single sample of larger sizes may cost."""
_MANY_NODES = 2000
WIDE = (130, 66, 34, 18)
"""Sizes beyond what rewrites take for large: 128, 64, 32, 16."""
_SLIDES = frozenset({"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "LSTM", "GRU", "RNN"})
_REPEATS = frozenset({"Loop", "Scan"})
_UNKNOWN = 8
"""What a dynamic dimension counts."""


_SECONDS = 0.01
_SECONDS_PER_NODE = 4e-5
"""A tenth of what it takes to load, simplify and save a model: samples run again after passes, and piece by piece."""


def seconds_for_samples(model: ir.Model, effort: float) -> float:
    """Return the seconds that one round of runs on samples may take, beyond the one that there is always."""
    return effort * (_SECONDS + _SECONDS_PER_NODE * sum(1 for _ in all_nodes(model.graph)))


def is_small(model: ir.Model, inputs: Iterable[ir.Value]) -> bool:
    """Return whether a model runs in about a millisecond."""
    fed = [_sizes(value, _UNKNOWN) for value in inputs]
    places = max((math.prod(sizes[2:]) if len(sizes) > 2 else max(sizes, default=1) for sizes in fed), default=1)
    effort = _ELEMENT * sum(map(math.prod, fed))
    for nodes, (sliding, still) in enumerate(_weights(model)):
        if nodes > _FEW_NODES or effort > _LITTLE:
            return False
        effort += sliding * places + still
    return effort <= _LITTLE


def affordable_size(model: ir.Model, inputs: Sequence[ir.Value]) -> int:
    """Return the largest size of all dynamic dimensions at which a model still runs quickly; 0 if none is."""
    weights, nodes = 0.0, 0
    for nodes, (sliding, still) in enumerate(_weights(model)):
        weights += sliding + still
        if nodes > _MANY_NODES or weights > _MUCH:
            return 0
    for size in WIDE:
        fed = [_sizes(value, size) for value in inputs]
        # At each place of a signal or an image, and in each row that is multiplied by a matrix, all weights may count.
        places = (math.prod(sizes[:1] + sizes[2:]) if len(sizes) > 2 else math.prod(sizes) for sizes in fed)
        if weights * max(places, default=1) / _ELEMENT + nodes * sum(map(math.prod, fed)) <= _MUCH:
            return size
    return 0


def _sizes(value: ir.Value, unknown: int) -> list[int]:
    return [size if isinstance(size, int) and size > 0 else unknown for size in value.shape or ()]


def _weights(model: ir.Model) -> Iterator[tuple[float, float]]:
    """Yield, node by node, how many weights slide over an input, and how many do not; infinite if nobody knows."""
    for node in all_nodes(model.graph):
        tensors = [constant_tensor(value) for value in node.inputs]
        slides = node.op_type in _SLIDES
        # Weights that are computed may be of any size.
        unknown = node.op_type in _REPEATS or (slides and tensors[1:2] == [None])
        size = math.inf if unknown else sum(tensor.size for tensor in tensors if tensor is not None)
        yield (size, 0) if slides else (0, size)


_SPECIAL_TYPES = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16}
_EXTRA = 1000
"""The number of the extra sample, beyond those of others."""
_SHARE = 8
"""The part of the limit of memory that samples may take; there is always one."""
_KINDS: tuple[Kind, ...] = ("normal", "integers", "edges")


def generate(
    model: ir.Model,
    *,
    seed: int = 0,
    samples: int | None = None,
    thorough: bool = False,
    dimensions: Mapping[str, int] | None = None,
) -> list[Sample]:
    """Draw samples for the inputs of a model that have no default.

    The first sample is normally distributed, the second holds small integers (exact arithmetic: any difference is
    an error), the third edge values; then the same again. Inputs of a quantizer lie on its grid, between, on the ties
    and beyond; inputs annotated with a data type or a range hold only values of these; integers that serve as indices
    stay in bounds, those that are only calculated with reach the ends of their type. Dynamic dimensions differ from
    sample to sample, one size for one name. What an input gets depends on its name and the seed, not on other inputs.

    Samples that follow hold what the model's own constants make critical: values for which what elementwise operators
    compute of an input comes to a bound, limit, threshold or tie, and their neighbours; then rows that are nearly
    constant. Dynamic dimensions are larger there.

    Unless asked for more or fewer ``samples`` there are three, and a fourth, in which dynamic dimensions differ from
    each other, for models that have several; if ``thorough``, small models get those that follow, too.

    ``dimensions`` fixes dynamic dimensions by name (``x[0]`` for an unnamed one).
    """
    sampling = Sampling(seed, samples, sizes=dimensions or {})
    sampling.require_known(model)
    return Sampler(model, sampling).draft(thorough=thorough).finish()


@dataclass(frozen=True)
class Sampling:
    """How samples are generated: from which seed, how many, whether special values count, and sizes of dimensions.

    Unless it is said how many, ``effort`` multiplies the seconds that runs of larger models may take on samples.
    """

    seed: int = 0
    count: int | None = None
    special: bool | None = None
    sizes: Sizes = field(default_factory=dict[str, int])
    effort: float = 1.0

    def require_known(self, model: ir.Model) -> None:
        """Raise UsageError unless each size is that of a dynamic dimension of the model."""
        if self.sizes:
            _check_sizes(self.sizes, dynamic_dimensions(model, _fed_inputs(model)))


@dataclass
class Draft:
    """Samples in which the search for critical values is still to be done, and the pace at which they may run.

    ``sampler`` draws others where a model does not take these; data that are given have none.
    """

    samples: list[Sample]
    sampler: Sampler | None = None
    pace: Pace = field(default_factory=Pace)
    extra: Sample | None = None
    """One with large dynamic dimensions, or with critical values that no other has, for models that run quickly."""
    to_do: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def finish(self) -> list[Sample]:
        """Run the deferred work, and return the samples."""
        for put in self.to_do:
            put()
        self.to_do.clear()
        return self.samples


_INFINITE = 3
"""NaN and the infinities."""


def draw_special(model: ir.Model, sampling: Sampling) -> list[tuple[Literal["finite", "infinite"], Sample]]:
    """Draw samples with special values of arithmetic; none for large models unless asked for.

    The first holds signed zeros, the largest and the smallest numbers, the others NaN and infinities, as these spread:
    as many samples as it takes for each input to have had each of them.
    """
    drawing = Sampler(model, sampling)
    wanted = drawing.is_small if sampling.special is None else sampling.special
    inputs = [value for value in drawing.inputs.values() if value.dtype in _SPECIAL_TYPES]
    if not wanted or not inputs:
        return []
    sizes = drawing.sizes(2)
    places = [special_places(size) for value in inputs if (size := math.prod(shape_of(value, sizes)))]
    rounds = math.ceil(_INFINITE / min(places, default=_INFINITE))
    infinite = [drawing.sample(number, kind="infinite") for number in range(2, 2 + rounds)]
    return [("finite", drawing.sample(1, kind="finite")), *(("infinite", sample) for sample in infinite)]


class Sampler:
    """The inputs of a model, the values they may hold, and the settings of the samples of a seed.

    Sizes of dimensions that the model does not have, as some may have been fixed since, are left out.
    """

    def __init__(self, model: ir.Model, sampling: Sampling, executor: Executor | None = None) -> None:
        self.model, self._sampling, self._executor = model, sampling, executor
        self.inputs = _fed_inputs(model)
        self.bounds = {name: bounds for name, value in self.inputs.items() if (bounds := _declared(value)) is not None}
        self.dynamic = dynamic_dimensions(model, self.inputs)
        """The dynamic dimensions, each with the least size that is likely to do."""
        self.axes = {name: _dynamic_axes(name, value) for name, value in self.inputs.items()}
        self.fixed = {name: size for name, size in sampling.sizes.items() if name in self.dynamic}
        self._to_do: list[Callable[[], None]] = []
        self._relations: dict[str, None] = {}

    def renewed(self) -> Sampler:
        """Return a sampler of the same model as it is now: passes may have named or fixed dimensions of its inputs."""
        return Sampler(self.model, self._sampling, self._executor)

    def draft(self, *, thorough: bool) -> Draft:
        """Draw as many samples as are asked for, or as a model of this size gets; the model may change afterwards."""
        seed, samples = self._sampling.seed, self._sampling.count
        if seed < 0 or (samples is not None and samples < 1):
            what = f"cannot generate {samples} samples from seed {seed}"
            raise UsageError(what, hint="give a positive number and seed")
        count = samples or self.usual + (self.more if thorough else 0)
        drawn = [self.sample(0, thorough=thorough)]
        if samples is None:
            count = min(count, max(1, self.room // max(1, sum(array.nbytes for array in drawn[0].values()))))
        drawn += [self.sample(number, thorough=thorough) for number in range(1, count)]
        extra = self.extra() if thorough and samples is None and count > 1 else None
        return Draft(drawn, self, extra=extra, to_do=self._to_do)

    @property
    def room(self) -> int:
        """Return the bytes that samples may take."""
        return (current_resources() if self._executor is None else self._executor.resources).memory // _SHARE

    @cached_property
    def usual(self) -> int:
        """Count the samples that every model gets."""
        return UNLIKE + 1 if len(self.dynamic.keys() - self.fixed.keys()) > 1 else UNLIKE

    @cached_property
    def is_small(self) -> bool:
        """Return whether the model runs in about a millisecond."""
        return is_small(self.model, self.inputs.values())

    @property
    def pace(self) -> Pace:
        """Return the pace at which samples may run, unlimited for small models and where a number is asked for."""
        if self._sampling.count is not None or self.is_small:
            return Pace()
        return Pace(seconds_for_samples(self.model, self._sampling.effort))

    @cached_property
    def critical(self) -> Critical:
        """Find the values that the model's own constants make critical."""
        free = [value for name, value in self.inputs.items() if name not in self.bounds]
        executor = Executor(None if self._executor is None else self._executor.profile)
        return Critical(self.model, free, executor, self._sampling.seed)

    @cached_property
    def rounds(self) -> int:
        """Count the samples that it takes to come to all critical values."""
        sizes = self.sizes(self.usual)
        return self.critical.rounds({name: shape_of(value, sizes) for name, value in self.inputs.items()})

    @property
    def more(self) -> int:
        """Count the samples that small models get beside the usual ones."""
        return self.rounds + 1 if self.inputs and self.is_small else 0

    def sizes(self, number: int) -> Sizes:
        """Choose the sizes of dynamic dimensions in a sample."""
        return sizes_of_sample(self.dynamic, number, self.fixed, usual=self.usual)

    def extra(self) -> Sample | None:
        """Draw one more sample if the model runs quickly then: with large dimensions, with all the critical values."""
        if self.is_small and not self.dynamic.keys() - self.fixed.keys():
            return None
        size = affordable_size(self.model, list(self.inputs.values()))
        sizes = sizes_of_sample(self.dynamic, 0, self.fixed, wide=size)
        return self.sample(_EXTRA, sizes, kind="extra", thorough=True) if size else None

    def sample(
        self, number: int, sizes: Sizes | None = None, *, kind: Kind | None = None, thorough: bool = False
    ) -> Sample:
        """Draw one sample; the usual ones come first, then those at critical values, then flat ones."""
        at = number - self.usual
        is_critical = kind is None and 0 <= at < self.rounds
        kind = kind or ("flat" if at >= 0 and at == self.rounds else _KINDS[number % 3])
        sizes, result = self.sizes(number) if sizes is None else sizes, Sample()
        for place, (name, value) in enumerate(self.inputs.items()):
            random, bounds = _random(self._sampling.seed, number, name), self.bounds.get(name)
            array = Draw(self.model, value, sizes, kind, number, bounds, random, place).array()
            if is_critical or (thorough and kind in ("edges", "extra") and not self.is_small):
                share = 0.25 if kind == "edges" and not is_critical else 1.0
                self._to_do.append(partial(self.critical.put_into, array, name, random, max(at, 0), share=share))
            result[name] = array
        return result

    def decisive(self) -> dict[int, Sample]:
        """Return the usual samples that take another way than the first, by number: the integers that decide this."""
        decides = [name for name, value in self.inputs.items() if decisive_values(self.model, value)]
        found: dict[int, Sample] = {}
        for number in range(1, self.usual, 2) if decides else ():
            sample = self.sample(number)
            single = {name: sample[name] for name in decides if sample[name].size == 1}
            if single not in found.values():
                found[number] = single
        return found

    @cached_property
    def places(self) -> dict[str, Place]:
        """Return where each dynamic dimension is first found."""
        return _places(self.inputs)

    @cached_property
    def order(self) -> dict[str, int]:
        """Return the places of the nodes that have names."""
        return {str(node.name): place for place, node in enumerate(all_nodes(self.model.graph)) if node.name}

    def note(self, relations: str) -> None:
        """Remember relations between dimensions that were found, for some of the samples."""
        self._relations |= {relations: None} if relations else {}

    @property
    def relations(self) -> str:
        """Return the relations that the sizes of samples satisfy, as text."""
        return " or ".join(self._relations)


def _fed_inputs(model: ir.Model) -> dict[str, ir.Value]:
    """Return the inputs without a default, by name. Raises UsageError if nothing can be generated for one."""
    inputs = {str(v.name): v for v in model.graph.inputs if str(v.name) not in model.graph.initializers}
    for name, value in inputs.items():
        _check_type(name, value)
    return inputs


def _dynamic_axes(name: str, value: ir.Value) -> list[int]:
    dims = cast("ir.Shape", value.shape)
    return [axis for axis, dim in enumerate(dims) if dimension_key(name, axis, dim) is not None]


def _random(seed: int, number: int, name: str) -> np.random.Generator:
    digest = np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4").tolist()
    return np.random.Generator(np.random.PCG64([seed, number, *digest]))


def _places(inputs: Mapping[str, ir.Value]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for name, value in inputs.items():
        dims = cast("ir.Shape", value.shape).dims
        keys = [dimension_key(name, axis, dim) for axis, dim in enumerate(dims)]
        sizes = tuple(int(str(dim)) if key is None else None for key, dim in zip(keys, dims, strict=True))
        for axis, key in enumerate(keys):
            if key is not None:
                found.setdefault(key, Place(str(value.dtype), sizes, axis))
    return found


def _check_type(name: str, value: ir.Value) -> None:
    hint = "give its data with --inputs"
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise UsageError(f"input '{name}' is no tensor but {value.type}, for which none is generated", hint=hint)
    if value.dtype is None or value.dtype is ir.DataType.UNDEFINED:
        raise UsageError(f"input '{name}' has no element type, so no data can be generated", hint=hint)
    if value.shape is None:
        raise UsageError(f"input '{name}' has no shape, so no data can be generated", hint=hint)


def _check_sizes(sizes: Sizes, known: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if name not in known:
            listed = ", ".join(f"'{k}'" for k in known) or "none"
            hint = did_you_mean(name, known) or f"known: {listed}"
            raise UsageError(f"the model has no dynamic dimension '{name}' to generate", hint=hint)
        if size < 0:
            raise UsageError(f"dynamic dimension '{name}' cannot have the size {size}")


def _declared(value: ir.Value) -> Bounds | None:
    """Return the range that an input is said to have; where it has a data type, too, that is drawn from."""
    bounds = None if annotated_grid(value) is not None else declared_bounds(value)
    return None if bounds is None else _check_range(value, *bounds)


def _check_range(value: ir.Value, low: float, high: float) -> Bounds:
    dtype = cast("ir.DataType", value.dtype)
    if not (dtype.is_integer() or dtype.is_floating_point()):
        raise UsageError(f"input '{value.name}' holds {dtype.name.lower()}, which has no range")
    if dtype.is_integer():
        smallest, largest = integer_limits(dtype)
        first, last = (math.ceil(low), math.floor(high)) if math.isfinite(low) and math.isfinite(high) else (1, 0)
    else:
        largest = float(float_info(dtype).max)
        smallest = -largest
        first, last = low, high
    if not smallest <= first <= last <= largest:
        raise UsageError(
            f"the range {low} to {high} for input '{value.name}' holds no {dtype.name.lower()}, or others too",
            hint=f"give two numbers between {smallest} and {largest}, the smaller first",
        )
    return first, last
