"""Functions that several activations are made of."""

from __future__ import annotations

from typing import Any


def sigmoid(op: Any, x: Any) -> Any:
    """Build the reciprocal of one and an exponential."""
    return op.Div(1.0, op.Add(op.Exp(op.Neg(x)), 1.0))


def softplus(op: Any, x: Any) -> Any:
    """Build the logarithm of an exponential and one, so that nothing overflows."""
    return op.Add(op.Relu(x), op.Log(op.Add(op.Exp(op.Neg(op.Abs(x))), 1.0)))


def line(op: Any, x: Any, alpha: float, beta: float) -> Any:
    """Build a line, clipped between zero and one."""
    return op.Clip(op.Add(op.Mul(x, alpha), beta), 0.0, 1.0)
