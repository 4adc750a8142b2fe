"""Configuration and command line together: passes to run, and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from onnx_passes.cli.interface import with_interface
from onnx_passes.cli.limits import limit_as_configured
from onnx_passes.core.config import Config, parse_config, read_config
from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.naming import kebab
from onnx_passes.core.pipeline import format_pipeline, parse_pipeline
from onnx_passes.legacy.config import modern

if TYPE_CHECKING:
    from onnx_passes.core.plan import Plan


@dataclass(frozen=True)
class RunSettings:
    """Pipeline and configuration of a run."""

    pipeline: str
    options: Mapping[str, Mapping[str, Any]]
    config: Config
    config_file: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The configuration as plain data, for passes of version 0.4."""

    def plan(self) -> Plan:
        """Plan the pipeline; each of ``options:`` must apply to a pass, unlike sections by pass name."""
        from onnx_passes.core.defaults import WHERE
        from onnx_passes.core.plan import plan
        from onnx_passes.legacy.configured import hand_over

        sections = self.options.keys() - {kebab(name) for name in self.config.options}
        try:
            planned = plan(self.pipeline, defaults=self.options, optional=sections)
        except UsageError as error:
            if error.where == WHERE and self.config_file is not None:
                error.where = f"{self.config_file}: {WHERE}"
            raise
        hand_over(planned, dict(self.given), {})
        return planned


def settings(
    config_file: str | None, passes: Sequence[str], *, quiet: bool = False, needs_passes: bool = False
) -> RunSettings:
    """Read the configuration and import its modules; passes on the command line override its pipeline."""
    config, given = _configuration(config_file, quiet) if config_file is not None else (Config(), dict[str, Any]())
    limit_as_configured(config)
    if config_file is not None:
        import_user_modules(config.imports, base=Path(config_file).parent)
    pipeline = " ".join(passes) or ", ".join(config.passes)
    if needs_passes and not pipeline:
        raise click.UsageError("Missing argument 'PASS…'.")
    if pipeline and config.exhaustive:
        pipeline = f"fixpoint({format_pipeline(parse_pipeline(pipeline))})"
    parsed = parse_pipeline(pipeline)
    if (whole := with_interface(parsed, config)) != parsed:
        pipeline = format_pipeline(whole)
    options = {kebab(name): options for name, options in config.pass_options().items()}
    return RunSettings(pipeline, options, config, config_file, given)


def _configuration(path: str, quiet: bool) -> tuple[Config, Mapping[str, Any]]:
    """Read a file, and return it parsed and as plain data; forms of version 0.4 are noted."""
    given = read_config(path)
    data, notes = modern(given)
    config = parse_config(data, where=path)
    for note in () if quiet else notes:
        click.echo(f"legacy: {path}: {note}", err=True)
    return config, cast("Mapping[str, Any]", given)
