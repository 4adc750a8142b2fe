"""Execution engines as data: their types, and the size of integers that they compute without rounding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import onnx_ir as ir

from onnx_passes.core.errors import OptionError, did_you_mean
from onnx_passes.core.walk import all_nodes
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.rewrite.leftovers import Leftovers

HELP = "the engine to export for: onnxruntime, openvino, or a YAML file that describes another one"


@dataclass(frozen=True)
class Target:
    """The capabilities of an engine; by default all of the standard."""

    name: str
    exact: int = (1 << 31) - 2
    """Integers up to this size are multiplied, added and compared without rounding."""
    regroups: bool = False
    """Whether sums and products of floats may be regrouped before rounding."""
    saturates: bool = True
    """Whether products of uint8 with int8 are added in pairs that saturate at 16 bits."""
    quantizers: tuple[str, ...] = ("UINT4", "INT4", "UINT8", "INT8", "UINT16", "INT16")
    """The types to which QuantizeLinear really rounds."""
    domains: tuple[str, ...] = ()
    """Domains of known operators, in addition to the standard ones."""

    def takes(self, dtype: ir.DataType) -> bool:
        """Return whether floats can be quantized to a type."""
        return dtype.name in self.quantizers


TARGETS = {
    target.name: target
    for target in (
        Target("onnxruntime", domains=("ai.onnx.ml", "com.microsoft")),
        # OpenVINO computes products, sums and comparisons of integers in single precision on CPUs, and removes 16-bit
        # quantizers.
        Target("openvino", EXACT_IN_FLOAT, regroups=True, quantizers=("UINT4", "INT4", "UINT8", "INT8")),
    )
}


def target_of(text: str) -> Target:
    """Return a target by name, or read it from a file."""
    if text in TARGETS:
        return TARGETS[text]
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        near = did_you_mean(text, TARGETS)
        raise OptionError(f"there is no target '{text}'", hint=near or f"take one of {', '.join(TARGETS)}, or a file")
    return _read(path)


def _read(path: Path) -> Target:
    import yaml

    try:
        given: object = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"the target cannot be read: {error}", where=str(path)) from None
    fields = {field.name: field for field in dataclasses.fields(Target) if field.name != "name"}
    if not isinstance(given, Mapping):
        raise OptionError("a target is a mapping", where=str(path), hint=f"its keys are {', '.join(fields)}")
    values: dict[str, object] = {}
    for key, value in cast(Mapping[object, object], given).items():
        field = fields.get(str(key))
        if field is None:
            hint = did_you_mean(str(key), fields) or f"its keys are {', '.join(fields)}"
            raise OptionError(f"a target has no '{key}'", where=str(path), hint=hint)
        values[field.name] = _converted(field, value, path)
    return Target(path.stem, **values)  # pyright: ignore[reportArgumentType] - just converted


def _converted(field: dataclasses.Field[object], value: object, path: Path) -> object:
    default = field.default
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(each, str) for each in cast(list[object], value)):
            names = cast(list[str], value)
            return _known_types(names, path) if field.name == "quantizers" else tuple(names)
        raise OptionError(f"'{field.name}' of a target is a list of names", where=str(path))
    if type(value) is not type(default):
        kind = "true or false" if isinstance(default, bool) else "a whole number"
        raise OptionError(f"'{field.name}' of a target is {kind}", where=str(path))
    return value


def _known_types(names: list[str], path: Path) -> tuple[str, ...]:
    known = [dtype.name for dtype in ir.DataType if dtype.is_integer()]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise OptionError(f"there is no type '{name}'", where=str(path), hint=hint)
    return tuple(names)


def strangers(model: ir.Model, target: Target) -> Leftovers:
    """Count the operators that a target does not know, and that no function of the model defines."""
    found, known = Leftovers(), ("", "ai.onnx", *target.domains)
    for container in (model.graph, *model.functions.values()):
        for node in all_nodes(container):
            if node.domain not in known and node.op_identifier() not in model.functions:
                hint = "replace it, or define it (onnx_passes.operators) so that inline-qonnx can lower it"
                found.add(f"{node.domain}.{node.op_type}", f"{target.name} does not know it: {hint}")
    return found
