"""Typed options of a pass: declared as fields, set from pipeline text, configuration or Python."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from onnx_passes.core.errors import OptionError, did_you_mean
from onnx_passes.core.naming import kebab

_BYTES = "bytes"
Size = Annotated[int, _BYTES]
"""A number of bytes, written as ``4096``, ``64KiB`` or ``1MB``."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_BARE_WORD = re.compile(r"""[^\s{}()\[\],="'#]+""")
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_NOT_AN_OPTION = "onnx_passes.not_an_option"
_NAME = "onnx_passes.name"
_NAMED_BY_USER = "onnx_passes.named_by_user"
ANY_NAME = "*"
"""Name in lists of an option whose name the user chooses."""


def option(default: Any, help: str = "", *, name: str = "") -> Any:  # noqa: A002 - reads as in click and argparse
    """Declare an option with a help text, and with its name in pipeline text if the field cannot have that name."""
    metadata = {"help": help, _NAME: name} if name else {"help": help}
    if isinstance(default, list | dict | set):
        mutable = cast(Any, default)
        return dataclasses.field(default_factory=lambda: type(mutable)(mutable), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def internal(
    default: Any = dataclasses.MISSING, *, default_factory: Any = dataclasses.MISSING, positional: bool = False
) -> Any:
    """Declare a field that can only be set from Python."""
    return dataclasses.field(  # pyright: ignore[reportCallIssue]
        default=default,
        default_factory=default_factory,
        metadata={_NOT_AN_OPTION: True},
        kw_only=not positional,
    )


def named_by_user(help: str) -> Any:  # noqa: A002 - as above
    """Declare a mapping that collects all options with other names."""
    return dataclasses.field(default_factory=dict[str, object], metadata={"help": help, _NAMED_BY_USER: True})


@dataclasses.dataclass(frozen=True)
class Option:
    """One option as ``explain`` shows it."""

    name: str
    type: str
    default: str
    help: str


def fields_of(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Map the text name of each option to its field."""
    if not dataclasses.is_dataclass(cls):
        return {}
    hidden = {_NOT_AN_OPTION, _NAMED_BY_USER}
    fields = (f for f in dataclasses.fields(cls) if f.init and not hidden & f.metadata.keys())
    return {f.metadata.get(_NAME) or kebab(f.name): f for f in fields}


def field_of_any_name(cls: type) -> dataclasses.Field[Any] | None:
    """Return the field that collects options with names of the user's choice, None if there is none."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return next((field for field in fields if _NAMED_BY_USER in field.metadata), None)


def describe(cls: type) -> tuple[Option, ...]:
    """List the options of a pass class."""
    hints, others = _hints(cls), field_of_any_name(cls)
    listed = (
        Option(name, type_name(hints[f.name]), format_value(_default(f)), f.metadata.get("help", ""))
        for name, f in fields_of(cls).items()
    )
    return (*listed, *(() if others is None else (Option(ANY_NAME, "any", "", others.metadata["help"]),)))


def parse_options(cls: type, given: Mapping[str, object], *, owner: str) -> dict[str, Any]:
    """Convert named values, text or Python objects, to keyword arguments of the pass class."""
    if not given:
        return {}
    fields, hints, others = fields_of(cls), _hints(cls), field_of_any_name(cls)
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        field = fields.get(kebab(name) if others is None else name.replace("_", "-"))
        if field is None and others is not None:
            arguments.setdefault(others.name, {})[name] = value
            continue
        if field is None:
            known = ", ".join(fields) if fields else "it has none"
            hint = did_you_mean(kebab(name), fields) or f"options of '{owner}': {known}"
            raise OptionError(f"pass '{owner}' has no option '{name}'", hint=hint)
        try:
            arguments[field.name] = convert(value, hints[field.name])
        except ValueError as error:
            raise OptionError(
                f"option '{name}' of pass '{owner}' does not take {value!r}", hint=f"it takes {error}"
            ) from None
    return arguments


def format_options(instance: object) -> str:
    """Format the options that differ from their defaults, and those for members; empty if there are none."""
    parts: list[str] = []
    for name, field in fields_of(type(instance)).items():
        value = getattr(instance, field.name)
        if value != _default(field):
            parts.append(f"{name}={format_value(value)}")
    others = field_of_any_name(type(instance))
    named: Mapping[str, object] = {} if others is None else getattr(instance, others.name)
    members: Mapping[str, object] = getattr(instance, "member_options", {})
    parts.extend(f"{quote(name)}={format_value(value)}" for name, value in {**named, **members}.items())
    return "{" + ", ".join(parts) + "}" if parts else ""


def convert(value: object, hint: Any) -> Any:
    """Convert a value to the declared type; a ``ValueError`` describes the accepted values."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        return _convert_size(value) if _BYTES in arguments[1:] else convert(value, arguments[0])
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments)
    if origin is Literal:
        return _one_of(value, {str(choice): choice for choice in arguments})
    if origin in (tuple, list, Sequence):
        return _convert_sequence(value, origin, arguments)
    if _is_enum(hint):
        return _one_of(getattr(value, "value", value), {str(m.value): m for m in hint})
    return _convert_scalar(value, hint)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def _convert_scalar(value: object, hint: Any) -> Any:
    text = str(value).strip()
    if hint is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError("true or false")
    if hint is int:
        if isinstance(value, bool) or re.fullmatch(r"[+-]?\d+(_\d+)*", text) is None:
            raise ValueError("a whole number")
        return int(text)
    if hint is float:
        try:
            return float(text)
        except ValueError:
            raise ValueError("a number") from None
    if hint is str:
        if isinstance(value, str):
            return value
        raise ValueError("text")
    return value


def _convert_size(value: object) -> int:
    parts = _SIZE.fullmatch(str(value).strip())
    unit = _UNITS.get(parts[2].upper()) if parts else None
    if parts is None or unit is None:
        raise ValueError("a size such as 4096, 64KiB or 1MB")
    return round(float(parts[1]) * unit) if "." in parts[1] else int(parts[1]) * unit


def _convert_union(value: object, alternatives: Sequence[Any]) -> Any:
    if type(None) in alternatives and (value is None or value == "none"):
        return None
    expected: list[str] = []
    for alternative in alternatives:
        if alternative is type(None):
            expected.append("none")
            continue
        try:
            return convert(value, alternative)
        except ValueError as error:
            expected.append(str(error))
    raise ValueError(" or ".join(expected))


def _convert_sequence(value: object, origin: Any, arguments: Sequence[Any]) -> Any:
    if isinstance(value, str) or not isinstance(value, Sequence):
        items: Sequence[object] = [value]
    else:
        items = cast(Sequence[object], value)
    if _is_fixed(origin, arguments):
        if len(items) != len(arguments):
            raise ValueError(f"a list of {len(arguments)}")
        return tuple(convert(item, element) for item, element in zip(items, arguments, strict=True))
    element = arguments[0] if arguments else str
    return (list if origin is list else tuple)(convert(item, element) for item in items)


def _is_fixed(origin: Any, arguments: Sequence[Any]) -> bool:
    """Return whether a tuple type has a type for each element, not one type for any number."""
    return origin is tuple and bool(arguments) and arguments[-1] is not ...


def _one_of(value: object, choices: Mapping[str, Any]) -> Any:
    if str(value) not in choices:
        raise ValueError("one of " + ", ".join(choices))
    return choices[str(value)]


def format_value(value: object) -> str:
    """Format an option value so that pipeline text parses it back."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return format_value(value.value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_value(item) for item in cast(Sequence[object], value)) + "]"
    if isinstance(value, int | float):
        return str(value)
    return quote(str(value))


def quote(text: str) -> str:
    """Quote text that would not parse back as a bare word."""
    if _BARE_WORD.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def type_name(hint: Any) -> str:
    """Return the name of a type for users of pipeline text."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return "size" if _BYTES in arguments[1:] else type_name(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(a) for a in arguments)
    if origin is Literal:
        return " | ".join(str(a) for a in arguments)
    if _is_fixed(origin, arguments):
        return "[" + ", ".join(type_name(a) for a in arguments) + "]"
    if origin in (tuple, list, Sequence):
        return f"list of {type_name(arguments[0]) if arguments else 'text'}"
    if _is_enum(hint):
        return " | ".join(str(m.value) for m in hint)
    return {bool: "true | false", int: "integer", float: "number", str: "text", type(None): "none"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def _hints(cls: type) -> dict[str, Any]:
    """Resolve the type of each option separately; a type that only exists for type checkers is treated as text."""
    wanted = {field.name for field in fields_of(cls).values()}
    hints: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        module = vars(sys.modules.get(owner.__module__, types.ModuleType("")))
        for name, hint in inspect.get_annotations(owner).items():
            if name in wanted:
                alone = types.SimpleNamespace(__annotations__={name: hint})
                try:
                    hints |= get_type_hints(alone, dict(vars(owner)), module, include_extras=True)
                except NameError:
                    hints[name] = str
    return hints


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default
