"""The configuration file: typed sections; an unknown key is an error that suggests the nearest one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_origin, get_type_hints

from onnx_passes.core.errors import ConfigError, did_you_mean
from onnx_passes.core.options import Size, convert


def _mapping() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class ReferenceFiles:
    """Files with inputs, and with the outputs expected for them."""

    inp: tuple[str, ...] = ()
    out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tolerance:
    """Largest difference of results from those of the original model."""

    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True)
class VerifySettings:
    """Options of verification; ``verify: false`` or ``verify: {}`` switches it off.

    ``metrics`` has the accepted range ``[min, max]`` of each metric, ``batch`` the rows of the reference data per run,
    ``structure`` the properties that hold after every pass. ``samples`` is the number of generated inputs, ``special``
    adds NaN, infinities, the largest and smallest numbers.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    metrics: Mapping[str, Any] = field(default_factory=_mapping)
    batch: int | None = None
    structure: tuple[Any, ...] = ()
    samples: int | None = None
    special: bool | None = None


@dataclass(frozen=True)
class OnnxRuntime:
    """Options of execution; ``keep_intermediates`` stores all inner values (``true``, or a folder).

    ``time_limit`` has the seconds, ``memory_limit`` the bytes that one run of a model may take.
    """

    providers: tuple[str, ...] = ()
    provider_options: Any = None
    session_options: Mapping[str, Any] = field(default_factory=_mapping)
    full_context_dump: bool | str | None = None
    context_dump_limit: Size | None = None
    time_limit: float | None = None
    memory_limit: Size | None = None


@dataclass(frozen=True)
class Layouts:
    """Layouts of inputs and outputs, each entry with the layout it assumes and the permutation to apply.

    With ``keep_interface`` converters are inserted at inputs and outputs, which themselves are unchanged.
    """

    inp: tuple[Any, ...] = ()
    out: tuple[Any, ...] = ()
    keep_interface: bool = False


@dataclass(frozen=True)
class ExtractSettings:
    """Part of a model to extract: its inputs and outputs."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Logging:
    """Messages and files of a run."""

    verbose: bool = False
    checkpoint: str | None = None
    keep_intermediates: str | None = None


@dataclass(frozen=True)
class Config:
    """All keys of a configuration file.

    ``shapes`` has sizes by dimension or input, ``inputs`` the options of set-input by input; ``make_initializers``,
    ``make_inputs``, ``extract``, ``add_outputs``, ``drop_outputs``, ``rename`` and ``rename_dimensions`` further
    changes of the interface, in this order; ``skip`` the passes and rules to skip, ``keep`` the nodes that no pass
    rewrites.
    """

    imports: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    exhaustive: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=_mapping)
    shapes: Mapping[str, Any] = field(default_factory=_mapping)
    inputs: Mapping[str, Any] = field(default_factory=_mapping)
    make_initializers: Mapping[str, Any] = field(default_factory=_mapping)
    make_inputs: tuple[str, ...] = ()
    extract: ExtractSettings = field(default_factory=ExtractSettings)
    add_outputs: tuple[str, ...] = ()
    drop_outputs: tuple[str, ...] = ()
    rename: Mapping[str, Any] = field(default_factory=_mapping)
    rename_dimensions: Mapping[str, Any] = field(default_factory=_mapping)
    skip: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    reference: ReferenceFiles = field(default_factory=ReferenceFiles)
    verify: VerifySettings | None = field(default_factory=VerifySettings)
    onnxruntime: OnnxRuntime = field(default_factory=OnnxRuntime)
    model_checker: Mapping[str, Any] = field(default_factory=_mapping)
    shape_inference: Mapping[str, Any] = field(default_factory=_mapping)
    fold_constants: Mapping[str, Any] = field(default_factory=_mapping)
    deduplicate_initializers: Mapping[str, Any] = field(default_factory=_mapping)
    infer_thresholds: Mapping[str, Any] = field(default_factory=_mapping)
    layouts: Layouts = field(default_factory=Layouts)
    logging: Logging = field(default_factory=Logging)

    def pass_options(self) -> dict[str, Mapping[str, Any]]:
        """Return the options that the file sets, by pass name."""
        sections = {
            "checker": self.model_checker,
            "shape-inference": self.shape_inference,
            "fold-constants": self.fold_constants,
            "deduplicate-initializers": self.deduplicate_initializers,
            "infer-thresholds": self.infer_thresholds,
            "convert-layouts": {key: value for key, value in vars(self.layouts).items() if value},
        }
        return {**{name: section for name, section in sections.items() if section}, **self.options}


def load_config(path: str | Path) -> Config:
    """Read a YAML file; an error names file and key."""
    return parse_config(read_config(path), where=str(path))


def read_config(path: str | Path) -> object:
    """Read a YAML file as plain data."""
    import yaml

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror or error}", where=str(path), hint="check the path given to --config"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not a text file", where=str(path), hint="a configuration is written in YAML") from error
    try:
        data: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        what = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigError(f"is not valid YAML: {what}", where=place, hint="check indentation and quotes") from error
    return {} if data is None else data


def parse_config(data: object, *, where: str = "configuration") -> Config:
    """Convert plain data, as YAML gives it, to a configuration."""
    return _read(Config, data, where, ())


def _read(cls: Any, data: object, where: str, path: tuple[str, ...]) -> Any:
    place = f"{where}: {'.'.join(path)}" if path else where
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"expected keys and values, found {_found(data)}", where=place, hint=f"known keys: {', '.join(_keys(cls))}"
        )
    hints, values = get_type_hints(cls, include_extras=True), {}
    for key, value in cast(Mapping[object, object], data).items():
        name = str(key)
        if name not in _keys(cls):
            raise ConfigError(
                f"there is no key '{name}'",
                where=place,
                hint=did_you_mean(name, _keys(cls)) or f"known keys: {', '.join(_keys(cls))}",
            )
        values[name] = _value(hints[name], value, where, (*path, name))
    return cls(**values)


def _value(hint: Any, value: object, where: str, path: tuple[str, ...]) -> Any:
    if hint == (VerifySettings | None):
        return (
            None
            if value is False or value == {}
            else VerifySettings()
            if value in (True, None)
            else _read(VerifySettings, value, where, path)
        )
    if dataclasses.is_dataclass(hint):
        return hint() if value is None and isinstance(hint, type) else _read(hint, value, where, path)
    place = f"{where}: {'.'.join(path)}"
    if getattr(hint, "__origin__", None) is Mapping:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected keys and values, found {_found(value)}", where=place)
        return dict(cast(Mapping[str, Any], value))
    try:
        return convert(() if value is None and get_origin(hint) is tuple else value, hint)
    except ValueError as error:
        raise ConfigError(f"does not take {value!r}", where=place, hint=f"it takes {error}") from None


def _keys(cls: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]


def _found(value: object) -> str:
    return "a list" if isinstance(value, list) else "nothing" if value is None else repr(value)
