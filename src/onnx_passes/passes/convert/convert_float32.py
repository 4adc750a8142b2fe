"""Convert a model from half to single precision."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.passes.convert.float_types import ConvertFloats
from onnx_passes.passes.convert.objections import Objection
from onnx_passes.rewrite.editor import Editor


@passes.verify.tolerance(atol=2**-10, rtol=2**-7, unit=2**-10)
@passes.register(tags=("convert", "types"))
class ConvertFloat32(ConvertFloats):
    """Convert float16 and bfloat16 to single precision, including subgraphs.

    Rewrites: ``Relu(x: float16)`` → ``Relu(x: float)``; weights keep their values, and superfluous Casts are removed.
              Inputs and outputs of the model become float, too, unless ``keep-io=true``.
    Refuses:  quantizers, unknown operators and random ones.
    Exactness: within the resolution of the shorter type, as results are no longer rounded to it.
    """

    sources = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
    target = ir.DataType.FLOAT

    keep_io: bool = option(False, "inputs and outputs of the model keep their type, with Casts next to them")

    def keeps_interface(self) -> bool:
        """Return whether inputs and outputs keep their type."""
        return self.keep_io

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Return an empty objection for every node: float holds all numbers of the shorter types."""
        return lambda _: ""
