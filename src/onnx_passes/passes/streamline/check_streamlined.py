"""Report the share of a quantized network that is computed in integers."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.streamlined import Streamlined, streamlined
from onnx_passes.core.base import Analysis, AnalysisResult, Context
from onnx_passes.core.errors import OptionError, StructureError
from onnx_passes.core.options import option
from onnx_passes.passes.streamline.aggregate_scales import reasons_of

_SHOWN = 10


@passes.verify.equality
@passes.register(tags=("streamline", "check", "quantized"))
class CheckStreamlined(Analysis):
    """Report the share of multiply-accumulates on integers, and every node that prevents more.

    Rewrites: nothing; finds a ``Streamlined``: ``apply(model, "check-streamlined")["check-streamlined"].fraction``.
    Refuses:  a model with a smaller share after its first quantizer than ``least``.
    Exactness: changes nothing.
    """

    needs = ("shape-inference",)

    least: float = option(0.0, "end the run if a smaller share of the MACs is computed on integers")

    def __post_init__(self) -> None:
        """Refuse an impossible share."""
        if not 0 <= self.least <= 1:
            raise OptionError(f"'least' of pass 'check-streamlined' is {self.least}", hint="give a number from 0 to 1")

    def analyze(self, model: ir.Model) -> Streamlined:
        """Analyze the model unchanged."""
        return streamlined(model, reasons_of)

    def run(self, model: ir.Model, context: Context) -> AnalysisResult:
        """Report the findings in the notes of the run."""
        found = self.analyze(model)
        context.note(str(found))
        for blocker in found.blockers[:_SHOWN]:
            context.note(str(blocker))
        if len(found.blockers) > _SHOWN:
            context.note(f"and {len(found.blockers) - _SHOWN} more nodes compute in floats")
        if found.fraction < self.least:
            first = f": {found.blockers[0]}" if found.blockers else ""
            raise StructureError(
                f"only {found.fraction:.1%} of the MACs are integer, {self.least:.1%} are required{first}"
            )
        return AnalysisResult(model, modified=False, value=found)
