"""Decorators that state the claims of a pass: ``equality``, ``tolerance``, ``metric`` and ``structure``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, overload

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import RegistrationError, UsageError
from onnx_passes.core.registry import REGISTRY

if TYPE_CHECKING:
    from onnx_passes.verify.metrics.metrics import MetricRange
    from onnx_passes.verify.structure.properties import Property

P = TypeVar("P", bound=type[Pass])


def _claim(cls: P, claim: Claim) -> P:
    cls.claims = (claim, *cls.claims)
    REGISTRY.refresh(cls)
    return cls


def equality(cls: P) -> P:
    """Promise results that are equal bit by bit."""
    return _claim(cls, Claim("equality"))


@overload
def tolerance(cls: P) -> P: ...
@overload
def tolerance(
    *, atol: float | None = None, rtol: float | None = None, unit: float | None = None
) -> Callable[[P], P]: ...
def tolerance(
    cls: P | None = None, *, atol: float | None = None, rtol: float | None = None, unit: float | None = None
) -> P | Callable[[P], P]:
    """Promise results within a tolerance of the original model: that of the run, or the one given here.

    A pass that changes the type of numbers gives their ``unit`` in the last place: results may move as far as such
    errors move those of the original, and what follows is held to the results in the new type.
    """
    named = (("atol", atol), ("rtol", rtol), ("unit", unit))
    given = {key: value for key, value in named if value is not None}
    claim = Claim("tolerance", given)
    return (lambda c: _claim(c, claim)) if cls is None else _claim(cls, claim)


@overload
def metric(cls: P, /) -> P: ...
@overload
def metric(cls: None = None, /, **ranges: MetricRange) -> Callable[[P], P]: ...
def metric(cls: P | None = None, /, **ranges: MetricRange) -> P | Callable[[P], P]:
    """Promise that metrics of the task stay in their accepted range: those of the run, or those given here.

    A range is ``(min, max)`` with ``None`` for an open end; ``**{"module:function": (0, 1)}`` is one of your own.
    """
    from onnx_passes.verify.metrics.metrics import find_metric, parse_ranges

    try:
        claim = Claim("metric", parse_ranges(ranges, where="metric"))
        for name in ranges:
            # A metric of the user may be defined only after the pass that promises it.
            if ":" not in name:
                find_metric(name)
    except UsageError as error:
        raise RegistrationError(error.what, where=error.where, hint=error.hint) from error
    return (lambda c: _claim(c, claim)) if cls is None else _claim(cls, claim)


@dataclass(frozen=True)
class StructureClaim(Claim):
    """Properties that the resulting graph has."""

    properties: tuple[Property, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.properties))})"


def structure(*properties: Property | str) -> Callable[[P], P]:
    """Promise properties of the resulting graph, as objects or as text: ``"at-most(Relu, 3)"``."""
    if not properties or any(isinstance(prop, type) for prop in properties):
        raise RegistrationError(
            "'structure' names no property", hint="write @passes.verify.structure(…) with the properties in parentheses"
        )
    from onnx_passes.verify.structure.vocabulary import parse_property

    parsed = tuple(map(parse_property, properties))
    given = {str(prop): written for prop, written in zip(parsed, properties, strict=True)}
    claim = StructureClaim("structure", given, parsed)
    return lambda cls: _claim(cls, claim)
