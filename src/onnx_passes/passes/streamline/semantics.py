"""Pipelines for quantized networks that pass their option ``semantics`` to their members."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from onnx_passes.core.base import Pass
from onnx_passes.core.build import collect
from onnx_passes.core.compose import ComposePass, PassLike
from onnx_passes.core.options import fields_of, option
from onnx_passes.passes.thresholds.conversion import Semantics


class QuantizedPipeline(ComposePass):
    """A pipeline with thresholds of either exact arithmetic or the float computation."""

    semantics: Semantics = option("exact", "whether scales are real numbers, or products are rounded to floats")

    def __post_init__(self) -> None:
        """Set the semantics of all members with that option."""
        super().__post_init__()
        if self.semantics != "exact":
            self.body = tuple(self._decided(member) for member in self.body)

    def _decided(self, member: PassLike) -> PassLike:
        (made,) = [member] if isinstance(member, Pass) else collect(member)
        if "semantics" not in fields_of(type(made)):
            return member
        decided: Pass = dataclasses.replace(cast("Any", made), semantics=self.semantics)
        return decided
