"""The public surface: public names with their signatures, and the options of the command line.

``make surface`` writes it to ``tests/surface.txt``, which a test compares with the package, and the names and options
of passes to ``tests/pass_names.txt``, to which names may be added but not removed.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import onnx_passes
from onnx_passes import operators, passes, testing
from onnx_passes.cli.main import COMMANDS, cli
from onnx_passes.core.registry import REGISTRY
from onnx_passes.passes import verify

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Name:
    """Public name; ``members`` are the public ones of a class that are defined here."""

    name: str
    thing: Any
    signature: str = ""
    members: tuple[Name, ...] = ()

    @property
    def doc(self) -> str:
        """Return the docstring; a class without one does not inherit it."""
        own = self.thing.__dict__.get("__doc__") if inspect.isclass(self.thing) else getattr(self.thing, "__doc__", "")
        return inspect.cleandoc(own or "") if isinstance(own, str) else ""

    def lines(self, prefix: str = "") -> Iterator[str]:
        """Yield a line for the name and for each member."""
        yield f"{prefix}{self.name}{self.signature}"
        for member in self.members:
            yield from member.lines(f"{prefix}{self.name}.")


def modules() -> dict[str, ModuleType]:
    """Return the modules whose names are public."""
    return {module.__name__: module for module in (onnx_passes, operators, passes, verify, testing)}


def names_of(module: ModuleType) -> list[Name]:
    """List the public names of a module, without modules."""
    exported = getattr(module, "__all__", None) or [name for name in vars(module) if _is_own(module, name)]
    things = ((name, getattr(module, name)) for name in sorted(exported))
    return [_describe(name, thing) for name, thing in things if not inspect.ismodule(thing)]


def surface() -> str:
    """Return the whole surface as text, a line for each name."""
    parts: list[str] = []
    for name, module in modules().items():
        parts.append(f"# {name}")
        parts += [line for each in names_of(module) for line in each.lines()]
        parts.append("")
    return "\n".join([*parts, "# onnx-passes", *_command_line(), ""])


def pass_names() -> str:
    """Return all names of pipeline text, and the options of passes, a line for each."""
    lines: list[str] = []
    for name in REGISTRY.names():
        found = REGISTRY.find(name)
        own = found.entries[0].options if not found.is_group and not found.preset else ()
        options = ", ".join(sorted(option.name for option in own))
        lines.append(f"{name}{{{options}}}" if options else name)
    return "\n".join([*lines, ""])


def _is_own(module: ModuleType, name: str) -> bool:
    return not name.startswith("_") and getattr(getattr(module, name), "__module__", "") == module.__name__


def _describe(name: str, thing: Any) -> Name:
    if inspect.isclass(thing):
        return Name(name, thing, _of_class(thing), tuple(_members(thing)))
    if callable(thing):
        return Name(name, thing, _signature(thing))
    return Name(name, thing)


def _of_class(cls: type) -> str:
    if issubclass(cls, enum.Enum):
        return f"[{', '.join(member.name for member in cls)}]"
    return _signature(cls)


def _members(cls: type) -> Iterator[Name]:
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set[str]()
    ours = [base for base in reversed(cls.__mro__) if base.__module__.startswith("onnx_passes")]
    found = {name: thing for base in ours for name, thing in vars(base).items()}
    for name, thing in sorted(found.items()):
        if name.startswith("_") or name in fields:
            continue
        if isinstance(thing, staticmethod | classmethod) or inspect.isfunction(thing):
            yield Name(name, getattr(cls, name), _signature(getattr(cls, name)))
        elif isinstance(thing, property) or hasattr(thing, "__get__") or hasattr(thing, "func"):
            yield Name(name, thing)


class _Text:
    """Annotation as text, which is written without quotes."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def __repr__(self) -> str:
        return self._annotation if isinstance(self._annotation, str) else inspect.formatannotation(self._annotation)


def _signature(thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    empty = inspect.Signature.empty
    parameters = [
        each if each.annotation is empty else each.replace(annotation=_Text(each.annotation))
        for each in found.parameters.values()
    ]
    returned = found.return_annotation
    returned = empty if returned is empty else _Text(returned)
    return _ADDRESS.sub("", str(found.replace(parameters=parameters, return_annotation=returned)))


def _command_line() -> Iterator[str]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        given = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
        options = [_option(each) for each in command.params if isinstance(each, click.Option)]
        yield " ".join([name, *given])
        yield from (f"{name} {option}" for option in sorted(options))


def _option(option: click.Option) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag or option.count else f"{names} {option.type.name.upper()}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "surface.txt").write_text(surface(), encoding="utf-8")
    (folder / "pass_names.txt").write_text(pass_names(), encoding="utf-8")
