"""Configuration and command line together: what to run, and with which options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_passes.core.config import Config, load_config
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.naming import kebab
from onnx_passes.core.pipeline import format_pipeline, parse_pipeline
from onnx_passes.core.registry import REGISTRY


@dataclass(frozen=True)
class Settings:
    """What a command needs to know of a run."""

    pipeline: str
    options: Mapping[str, Mapping[str, Any]]
    config: Config


def settings(config_file: str | None, passes: Sequence[str]) -> Settings:
    """Read the configuration, import what it names, and let passes on the command line come first."""
    config = load_config(config_file) if config_file is not None else Config()
    if config_file is not None:
        import_user_modules(config.imports, base=Path(config_file).parent)
    pipeline = " ".join(passes) or ", ".join(config.passes)
    if pipeline and config.exhaustive:
        pipeline = f"fixpoint({format_pipeline(parse_pipeline(pipeline))})"
    return Settings(pipeline, _by_name(config), config)


def _by_name(config: Config) -> dict[str, Mapping[str, Any]]:
    """Refuse options for a pass that does not exist; the sections of their own belong to passes that do."""
    for name in config.options:
        REGISTRY.find(name)
    return {kebab(name): options for name, options in config.pass_options().items()}
