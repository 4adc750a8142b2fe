"""The pass that lowers one operator: what it is made of is written down by its subclasses."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import opset
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import Refusal, no, yes


class LowerOperator(Transformation, RewriteRulePass):
    """Put simpler operators in the place of ``operator``: ``body`` builds them."""

    needs = ("shape-inference",)
    operator: ClassVar[str] = ""
    since: ClassVar[int] = 13
    """The first opset that has the simpler operators as they are built."""

    def pattern(self, op: Any, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match the operator by its first input."""
        return getattr(op, self.operator)(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, op: Match, x: ir.Value, y: ir.Value) -> Any:
        """Refuse what cannot be built whatever the operator, then ask the subclass."""
        if opset(op) < self.since:
            return no(f"needs opset {self.since}", at=y)
        if x.dtype is None or not x.dtype.is_floating_point():
            return no("the input is not known to be of floats", at=x)
        node = y.producer()
        assert node is not None
        refusal = self.refuse(x, node)
        return yes if refusal is None else refusal

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """Build the simpler operators."""
        node = y.producer()
        assert node is not None
        return self.body(op, x, node)

    def refuse(self, x: ir.Value, node: ir.Node) -> Refusal | None:
        """Say what stands against lowering a node."""
        return None

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build what the operator is made of."""
        raise NotImplementedError(f"pass '{self.name}' has no body")
