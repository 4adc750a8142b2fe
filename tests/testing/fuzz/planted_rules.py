"""Passes with planted faults, registered when this file is imported, so that other processes find them by name."""

from __future__ import annotations

from typing import Any

from onnx_passes import RewriteRulePass, Transformation, passes


@passes.verify.equality
@passes.register("planted")
class PlantedSubtraction(Transformation, RewriteRulePass):
    """Take additions for subtractions."""

    def pattern(self, op: Any, x: Any, y: Any) -> Any:
        return op.Add(x, y)

    def rewrite(self, op: Any, x: Any, y: Any) -> Any:
        return op.Sub(x, y)


@passes.verify.equality
@passes.register("planted")
class PlantedNothing(Transformation, RewriteRulePass):
    """Drop two negations, which is right."""

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Neg(op.Neg(x))

    def rewrite(self, op: Any, x: Any) -> Any:
        return op.Identity(x)


@passes.verify.equality
@passes.register("planted")
class PlantedLoss(Transformation, RewriteRulePass):
    """Lose what broadcasting does."""

    def pattern(self, op: Any, x: Any, y: Any) -> Any:
        return op.Min(x, op.Max(x, y))

    def rewrite(self, op: Any, x: Any, y: Any) -> Any:
        return op.Identity(x)
