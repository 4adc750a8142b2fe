"""Everything that affects the results of a run besides its models: pipeline, options, files of the user, versions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_passes.cli.choices import Choices
from onnx_passes.core.pipeline import format_pipeline, parse_pipeline

if TYPE_CHECKING:
    from onnx_passes.cli.settings import RunSettings
    from onnx_passes.core.plan import Plan
    from onnx_passes.zoo.manifest import Deciding

_OPTIONS = (
    *("external", "limit", "paranoid", "verify", "tolerance", "seed", "samples", "effort", "special", "sizes"),
    *("inputs", "expect"),
    *("metrics", "dataset", "batch", "structure", "require", "memory"),
)
_OURS = "onnx_passes"


def deciding_of(chosen: RunSettings, planned: Plan, choices: Choices, imports: Iterable[str]) -> Deciding:
    """Return the inputs of a run that affect its results: the pipeline, changed options, file digests and versions.

    Datasets are identified by their stamps: they may be too large to read.
    """
    from onnx_passes.verify.run.resources import Resources, current_resources
    from onnx_passes.verify.samples.sources import stamps_of
    from onnx_passes.workers.origin import versions
    from onnx_passes.zoo.contents import file_digest
    from onnx_passes.zoo.manifest import Deciding

    usual, limits = Choices(), current_resources()
    options: dict[str, Any] = {
        name: _plain(getattr(choices, name)) for name in _OPTIONS if getattr(choices, name) != getattr(usual, name)
    }
    options |= {name: value for name, value in vars(limits).items() if value != getattr(Resources(), name)}
    reference = chosen.config.reference
    stamps = stamps_of([*choices.inputs, *choices.expect, *choices.dataset, *reference.inp, *reference.out])
    read_at_once = {name for name in stamps if name not in choices.dataset and Path(name).is_file()}
    given = [chosen.config_file, *read_at_once]
    files = {*(Path(name) for name in given if name), *_modules(planned, (*imports, *chosen.config.imports))}
    if data := {name: stamp.content or stamp.here for name, stamp in stamps.items() if name not in read_at_once}:
        options["data"] = data
    if digests := {str(path): file_digest(path) for path in sorted(files) if path.is_file()}:
        options["files"] = digests
    return Deciding(format_pipeline(parse_pipeline(chosen.pipeline)), options, dict(versions()))


def _plain(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value


def _modules(planned: Plan, imports: Iterable[str]) -> Iterator[Path]:
    """Yield the files of user modules: imported modules, and modules that define passes of the plan."""
    passes = {type(step.pass_).__module__ for _, step in planned.walk()}
    for name in {*imports, *(module for module in passes if module.partition(".")[0] != _OURS)}:
        file = name if name.endswith(".py") else getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield Path(file)
