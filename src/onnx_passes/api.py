"""The Python interface: apply a pipeline to a model, and get the model and the record of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx
import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.core.collector import paused_collector
from onnx_passes.core.compose import PassLike
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ModelError, UsageError, did_you_mean
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, plan
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.interface_names import InterfaceNames
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.save import External, SaveReport, Target, save, to_proto

if TYPE_CHECKING:
    from onnx_passes.check.measuring import Measuring
    from onnx_passes.check.verification import Verification
    from onnx_passes.history.recording import Recording
    from onnx_passes.verify.metrics.metrics import MetricRange
    from onnx_passes.verify.run.execute import Executable
    from onnx_passes.verify.samples.reference import Array
    from onnx_passes.verify.samples.reference import Source as Samples
    from onnx_passes.verify.structure.properties import Property


@dataclass
class Result(Displayed):
    """Model after a run, and the record of every step."""

    model: ir.Model = field(repr=False)
    record: RunRecord
    recording: Recording | None = field(default=None, repr=False)
    original: Callable[[], ir.Model] | None = field(default=None, repr=False)
    source: Callable[[], ir.Model] | None = field(default=None, repr=False)

    @property
    def proto(self) -> onnx.ModelProto:
        """Return the model as a ModelProto with all weights."""
        return to_proto(self.model)

    def save(self, target: Target, *, external: External = None) -> SaveReport:
        """Write the model completely or not at all, as ``onnx_passes.save`` does, if ONNX Runtime loads it.

        Raises NotLoadableError if ONNX Runtime loads the original, but not this model.
        """
        from onnx_passes.verify.run.loadable import as_writable

        if not self.modified:
            return save(self.model, target, external=external)
        written = as_writable(self.model, self.source)
        saved = save(written.model, target, external=external)
        return replace(saved, notes=(*written.notes, *saved.notes))

    def report(self, target: str | Path, *, title: str = "") -> Path:
        """Write the report of a recorded run, as a page or with the suffix .json as data, and return its path."""
        from onnx_passes.report.html import write_report
        from onnx_passes.report.run import run_data

        if self.recording is None:
            raise UsageError("this run was not recorded", hint="write 'apply(…, report=True)'")
        return write_report(run_data(self.recording, self.model, title=title, original=self.original), target)

    @property
    def modified(self) -> bool:
        """Return whether any step changed the model."""
        return self.record.modified

    @property
    def steps(self) -> list[StepRecord]:
        """List the steps in the order in which they ran."""
        return self.record.steps

    def __getitem__(self, name: str) -> Any:
        """Return the finding of an analysis by name; of several runs, the last."""
        for step in reversed(self.record.steps):
            if step.name == name:
                return step.result
        raise KeyError(name)


@paused_collector()
def apply(
    model: Source,
    pipeline: PassLike | Iterable[PassLike],
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
    skip: Sequence[str] = (),
    keep: Sequence[str] = (),
    inputs: Sequence[Any] = (),
    verify: bool | Verification = True,
    metrics: Mapping[str, MetricRange | None] | Measuring | None = None,
    structure: Sequence[Property | str | Mapping[str, object]] = (),
    instruments: Sequence[Instrument] = (),
    paranoid: bool = False,
    in_place: bool = False,
    report: bool = False,
) -> Result:
    """Apply passes to a model.

    ``model`` is a path, an ``ir.Model``, an ``onnx.ModelProto``, the bytes of a file, or a ``torch.onnx.ONNXProgram``.
    None of them is changed, except an ``ir.Model`` with ``in_place``.

    ``pipeline`` is pipeline text, a pass (name, class or object), or several of them. ``options`` sets options by pass
    name. ``skip`` skips passes, groups or rules, as ``"fuse-bias"`` or ``"eliminate-slice/SliceOfSlice"``, at any
    depth; no pass rewrites the nodes of ``keep``, as ``"conv1*"``, by name, result or operator. ``paranoid`` checks
    that every pass keeps the contract of its kind, and the whole model after each.

    Every pass is verified on ``inputs`` (a file, an array, a mapping from names to arrays, or several of these) or,
    without any, on generated ones; ``verify`` switches that off, or has further options.

    ``metrics`` maps metrics to their accepted range ``(min, max)``, measured on the same inputs against the original
    model; with all options: ``Measuring({"accuracy": (0.95, None)}, dataset=[images], expect=[labels])``. ``structure``
    lists properties that hold after every pass: ``["acyclic", "at-most(Conv, 3)"]``.

    ``report`` records every rewrite, for ``result.report("out.html")``.
    """
    loaded = load(model)
    is_held = isinstance(model, ir.Model) or getattr(model, "model", None) is loaded
    if is_held and not in_place:
        loaded = copy_model(loaded)
    planned = plan(_without(pipeline, skip, keep), defaults=options)
    original = None if in_place else _again(model, is_held)
    watchers = [
        *instruments,
        *([_paranoid()] if paranoid else []),
        *([_measuring(metrics, inputs, planned, verify=bool(verify))] if metrics or planned.claims("metric") else []),
        *([_verification(verify, inputs, original, paranoid=paranoid)] if verify else []),
        *([_requirements(structure)] if structure else []),
    ]
    result = run_plan(planned, loaded, watchers, _recording() if report else None)
    result.source, result.original = original, original if report else None
    return result


def _paranoid() -> Instrument:
    from onnx_passes.check.contracts import Paranoid

    return Paranoid()


def _measuring(
    metrics: Mapping[str, MetricRange | None] | Measuring | None, inputs: Sequence[Any], planned: Plan, *, verify: bool
) -> Instrument:
    from onnx_passes.check.measuring import Measuring

    measuring = metrics if isinstance(metrics, Measuring) else Measuring(metrics, dataset=inputs)
    return measuring.also(planned) if verify else measuring


def _verification(
    verify: bool | Verification, inputs: Sequence[Any], original: Callable[[], ir.Model] | None, *, paranoid: bool
) -> Instrument:
    from onnx_passes.check.verification import Verification

    mode = "every" if paranoid else "each"
    verification = Verification(inputs=inputs, mode=mode) if isinstance(verify, bool) else verify
    verification.source = original
    return verification


def _requirements(structure: Sequence[Property | str | Mapping[str, object]]) -> Instrument:
    from onnx_passes.check.contracts import Requirements

    return Requirements(structure)


def _recording() -> Recording:
    from onnx_passes.history.recording import Recording

    return Recording()


def simplify(model: Source, **how: Any) -> Result:
    """Simplify a float model: ``apply(model, "simplify", …)``, with the same arguments."""
    return apply(model, "simplify", **how)


def _without(
    pipeline: PassLike | Iterable[PassLike], skip: Sequence[str], keep: Sequence[str]
) -> PassLike | Iterable[PassLike]:
    """Add ``skip`` and ``keep`` around a pipeline."""
    if not (skip or keep):
        return pipeline
    from onnx_passes.passes.control.keep_nodes import KeepNodes
    from onnx_passes.passes.control.skip import Skip

    several = isinstance(pipeline, Iterable) and not isinstance(pipeline, str | type)
    items = list(cast("Iterable[PassLike]", pipeline)) if several else [cast("PassLike", pipeline)]
    if skip:
        items = [Skip(names=tuple(skip), body=tuple(items))]
    return [KeepNodes(nodes=tuple(keep)), *items, KeepNodes()] if keep else items


def run_plan(
    planned: Plan, model: ir.Model, instruments: Sequence[Instrument], recording: Recording | None = None
) -> Result:
    """Run a plan on a model, which it changes, with instruments: a later one sees the effect of a pass first.

    A recording comes before all others, so that it sees rewrites that they veto.
    """
    watchers = [*instruments, *(() if recording is None else (recording,)), InterfaceNames()]
    outcome = Manager(watchers).run(planned, model)
    return Result(outcome.model, outcome.record, recording)


def run_model(
    model: Source, inputs: Mapping[str, Array] | Sequence[Samples] = (), *, seed: int = 0, values: Sequence[str] = ()
) -> dict[str, Array]:
    """Run a model, given as for ``apply``, and return its outputs and the named inner ``values``.

    ``inputs`` are arrays by name, or sources as for ``apply``; without any, one sample is generated from the seed.
    Operators of quantized networks run too. Several samples add one leading dimension to every output.
    """
    from onnx_passes.verify.run.execute import ExecutionError
    from onnx_passes.verify.samples.generate import generate
    from onnx_passes.verify.samples.reference import read_inputs
    from onnx_passes.verify.samples.sources import listed

    loaded = load(model)
    sources = listed(inputs)
    samples = read_inputs(loaded, sources) if sources else generate(loaded, seed=seed, samples=1)
    try:
        ready = _prepared(loaded, {name for sample in samples for name in sample}, values)
        results = [ready.run(sample) for sample in samples]
    except ExecutionError as error:
        raise ModelError(error.what, where=error.where, hint=error.hint) from error
    if len(results) == 1:
        return results[0]
    return {name: _stacked(name, [result[name] for result in results]) for name in results[0]}


def _prepared(model: ir.Model, feeds: set[str], values: Sequence[str]) -> Executable:
    """Make a model executable; types and shapes for custom operators and inner values are inferred on a copy."""
    from onnx_passes.verify.run.execute import Executor, Profile

    executor = Executor(Profile(round_halves=False))
    try:
        return executor.prepare(model, feeds=feeds, also=_named(model, values))
    except ModelError:
        inferred = copy_model(model)
        collect("shape-inference")[0].run(inferred, Context())
        return executor.prepare(inferred, feeds=feeds, also=_named(inferred, values))


def _named(model: ir.Model, names: Sequence[str]) -> list[ir.Value]:
    """Find computed values of the graph by name."""
    known = {value.name: value for node in model.graph for value in node.outputs if value.name}
    for name in names:
        if name not in known:
            raise UsageError(
                f"no node of the graph computes a value named '{name}'", hint=did_you_mean(name, known) or None
            )
    return [known[name] for name in names]


def _stacked(name: str, arrays: Sequence[Array]) -> Array:
    if len({array.shape for array in arrays}) > 1:
        raise UsageError(f"output '{name}' has another shape for every sample", hint="run the samples one by one")
    return np.stack(arrays)


def _again(model: Source, is_held: bool) -> Callable[[], ir.Model] | None:
    """Return a function that loads the original model again, if it can be read more than once."""
    if model == "-" or hasattr(model, "read"):
        return None
    return (lambda: copy_model(load(model))) if is_held else (lambda: load(model))
