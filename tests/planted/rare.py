"""Faults that few values show: rewrites that are right nearly everywhere. A benchmark counts how many are found."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np
import onnx_ir as ir

from onnx_passes import RewriteRulePass, Transformation, constant, passes
from onnx_passes.core.base import Pass
from tests.planted.planting import Fault, text


def planted(
    name: str,
    kind: str,
    host: str,
    pattern: Callable[..., object],
    rewrite: Callable[..., object],
    *,
    check: Callable[..., object] | None = None,
    claim: Callable[..., type[Pass]] = passes.verify.equality,
) -> Fault:
    """Make a wrong rule of what it looks for and what it puts there; it applies once, as it may match what it put."""

    @wraps(rewrite)
    def once(self, op, **values):
        _graph(values).meta[name] = True
        return rewrite(self, op, **values)

    @wraps(rewrite)
    def is_new(self, op, **values):
        return name not in _graph(values).meta and (check is None or check(self, op, **values))

    members = {"pattern": pattern, "rewrite": once, "check": is_new}
    words = "".join(word.capitalize() for word in "".join(c if c.isalnum() else " " for c in name).split())
    return Fault(name, claim(type(words, (Transformation, RewriteRulePass), members)), host, kind)


def _graph(values: dict[str, ir.Value]) -> ir.Graph:
    return next(value.graph for value in values.values() if value.graph is not None)


def chain(
    body: str, *, shape: str = "3,8", dtype: str = "float", result: str = "", initializers: str = "", opset: int = 20
) -> str:
    """Write a model of one input ``x`` and one output ``y``."""
    return text(f"{dtype}[{shape}] x", f"{result or dtype}[] y", body, initializers=initializers, opset=opset)


def up(value: object) -> np.ndarray:
    """Return the next greater number of a constant."""
    number = constant(value)
    return np.nextafter(number, number.dtype.type(np.inf))


def down(value: object) -> np.ndarray:
    """Return the next smaller number of a constant."""
    number = constant(value)
    return np.nextafter(number, number.dtype.type(-np.inf))
