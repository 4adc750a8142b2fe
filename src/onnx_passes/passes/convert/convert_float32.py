"""Convert a model of half precision to single precision."""

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
    """Convert float16 and bfloat16 to single precision, in subgraphs too.

    Rewrites: ``Relu(x: float16)`` → ``Relu(x: float)``; weights are the same numbers, and Casts that are no more needed
              go. Inputs and outputs of the model become float, too, unless ``keep-io=true``.
    Refuses:  quantizers, operators that are not known, and those that draw random numbers.
    Exactness: within what the shorter type resolves: nothing is rounded to it any more.
    """

    sources = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
    target = ir.DataType.FLOAT

    keep_io: bool = option(False, "inputs and outputs of the model keep their type, with Casts behind and before them")

    def keeps_interface(self) -> bool:
        """Tell whether inputs and outputs keep their type."""
        return self.keep_io

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Object to nothing: the type holds all numbers of the others."""
        return lambda _: ""
