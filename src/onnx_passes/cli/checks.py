"""Checks of a run given by the command line and the configuration: results, metrics, structure, values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from onnx_passes.cli.options import parse_size
from onnx_passes.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.check.contracts import Requirements
    from onnx_passes.check.measuring import Measuring, Speed
    from onnx_passes.check.verification import Limits, Mode, Verification
    from onnx_passes.cli.choices import Choices
    from onnx_passes.core.config import Config
    from onnx_passes.core.instruments import Instrument
    from onnx_passes.core.plan import Plan
    from onnx_passes.debug.context_dump import ContextDump
    from onnx_passes.verify.metrics.metrics import MetricRange
    from onnx_passes.verify.run.execute import Executor
    from onnx_passes.workers.cluster import Cluster

T = TypeVar("T")

_DUMP = "onnx-passes-dump"


def checks_of(
    config: Config,
    asked: Choices,
    planned: Plan,
    model: ir.Model,
    config_file: str | None = None,
    source: str | None = None,
    cluster: Cluster | None = None,
) -> list[Instrument]:
    """Return all instruments that check the model; a later one sees the effect of a pass first.

    ``source`` is the file of the model; workers of a ``cluster`` share a dataset.
    """
    executor = executor_of(config)
    measuring = measuring_of(config, asked, planned, executor, config_file, cluster)
    labels = measuring is not None and _are_labels(model, asked.expect or config.reference.out)
    dump = dump_of(config, asked, executor)
    if measuring is None and dump is None and (asked.dataset or asked.batch):
        raise UsageError("--dataset and --batch need a metric", hint="name a metric with --metric")
    verification = verification_of(config, asked, executor=executor, labels=labels, source=source)
    if verification is None and measuring is None and asked.expect:
        raise UsageError("--expect needs verification, which is switched off", hint="leave out '--verify off'")
    found = (
        measuring,
        verification,
        requirements_of(config, asked, config_file),
        dump,
    )
    return [check for check in found if check is not None]


def verification_of(
    config: Config,
    asked: Choices,
    *,
    executor: Executor | None = None,
    labels: bool = False,
    source: str | None = None,
) -> Verification | None:
    """Return the verification of a run, None if it is off; labels of a dataset are not used as expected outputs."""
    if _is_off(config, asked):
        if asked.require:
            raise UsageError("--require needs verification, which is switched off", hint="leave out '--verify off'")
        return None
    from onnx_passes.check.verification import Verification
    from onnx_passes.graph.load import load
    from onnx_passes.verify.comparison.evidence import parse_level
    from onnx_passes.verify.run.activations import LIMIT

    inputs = asked.inputs or config.reference.inp
    if asked.sizes and inputs:
        raise UsageError("--size is for generated inputs, but inputs are given", hint="leave out one of them")
    return Verification(
        inputs=inputs,
        expect=() if labels or asked.dataset else asked.expect or config.reference.out,
        seed=asked.seed,
        samples=_chosen(asked.samples, config.verify and config.verify.samples),
        effort=asked.effort,
        special=_chosen(asked.special, config.verify and config.verify.special),
        sizes=dict(parse_size(text, "--size") for text in asked.sizes),
        limits=parse_tolerance(asked.tolerance, configured_limits(config)),
        mode=_mode(asked),
        executor=executor or executor_of(config),
        reproducer=Path(asked.repro),
        source=None if source in (None, "-") else lambda: load(source),
        memory=_size(asked.memory, "--memory") if asked.memory else LIMIT,
        require=parse_level(asked.require) if asked.require else None,
        prove=asked.prove,
    )


def measuring_of(
    config: Config,
    asked: Choices,
    planned: Plan,
    executor: Executor,
    config_file: str | None = None,
    cluster: Cluster | None = None,
) -> Measuring | None:
    """Return the metrics of a run, None if neither the user nor a pass asks for one."""
    configured = config.verify is not None and config.verify.metrics
    if not (asked.metrics or configured or planned.claims("metric")):
        return None
    from onnx_passes.check.measuring import Measuring, promised

    ranges = _ranges(config, asked, config_file)
    promises = {} if _is_off(config, asked) else promised(planned)
    if not (ranges or promises):
        return None
    dataset = asked.dataset or asked.inputs or config.reference.inp
    measuring = Measuring(
        ranges,
        dataset=dataset,
        expect=(asked.expect or config.reference.out) if dataset else (),
        batch=asked.batch or (config.verify.batch if config.verify is not None else None),
        seed=asked.seed,
        mode=_mode(asked),
        executor=executor,
        base=Path(config_file).parent if config_file is not None else None,
        cluster=cluster,
    )
    return measuring.also(planned) if promises else measuring


def speed_of(config: Config, asked: Choices) -> Speed:
    """Return the instrument that times the model, on the first of the given inputs."""
    from onnx_passes.check.measuring import Speed

    return Speed(inputs=asked.inputs or config.reference.inp, executor=executor_of(config))


def requirements_of(config: Config, asked: Choices, config_file: str | None = None) -> Requirements | None:
    """Return the structural properties of a run, None if none are required."""
    configured = config.verify.structure if config.verify is not None and not _is_off(config, asked) else ()
    if not (configured or asked.structure):
        return None
    from onnx_passes.check.contracts import Requirements
    from onnx_passes.verify.structure.vocabulary import parse_property

    try:
        properties = list(map(parse_property, configured))
    except UsageError as error:
        where = f"{config_file or 'configuration'}: verify.structure"
        raise ConfigError(
            f"{error.where}: {error.what}" if error.where else error.what, where=where, hint=error.hint
        ) from error
    return Requirements([*properties, *asked.structure], mode=_mode(asked))


def dump_of(config: Config, asked: Choices, executor: Executor) -> ContextDump | None:
    """Return the dump of all values, None without ``--dump``."""
    configured = config.onnxruntime.full_context_dump
    folder = asked.dump or (_DUMP if configured is True else configured)
    if not folder:
        return None
    from onnx_passes.debug.context_dump import LIMIT, ContextDump

    return ContextDump(
        Path(folder),
        inputs=asked.inputs or asked.dataset or config.reference.inp,
        seed=asked.seed,
        executor=executor,
        limit=_size(asked.dump_limit, "--dump-limit")
        if asked.dump_limit
        else config.onnxruntime.context_dump_limit or LIMIT,
    )


def _is_off(config: Config, asked: Choices) -> bool:
    return asked.verify == "off" or (asked.verify is None and config.verify is None)


def _mode(asked: Choices) -> Mode:
    return "final" if asked.verify == "final" else "every" if asked.paranoid else "each"


def _chosen(asked: T | None, configured: T | None) -> T | None:
    """Return the value of the command line if it has one, else that of the configuration."""
    return configured if asked is None else asked


def executor_of(config: Config) -> Executor:
    """Return an executor with the options of a configuration."""
    from onnx_passes.verify.run.execute import Executor, Profile

    runtime = config.onnxruntime
    profile = Profile(runtime.providers or Profile.providers, runtime.provider_options, dict(runtime.session_options))
    return Executor(profile)


def _ranges(config: Config, asked: Choices, config_file: str | None) -> dict[str, MetricRange | None]:
    """Collect the accepted ranges; the command line overrides the configuration."""
    from onnx_passes.verify.metrics.metrics import metric_name, parse_condition, parse_ranges

    ranges: dict[str, MetricRange | None] = {}
    if config.verify is not None and not _is_off(config, asked):
        where = f"{config_file or 'configuration'}: verify.metrics"
        configured = parse_ranges(config.verify.metrics, where=where)
        ranges |= {metric_name(name): limits for name, limits in configured.items()}
    for text in asked.metrics:
        name, limits = parse_condition(text)
        name = metric_name(name)
        ranges[name] = ranges.get(name) if limits is None else limits
    return ranges


def _are_labels(model: ir.Model, expect: tuple[str, ...]) -> bool:
    """Return whether the expected arrays are class labels instead of outputs of the model."""
    from onnx_passes.verify.samples.reference import read_outputs

    try:
        read_outputs(model, expect)
    except UsageError:
        return True
    return False


def _size(text: str, option: str) -> int:
    from onnx_passes.core.options import Size, convert

    try:
        return convert(text, Size)
    except ValueError as error:
        raise UsageError(f"{option} does not take '{text}'", hint=f"it takes {error}") from None


def configured_limits(config: Config) -> Limits:
    """Return the tolerance that a configuration gives, or the default one."""
    from onnx_passes.verify.comparison.evidence import Limits

    given = config.verify.tolerance if config.verify is not None else None
    return Limits.asked(given.atol if given is not None else None, given.rtol if given is not None else None)


def parse_tolerance(text: str | None, default: Limits) -> Limits:
    """Parse ``ATOL`` or ``ATOL,RTOL``; a missing number keeps its default."""
    from onnx_passes.check.verification import Limits

    if text is None:
        return default
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(0 <= number < math.inf for number in numbers):
        raise UsageError(f"--tolerance does not take '{text}'", hint="it takes ATOL or ATOL,RTOL, as in 1e-5,1e-4")
    return Limits(numbers[0], numbers[1] if len(numbers) == 2 else default.rtol)
