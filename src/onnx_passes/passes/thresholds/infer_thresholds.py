"""Find the thresholds of quantizers, and of all that is computed elementwise before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.names import Names
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.thresholds.levels import Levels, levels_of
from onnx_passes.passes.thresholds.search import Domain, Floats, Function, Integers, bisect, enumerate_steps
from onnx_passes.passes.thresholds.signs import flip_channels, may_flip
from onnx_passes.passes.thresholds.tail import Evaluator, Tail, find_tail, is_quantizer
from onnx_passes.passes.thresholds.writing import Counting, Steps, write
from onnx_passes.verify.execute import Executor

_EXACT_IN_FLOAT = 2**24
_MOST_POINTS = 2**24
"""So many evaluations are made, at most, of a function that is not monotone."""


@passes.verify.equality
@passes.register("streamline-thresholds", tags=("thresholds", "quantized"))
class InferThresholds(Transformation):
    """Turn quantizers, with everything elementwise before them, into counting of thresholds.

    Rewrites: ``Quant(Relu(q * s + b), 1, 0, bits)`` → ``MultiThreshold(q, T)``. The thresholds are searched on the
              computation itself, which ONNX Runtime runs: over the integers that q can be, or over all floats where q
              is no integer, so that both agree on every input, ties and rounding included. Channels that fall are
              turned around in the weights before them, or written as steps downwards. What gives every integer back as
              it is goes.
    Refuses:  more than ``max-bits``, quantizers whose scale is not 1 (run extract-quant-scale-zeropoint first),
              parameters that vary along two axes or that are computed, integers that floats cannot hold, functions of
              floats that go up and down.
    Exactness: equal on every finite input, but for the sign of zeros.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "nsz")

    max_bits: int = option(8, "widest quantizer to convert; n bits make 2**n - 1 thresholds")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert quantizers in the order of the graph: each makes integers known to the next."""
        quantizers = [node for node in model.graph if is_quantizer(node)]
        if not quantizers:
            return PassResult(model, modified=False)
        conversion = _Conversion(model, dict(ranges_of(model)), Executor(), self.max_bits)
        count = 0
        for node in quantizers:
            reason = conversion.convert(node)
            if reason:
                context.note(f"{name_of(node)} stays: {reason}")
            count += not reason
        return PassResult(model, modified=count > 0)


@dataclass
class _Conversion:
    model: ir.Model
    ranges: dict[ir.Value, Range]
    executor: Executor
    max_bits: int

    def __post_init__(self) -> None:
        self.names = Names.of(self.model.graph)

    def convert(self, node: ir.Node) -> str:
        """Replace a quantizer; returns why not, or nothing."""
        levels = levels_of(node)
        if isinstance(levels, str):
            return levels
        if levels.steps >= 2**self.max_bits:
            return f"its {levels.steps + 1} levels are more than {self.max_bits} bits"
        tail = find_tail(node, self._is_integer)
        if isinstance(tail, str):
            return tail
        domain = self._domain(tail)
        if isinstance(domain, str):
            return domain
        found = self._search(tail, domain, levels)
        if isinstance(found, str):
            return found
        if _is_identity(found, domain):
            replace_value(node.outputs[0], tail.base, self.names)
            remove_if_dead([node])
        else:
            self._replace(node, write(self.model, self.names, tail, found, levels))
        return ""

    def _is_integer(self, value: ir.Value) -> bool:
        known = self.ranges.get(value)
        return known is not None and known.integer_grid is not None

    def _domain(self, tail: Tail) -> Domain | str:
        known = self.ranges.get(tail.base)
        grid = None if known is None else known.integer_grid
        if grid is None:
            return Floats.all(tail.channels)
        low, high = _by_channel(grid.low, tail, np.min), _by_channel(grid.high, tail, np.max)
        if max(int(np.abs(low).max()), int(np.abs(high).max())) >= _EXACT_IN_FLOAT:
            return f"the integers of '{tail.base.name}' are beyond what floats hold"
        return Integers(low, high)

    def _search(self, tail: Tail, domain: Domain, levels: Levels) -> Counting | Steps | str:
        evaluate = Evaluator(tail, dict(self.model.opset_imports), self.executor)

        def function(points: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                return np.rint(evaluate(points)).astype(np.int64)

        if not tail.is_monotone:
            points = int((domain.high - domain.low).max() + 1) * domain.low.size
            if points <= _MOST_POINTS:
                return _enumerate(domain, function, levels)
            if not tail.is_nearly_monotone:
                return f"it goes up and down, and has too many inputs ({points}) to look at each"
        ends = function(domain.points(np.stack([domain.low, domain.high], axis=1)))
        falling = ends[:, 0] > ends[:, 1]
        wanted = np.arange(levels.low + levels.step, levels.high + 1, levels.step)
        if not falling.any():
            return Counting(domain.points(bisect(function, domain, wanted)), levels.low)
        sign = np.where(falling, -1, 1)
        mirrored = domain.mirrored(falling)
        numbers = bisect(lambda points: function(points * sign[:, None].astype(np.float32)), mirrored, wanted)
        if may_flip(tail):
            flip_channels(self.model, self.names, tail, falling)
            return Counting(mirrored.points(numbers), levels.low)
        # Where it falls, -x >= t says x <= -t: a step down at the next point.
        at = np.where(falling[:, None], 1 - numbers, numbers)
        start = np.where(falling, levels.high, levels.low)
        jump = np.where(falling, -levels.step, levels.step)[:, None] * np.ones_like(numbers)
        return Steps(start, domain.points(at), jump)

    def _replace(self, node: ir.Node, new: ir.Node) -> None:
        assert node.graph is not None
        node.graph.insert_before(node, new)
        self.ranges[new.outputs[0]] = self.ranges.get(node.outputs[0], UNKNOWN)
        replace_value(node.outputs[0], new.outputs[0], self.names)
        remove_if_dead([node])


def _is_identity(found: Counting | Steps, domain: Domain) -> bool:
    """Tell whether counting gives back every integer as it is."""
    if isinstance(found, Steps) or not isinstance(domain, Integers):
        return False
    low, high = domain.low[:, None], domain.high[:, None]
    if int((high - low).max()) > found.thresholds.shape[1]:
        return False
    points = np.minimum(low + np.arange(int((high - low).max()) + 1), high)
    reached = (points[:, :, None] >= found.thresholds[:, None, :]).sum(axis=2)
    return bool((reached + found.low == points).all())


def _enumerate(domain: Domain, function: Function, levels: Levels) -> Counting | Steps:
    steps = enumerate_steps(function, domain)
    start, at, jump = steps.start, steps.at, steps.jump
    if (jump >= 0).all() and not (jump % levels.step).any():
        return Counting(_spread(start, at, jump, domain, levels), levels.low)
    return Steps(start, domain.points(at), jump)


def _by_channel(array: np.ndarray, tail: Tail, join: Callable[..., np.ndarray]) -> np.ndarray:
    """Return one bound for each channel of a tail from bounds of any layout."""
    others = tuple(axis for axis in range(array.ndim) if axis not in tail.axes)
    joined = join(array, axis=others, keepdims=True) if array.ndim else array
    return np.broadcast_to(joined, tail.layout).reshape(-1).astype(np.int64)


def _spread(start: np.ndarray, at: np.ndarray, jump: np.ndarray, domain: Domain, levels: Levels) -> np.ndarray:
    """Write steps upwards of any height as thresholds one level apart, from the lowest level to the highest."""
    rows: list[np.ndarray] = []
    for channel in range(len(start)):
        before = [domain.low[channel]] * int((start[channel] - levels.low) // levels.step)
        heights = (jump[channel] // levels.step).astype(int)
        row = [*before, *np.repeat(at[channel], heights)]
        rows.append(np.array(row + [domain.high[channel] + 1] * (levels.steps - len(row))))
    return domain.points(np.stack(rows))
