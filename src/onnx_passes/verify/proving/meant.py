"""What one side means at chosen points: real numbers, of which floats are a rounding, up to the level of a quantizer.

Constants stand for what ``analysis/exact/constants.py`` knows of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.ops.quantizing import Quantizing, quantizer_of
from onnx_passes.ops.rounding import round_numpy
from onnx_passes.verify.proving.meanings import stands_for
from onnx_passes.verify.proving.pointwise import Pointwise
from onnx_passes.verify.proving.sides import Side


class NoMeaningError(Exception):
    """What a side means is not known, for a reason."""


def levels_meant(found: Pointwise, side: Side, points: np.ndarray) -> np.ndarray:
    """Return what a side that ends with a quantizer makes of points ``[channels, n]``. Raises NoMeaningError."""
    known = {side.sources[0]: Reals.of(points.astype(np.float64))}
    for node in side.moving:
        known[node.outputs[0]] = _Visit(found, side, node, known).result()
    whole = known[side.results[0]].integers()
    if whole is None:
        raise NoMeaningError("the result is no integer")
    return whole


class _Visit:
    """A node, and what its inputs mean: arrays of a row for each channel."""

    def __init__(self, found: Pointwise, side: Side, node: ir.Node, known: Mapping[ir.Value, Reals]) -> None:
        self.found, self.side, self.node, self._known = found, side, node, known

    def result(self) -> Reals:
        quantizer = quantizer_of(self.node)
        if quantizer is not None:
            return _rounded(self.node, quantizer, self.input(0))
        rule = _RULES.get(self.node.op_type) if self.node.domain == "" else None
        if rule is None:
            raise NoMeaningError(f"{self.node.op_type} is not a line between bounds")
        return rule(self)

    def input(self, index: int) -> Reals:
        value = self.node.inputs[index]
        assert value is not None
        if value in self._known:
            return self._known[value]
        said = stands_for(value)
        if said is None:
            raise NoMeaningError(f"a parameter of {self.node.op_type} is computed")
        return self.by_channel(said.spread(self.found.rank))

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def by_channel(self, numbers: Reals) -> Reals:
        layout = self.found.layout
        return numbers.moved(lambda places: np.broadcast_to(places, layout).reshape(-1, 1))


def _chosen(a: Reals, b: Reals, *, greater: bool) -> Reals:
    """Return the greater, or the lesser, of two numbers."""
    first = (a - b).signs() >= 0 if greater else (a - b).signs() <= 0
    a, b = (each.moved(lambda places: np.broadcast_to(places, first.shape)) for each in (a, b))
    flat = first.reshape(-1)
    slack = np.where(first, np.broadcast_to(a.slack, first.shape), np.broadcast_to(b.slack, first.shape))
    return Reals(np.where(first, a.near, b.near), slack, lambda place: a[place] if flat[place] else b[place])


def _rounded(node: ir.Node, quantizer: Quantizing, x: Reals) -> Reals:
    """Return the levels of numbers: those that lie too near to an edge for doubles are looked at without rounding."""
    levels = quantizer.levels(node)
    if isinstance(levels, str) or quantizer.edge(node, levels.high) is None:
        raise NoMeaningError(f"{node.op_type} does not say where its levels begin")
    mode = node.attributes.get_string("rounding_mode", "ROUND")
    if levels.step == 1:
        found, least, most = (
            np.clip(round_numpy(mode, numbers), levels.low, levels.high) for numbers in (x.near, *_ends(x))
        )
        unsure = ~((least == found) & (found == most))
    else:
        found = np.where(x.near >= 0, float(levels.high), float(levels.low))
        unsure = np.abs(x.near) <= x.slack
    unsure = np.broadcast_to(unsure, found.shape)
    edge_of = functools.cache(functools.partial(quantizer.edge, node))
    for place in np.flatnonzero(unsure):
        number, level = x[int(place)], levels.low
        # The level is next to what doubles say.
        start = int(max(found.flat[place] - 2 * levels.step, levels.low))
        for each in range(start, levels.high + 1, levels.step):
            edge = edge_of(each) if each > levels.low else None
            if edge is not None and not edge.is_passed(number):
                break
            level = each
        found.flat[place] = level
    return Reals.of(found)


def _ends(x: Reals) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers that are no greater, and no less, than what is meant."""
    near, slack = np.broadcast_arrays(x.near, x.slack)
    below, above = np.nextafter(near - slack, -np.inf), np.nextafter(near + slack, np.inf)
    return np.where(slack == 0, near, below), np.where(slack == 0, near, above)


def _clip(visit: _Visit) -> Reals:
    found = visit.input(0)
    if visit.node.attributes:
        raise NoMeaningError("bounds of Clip are attributes")
    for index in (1, 2):
        if visit.has(index):
            found = _chosen(found, visit.input(index), greater=index == 1)
    return found


def _batch_normalization(visit: _Visit) -> Reals:
    shape = (1, -1, *(1,) * (visit.found.rank - 2))
    said = [stands_for(value) for value in visit.node.inputs[1:5]]
    gamma, beta, mean, variance = (None if each is None else each.reshape(*shape) for each in said)
    if gamma is None or beta is None or mean is None or variance is None:
        raise NoMeaningError("a parameter of BatchNormalization is computed")
    spread = variance + Reals.of(float(np.float32(visit.node.attributes.get_float("epsilon", 1e-5))))
    if not (spread.near > spread.slack).all():
        raise NoMeaningError("a variance of BatchNormalization is not positive")
    factor = visit.by_channel(gamma / spread.root())
    return (visit.input(0) - visit.by_channel(mean)) * factor + visit.by_channel(beta)


def _extreme(visit: _Visit, *, greater: bool) -> Reals:
    found = visit.input(0)
    for index in range(1, len(visit.node.inputs)):
        found = _chosen(found, visit.input(index), greater=greater)
    return found


def _div(visit: _Visit) -> Reals:
    by = visit.input(1)
    if not (by.near != 0).all():
        raise NoMeaningError("it divides by 0")
    return visit.input(0) / by


_RULES: Mapping[str, Callable[[_Visit], Reals]] = {
    "Add": lambda visit: visit.input(0) + visit.input(1),
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Div": _div,
    "Identity": lambda visit: visit.input(0),
    "Max": lambda visit: _extreme(visit, greater=True),
    "Min": lambda visit: _extreme(visit, greater=False),
    "Mul": lambda visit: visit.input(0) * visit.input(1),
    "Neg": lambda visit: -visit.input(0),
    "Relu": lambda visit: _chosen(visit.input(0), Reals.zeros(2), greater=True),
    "Sub": lambda visit: visit.input(0) - visit.input(1),
}
