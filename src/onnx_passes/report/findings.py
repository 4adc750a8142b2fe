"""Findings about the models of a report: statistics of their values, and the nodes that prevent streamlining."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.bit_cost import ModelBitCost
from onnx_passes.analysis.channels import channel_axis
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.analysis.streamlined import Accumulator, Streamlined, streamlined
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plain import Json
from onnx_passes.datatypes import parse
from onnx_passes.graph.constants import constant, is_constant_node
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.range import Range
from onnx_passes.ops.quantizer import is_quantizer
from onnx_passes.passes.analyse.bit_cost import bit_cost
from onnx_passes.passes.analyse.inspection import with_shapes
from onnx_passes.passes.streamline.aggregate_scales import reasons_of
from onnx_passes.passes.thresholds.nodes import is_thresholds

_CHANNELS, _ROWS = 256, 64
"""Channels of a range, and of thresholds, that are kept."""
_LARGE = 3000
"""For models with more nodes, only the data of the run are reported."""


@dataclass
class Findings:
    """Facts by value name, after the run and before it; blockers; layers with their bits; integer shares."""

    final: dict[str, Json] = field(default_factory=dict[str, Json])
    original: dict[str, Json] = field(default_factory=dict[str, Json])
    blockers: list[Json] = field(default_factory=list[Json])
    bits: list[Json] = field(default_factory=list[Json])
    shares: tuple[float | None, float | None] = (None, None)


def find_out(final: ir.Model | None, original: ir.Model | None = None) -> Findings:
    """Analyze the final model of a run and, if available, the original one."""
    found = Findings()
    before, after = _Look.at(original), _Look.at(final)
    if before is not None:
        found.original = before.facts()
    if after is not None:
        found.final = after.facts()
        found.blockers = after.blockers()
        found.bits = after.bits()
    found.shares = _share(before), _share(after)
    return found


@dataclass
class _Look:
    """A model with inferred shapes, and the facts about its values."""

    model: ir.Model
    known: Mapping[ir.Value, Range]
    found: Streamlined | None

    @staticmethod
    def at(model: ir.Model | None) -> _Look | None:
        if model is None or len(model.graph) > _LARGE:
            return None
        try:
            shaped = model if _has_shapes(model.graph) else with_shapes(model, {})[0]
            known = ranges_of(shaped)
            is_quantized = any(is_quantizer(node) or is_thresholds(node) for node in shaped.graph)
            return _Look(shaped, known, streamlined(shaped, reasons_of) if is_quantized else None)
        except OnnxPassesError:
            # A model that cannot be analysed, as one that a run was to mend, still has a report.
            return None

    def facts(self) -> dict[str, Json]:
        """Return ranges of inputs and results, bits of sums, and thresholds, by name of a value."""
        accumulators = self._accumulators()
        facts = {
            value.name: _range(known, channel_axis(value))
            for value in _values(self.model.graph)
            if value.name and (known := self.known.get(value)) is not None and not known.is_unknown
        }
        for node in self.model.graph:
            name = node.outputs[0].name if node.outputs else None
            if name and name_of(node) in accumulators:
                facts.setdefault(name, {})["accumulator"] = accumulators[name_of(node)].bits
            if name and is_thresholds(node) and (held := constant(node.inputs[1])) is not None:
                facts.setdefault(name, {})["thresholds"] = _thresholds(node, held)
        return facts

    def blockers(self) -> list[Json]:
        """Return the nodes that are computed in floats between quantized layers, and why they are."""
        named = {name_of(node): node for node in self.model.graph}
        return [
            {
                "node": next((value.name for value in node.outputs if value.name), "") if node is not None else "",
                "op": "" if node is None else node.op_type,
                "pass": "streamline",
                "reason": f"{blocker.reason}; {blocker.remedy}",
            }
            for blocker in (() if self.found is None else self.found.blockers)
            for node in (named.get(blocker.node),)
        ]

    def bits(self) -> list[Json]:
        """Return bits of weights, inputs and sums of every product."""
        if self.found is None:
            return []
        accumulators = self._accumulators()
        try:
            cost = bit_cost(self.model)
        except OnnxPassesError:
            cost = ModelBitCost(())
        layers = {layer.name: (layer.weight, layer.input) for layer in cost.layers}
        names = {node.name or name_of(node): accumulators.get(name_of(node)) for node in self.model.graph}
        return [
            {
                "layer": name,
                "weights": parse(weight).bitwidth,
                "inputs": parse(given).bitwidth,
                **({} if (sums := names.get(name)) is None else {"accumulator": sums.bits}),
            }
            for name, (weight, given) in layers.items()
        ]

    def _accumulators(self) -> dict[str, Accumulator]:
        return {} if self.found is None else {each.node: each for each in self.found.accumulators}


def _share(look: _Look | None) -> float | None:
    if look is None or look.found is None:
        return None
    return look.found.fraction


def _has_shapes(graph: ir.Graph) -> bool:
    return all(value.shape is not None and value.dtype is not None for node in graph for value in node.outputs)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in graph:
        if not is_constant_node(node):
            yield from node.outputs


def _range(known: Range, axis: int | None) -> Json:
    """Return the bounds for each channel, or one pair if they are equal."""
    rank = known.low.ndim
    known = known.joined([each for each in range(rank) if each != axis])
    low, high = known.low.reshape(-1), known.high.reshape(-1)
    channels = max(low.size, high.size)
    data: Json = {"low": _numbers(low), "high": _numbers(high)}
    if channels > 1:
        data["channels"] = channels
    grid = known.grid
    if grid is not None:
        data |= {"integer": True} if grid.is_integer else {"scale": _scale(grid.scale.reshape(-1))}
    return data


def _numbers(array: np.ndarray[Any, Any]) -> list[float]:
    return [float(f"{number:.7g}") for number in array[:_CHANNELS].tolist()]


def _scale(scale: np.ndarray[Any, Any]) -> str:
    least, most = scale.min(), scale.max()
    return f"{least:.6g}" if least == most else f"{least:.6g} … {most:.6g}"


def _thresholds(node: ir.Node, held: np.ndarray[Any, Any]) -> Json:
    rows = held.reshape(-1, held.shape[-1])
    return {
        "channels": rows.shape[0],
        "steps": rows.shape[1],
        "rows": [_numbers(row) for row in rows[:_ROWS]],
        "out": {
            "scale": node.attributes.get_float("out_scale", 1.0),
            "bias": node.attributes.get_float("out_bias", 0.0),
        },
    }
