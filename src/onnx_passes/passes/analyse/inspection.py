"""A report about a model, collected without changing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import onnx_ir as ir

from onnx_passes.analysis.bit_cost import ModelBitCost
from onnx_passes.analysis.channels import TensorRange, range_report
from onnx_passes.analysis.cost import ModelCost, cost_of
from onnx_passes.analysis.ranges import Known, ranges_of
from onnx_passes.analysis.statistics import (
    GraphStatistics,
    Summary,
    TensorsOfType,
    bind,
    dynamic_inputs,
    require_known,
    statistics_of,
    summarize,
    weights_of,
)
from onnx_passes.analysis.streamlined import Streamlined, streamlined
from onnx_passes.analysis.support import QuantizerKind, Support, quantizers_of, support_of
from onnx_passes.check.measuring import shapes_text, timed_sample
from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ModelError, OnnxPassesError, PassFailedError, UsageError
from onnx_passes.core.plain import plain
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load
from onnx_passes.ops.facts.work import WORK
from onnx_passes.passes.analyse.bit_cost import bit_cost
from onnx_passes.passes.analyse.tensor_statistics import TensorStatistics, tensor_statistics
from onnx_passes.passes.streamline.aggregate_scales import reasons_of
from onnx_passes.verify.run.child import can_fork
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Profile, Sample
from onnx_passes.verify.run.timing import SECONDS, TimedModel, time_in_turns
from onnx_passes.verify.samples.generate import generate
from onnx_passes.verify.samples.reference import Source as Samples
from onnx_passes.verify.samples.reference import read_inputs


@dataclass(frozen=True)
class TrialRun:
    """Result of running a model in a default session of ONNX Runtime.

    ``runs`` is true only if the default session runs the model. ``seconds`` is the time of one run on generated inputs,
    on one thread, with the optimizations named by ``level``: ``default``, or ``none`` if only that runs. ``why`` is the
    error that prevents the default session.
    """

    runs: bool
    seconds: float | None = None
    why: str = ""
    level: str = ""


@dataclass(frozen=True)
class Timed:
    """Time per inference in ONNX Runtime, with default optimizations on one thread, or the reason why it fails.

    ``operators`` maps the operators of the optimized model to their share of the time.
    """

    least: float | None = None
    median: float | None = None
    runs: int = 0
    sample: str = ""
    operators: Mapping[str, float] = field(default_factory=dict[str, float])
    why: str = ""


@dataclass(frozen=True, repr=False)
class Inspection(Displayed):
    """Findings about a model; ``dimensions`` are the sizes used for its dynamic dimensions."""

    summary: Summary
    dynamic: Mapping[str, list[str]]
    dimensions: Mapping[str, int]
    weights: Mapping[str, TensorsOfType]
    quantizers: Counter[QuantizerKind]
    support: tuple[Support, ...]
    statistics: GraphStatistics
    cost: ModelCost
    streamlined: Streamlined | None = None
    bits: ModelBitCost | None = None
    ranges: tuple[TensorRange, ...] | None = None
    tensors: tuple[TensorStatistics, ...] | None = None
    notes: tuple[str, ...] = ()
    trial: TrialRun | None = None
    timed: Timed | None = None

    def __repr__(self) -> str:
        size = self.summary.size
        return f"<Inspection of {self.summary.name}: {size.nodes} nodes, {size.parameters} parameters>"

    def to_json(self, *, layers: bool = True) -> dict[str, Any]:
        """Return plain data.

        ``name, ir_version, producer, opsets, inputs, outputs, nodes, operators, parameters, bytes, subgraphs,
        functions, dynamic_dimensions, values_without_shape, datatypes, repairs``: the original model;
        ``parameters`` and ``bytes`` are those of initializers.
        ``dynamic_inputs``: inputs by dynamic dimension. ``dimensions``: the sizes used for them.
        ``weights``: ``tensors, elements, bytes, in_nodes`` by element type, the last those in Constant nodes.
        ``quantizers``: kinds with ``operator, bits, signed, of, per, nodes``.
        ``operator_support``: ``operator, nodes, defined_by, kernel`` for every operator that ONNX does not define or
        ONNX Runtime has no kernel for. ``statistics``: see ``GraphStatistics``. ``cost``: see ``ModelCost.to_json``.
        ``streamlined``: progress of a quantized network towards integers, with a row for each integer layer, or null.
        ``bits``: bit operations and memory of a quantized network, see ``ModelBitCost.to_json``, or null.
        ``ranges``: ``name, low, high, scale, channels, stuck, values, unread`` of tensors, or null if not requested.
        ``tensors``: ``TensorStatistics`` over the data, or null without data.
        ``notes``: parts of the model that the numbers leave out. ``run``: ``runs, seconds, why, level``, or null if not
        requested, see ``TrialRun``.
        ``time``: ``least, median, runs, sample, operators, why``, see ``Timed``, or null if not requested.
        """
        return {
            **self.summary.to_json(),
            "dynamic_inputs": plain(self.dynamic),
            "dimensions": plain(self.dimensions),
            "weights": plain(self.weights),
            "quantizers": [plain(kind) | {"nodes": count} for kind, count in self.quantizers.most_common()],
            "operator_support": [plain(found) for found in self.support if not found.is_plain],
            "statistics": plain(self.statistics),
            "cost": self.cost.to_json(layers=layers),
            "streamlined": plain(self.streamlined),
            "bits": None if self.bits is None else self.bits.to_json(layers=layers),
            "ranges": plain(self.ranges),
            "tensors": plain(self.tensors),
            "notes": plain(self.notes),
            "run": plain(self.trial),
            "time": plain(self.timed),
        }


def inspect(
    source: Source,
    *,
    dimensions: Mapping[str, int] | None = None,
    run: bool = False,
    time: bool = False,
    ranges: bool | Mapping[str, Known] = False,
    data: Sequence[Samples] = (),
) -> Inspection:
    """Inspect a model, with ``dimensions`` for its dynamic dimensions; ``run`` tries to execute it.

    ``time`` measures ONNX Runtime on ``data``, or on generated inputs, by operator. ``ranges`` requests the range of
    every tensor, and its channels that never change; a mapping gives ranges of the inputs, as for
    ``onnx_passes.ranges``. ``data``, given as inputs for ``apply``, requests statistics of every tensor over it.
    """
    model, sizes = load(source), dict(dimensions or {})
    inferred, notes = with_shapes(model, sizes)
    given = ranges if isinstance(ranges, Mapping) else None
    known = ranges_of(inferred, given) if data or ranges is not False else {}
    quantizers = quantizers_of(inferred)
    return Inspection(
        summary=summarize(model),
        dynamic=dynamic_inputs(model.graph),
        dimensions=sizes,
        weights=weights_of(model),
        quantizers=quantizers,
        support=tuple(support_of(model)),
        statistics=statistics_of(model),
        cost=cost_of(inferred),
        streamlined=streamlined(inferred, reasons_of) if quantizers else None,
        bits=bit_cost(inferred) if quantizers else None,
        ranges=None if ranges is False else range_report(inferred.graph, known),
        tensors=tensor_statistics(inferred, data, known) if data else None,
        notes=tuple(notes),
        trial=try_to_run(model, sizes) if run else None,
        timed=time_model(model, sizes, data) if time else None,
    )


def with_shapes(model: ir.Model, sizes: Mapping[str, int]) -> tuple[ir.Model, list[str]]:
    """Return a copy with inferred shapes and inlined functions, and remarks on remaining unknown shapes."""
    copy, notes = copy_model(model), list[str]()
    for identifier in [identifier for identifier in copy.functions if identifier[:2] in WORK.table()]:
        del copy.functions[identifier]
    context = Context()
    try:
        collect("inline-functions")[0].run(copy, context)
    except PassFailedError as error:
        notes.append(f"functions count nothing: {error.what}")
    bind(copy, sizes)
    collect("shape-inference")[0].run(copy, context)
    require_known_anywhere(model, copy, sizes)
    bind(copy, sizes)
    return copy, [*notes, *context.record.notes]


def require_known_anywhere(model: ir.Model, inferred: ir.Model, sizes: Mapping[str, int]) -> None:
    """Refuse sizes for dimensions that occur neither in the model nor in the inferred shapes."""
    for name, size in sizes.items():
        try:
            require_known(inferred, {name: size})
        except UsageError:
            require_known(model, {name: size})


def try_to_run(model: ir.Model, dimensions: Mapping[str, int] | None = None) -> TrialRun:
    """Run the model once on generated inputs in a default session, else without optimizations.

    A default session runs in a process of its own: its optimizations are known to crash on some models.
    """
    by_default = Executor(Profile(optimized=True, round_halves=False))
    try:
        sample = generate(model, samples=1, dimensions=dimensions)[0]
        seconds = _seconds(by_default.ready(by_default.packed(model), apart=can_fork()), sample)
        return TrialRun(True, seconds, level="default")
    except (ExecutionError, ModelError, UsageError) as error:
        why = _reason(error)
    try:
        sample = generate(model, samples=1, dimensions=dimensions)[0]
        return TrialRun(False, _seconds(Executor().prepare(model, engine="onnxruntime"), sample), why, level="none")
    except (ExecutionError, ModelError, UsageError) as error:
        return TrialRun(False, why=_reason(error))


def _seconds(ready: Executable, sample: Sample) -> float:
    started = perf_counter()
    ready.run(sample)
    return perf_counter() - started


def time_model(
    model: ir.Model, dimensions: Mapping[str, int] | None = None, data: Sequence[Samples] = (), seconds: float = SECONDS
) -> Timed:
    """Time a model in a default session of ONNX Runtime, on the first of the data or on generated inputs."""
    try:
        sample = read_inputs(model, data)[0] if data else timed_sample(model, dimensions=dimensions)
        ready = TimedModel(model, sample)
        [found] = time_in_turns([ready], seconds)
        return Timed(found.least, found.median, found.runs, shapes_text(sample), ready.operators())
    except (ExecutionError, ModelError, UsageError) as error:
        return Timed(why=_reason(error))


def _reason(error: OnnxPassesError) -> str:
    return f"{error.where}: {error.what}" if error.where else error.what
