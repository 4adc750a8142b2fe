"""Pipelines for quantized networks that pass their option ``semantics`` to the members that have it."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from onnx_passes.core.base import Pass
from onnx_passes.core.build import collect
from onnx_passes.core.compose import ComposePass, PassLike
from onnx_passes.core.options import fields_of, option
from onnx_passes.passes.thresholds.conversion import Semantics


class QuantizedPipeline(ComposePass):
    """A pipeline whose thresholds are those of exact arithmetic, or those of the float computation."""

    semantics: Semantics = option("exact", "whether scales mean real numbers, or what floats make of their products")

    def __post_init__(self) -> None:
        """Hand the semantics to those members that decide by it."""
        super().__post_init__()
        if self.semantics != "exact":
            self.body = tuple(self._decided(member) for member in self.body)

    def _decided(self, member: PassLike) -> PassLike:
        (made,) = [member] if isinstance(member, Pass) else collect(member)
        if "semantics" not in fields_of(type(made)):
            return member
        decided: Pass = dataclasses.replace(cast("Any", made), semantics=self.semantics)
        return decided
