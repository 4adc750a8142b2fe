"""Adapter for passes of onnx_ir and others."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.naming import kebab
from onnx_passes.core.options import internal


class ForeignPass(Transformation):
    """An ``onnx_ir`` pass as one of ours."""

    inner: ir.passes.PassBase = internal(None)

    @classmethod
    def adapt(cls, inner: ir.passes.PassBase) -> ForeignPass:
        """Wrap an object."""
        return cls(inner=inner)

    @property
    def name(self) -> str:
        """Return the class name of the wrapped pass, without the suffix that onnx_ir gives its passes."""
        return kebab(type(self.inner).__name__.removesuffix("Pass"))

    @property
    def in_place(self) -> bool:
        """Return the property of the wrapped pass."""
        return self.inner.in_place

    @property
    def changes_input(self) -> bool:
        """Return the property of the wrapped pass."""
        return self.inner.changes_input

    def call(self, model: ir.Model) -> PassResult:
        """Run the wrapped pass with its own pre- and post-conditions."""
        return self.inner(model)
