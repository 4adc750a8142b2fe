"""The history of a session as pipeline text for the command line, and requests of users as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from onnx_passes.core.base import Pass
from onnx_passes.core.compose import ComposePass, Group, PassLike
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import OptionError, UsageError, did_you_mean
from onnx_passes.core.naming import kebab
from onnx_passes.core.options import fields_of
from onnx_passes.core.pipeline import PipelineItem, parse_pipeline
from onnx_passes.core.registry import REGISTRY
from onnx_passes.rewrite.rule import Rule
from onnx_passes.session.states import SessionState

Passes: TypeAlias = "PassLike | Rule | Iterable[PassLike | Rule]"
"""Pipeline text, a pass (name, class or object), a rule, or several of them."""


class PipelineText(str, Displayed):
    """Pipeline text; passes that the command line does not know by themselves are marked in comments."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Keep IPython from quoting it as any other string."""
        printer.text(str(self))


def pipeline_of(states: Iterable[SessionState]) -> PipelineText:
    """Return the text of the steps to a state; each pass is on a separate line if one needs a comment."""
    passes = [pass_ for state in states for pass_ in state.passes]
    marks = [_mark(pass_) for pass_ in passes]
    if not any(marks):
        return PipelineText(", ".join(map(str, passes)))
    commas = [","] * (len(passes) - 1) + [""]
    rows = zip(passes, commas, marks, strict=True)
    return PipelineText("\n".join(f"{pass_}{comma}{f'  # {mark}' if mark else ''}" for pass_, comma, mark in rows))


def with_options(what: Passes, options: Mapping[str, object]) -> Any:
    """Add options to the single named pass."""
    if not options:
        return what
    if isinstance(what, str):
        items = parse_pipeline(what)
        if len(items) != 1:
            raise UsageError("options are given to one pass", hint=f"write them behind its name: {_example(options)}")
        return str(replace(items[0], options=(*items[0].options, *options.items())))
    if isinstance(what, type):
        found = REGISTRY.found_of(what)
        if found is not None:
            return str(PipelineItem(found.name, tuple(options.items())))
        known: Iterable[str] = fields_of(what) if issubclass(what, Pass) else ()
        for name in options:
            if kebab(name) not in map(kebab, known):
                raise OptionError(f"pass '{what.__name__}' has no option '{name}'", hint=did_you_mean(name, known))
        return what(**options)
    raise UsageError(f"{what} has its options already", hint="give them where you make it, or give its name")


def _example(options: Mapping[str, object]) -> str:
    return str(PipelineItem("name", tuple(options.items())))


def _mark(pass_: Pass) -> str:
    """Return the requirements for the command line to know a pass, and all inside it, by name."""
    strangers = [text for inside in _inside(pass_) if (text := _stranger(inside))]
    return "; ".join(dict.fromkeys(strangers))


def _inside(pass_: Pass) -> Iterator[Pass]:
    yield pass_
    for member in pass_.body if isinstance(pass_, ComposePass) else ():
        if isinstance(member, Pass):
            yield from _inside(member)


def _stranger(pass_: Pass) -> str:
    if isinstance(pass_, Group):
        return ""
    module = type(pass_).__module__
    if REGISTRY.found_of(type(pass_)) is None:
        return f"'{pass_.name}' is not registered: register it in a file, and name that with --import"
    if module.startswith("onnx_passes."):
        return ""
    if module == "__main__":
        return f"'{pass_.name}' is defined in this session: write it to a file, and name that with --import"
    return f"'{pass_.name}' is from '{module}': --import {module}"
