"""The collection of passes, and what authors of passes use: ``register``, ``collect`` and ``verify``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from onnx_passes.core.base import Pass
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.registry import REGISTRY
from onnx_passes.legacy.configured import collect as collect
from onnx_passes.legacy.names import renamed
from onnx_passes.passes import verify as verify
from onnx_passes.rewrite.foreign import adapt

__all__ = ["collect", "register", "verify"]

T = TypeVar("T")


def __getattr__(name: str) -> ModuleType:
    """Import a module of the collection when it is asked for: version 0.4 had ``base`` and ``compose`` at once."""
    path = f"{__name__}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *(module.name for module in pkgutil.iter_modules(__path__))})


def register(*names: str, tags: Iterable[str] = (), aliases: Mapping[str, str] | None = None) -> Callable[[T], T]:
    """Register a pass: a class of ours, a pass of onnx_ir, or a rule or rule set of onnxscript.

    A pass is known by its class name and the kebab-case spelling of it. Further names are groups: several
    passes may carry the same one, and it runs them in the order of registration. ``aliases`` maps a name to
    options, as in ``{"convert-opset18": "version=18"}``; ``tags`` only label the pass for ``list``.
    """
    if not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RegistrationError("register takes names, not a pass", hint="write '@passes.register()'")

    def decorate(thing: T) -> T:
        cls: Any = thing
        if isinstance(cls, type) and issubclass(cls, Pass):
            REGISTRY.register(cls, *names, tags=tags, aliases=aliases)
            return thing
        adapted = adapt(thing, names[0] if names else None)
        if adapted is None:
            raise RegistrationError(
                f"{_describe(thing)} is no pass",
                hint="register a subclass of Pass, an onnx_ir pass, or an onnxscript rule or rule set",
            )
        REGISTRY.register(adapted, *names, tags=tags, aliases=aliases)
        return thing

    return decorate


def _adapt_unnamed(thing: object) -> type[Pass] | None:
    """Take foreign rules and rule sets wherever a pass is taken."""
    return adapt(thing, getattr(thing, "name", None) or type(thing).__name__)


def _verification() -> Instrument:
    from onnx_passes.check.verification import Verification

    return Verification()


def _measuring() -> Instrument:
    from onnx_passes.check.measuring import MeasuringAlone

    return MeasuringAlone()


REGISTRY.adapters.append(_adapt_unnamed)
REGISTRY.watchers.extend((_measuring, _verification))
REGISTRY.renamed = renamed


def _describe(thing: Any) -> str:
    return f"'{getattr(thing, '__name__', None) or type(thing).__name__}'"
