"""Remove initializers from the inputs of a model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_INPUTS_OPTIONAL_SINCE = 4


@passes.verify.equality
@passes.register(tags=("cleanup", "interface"))
class RemoveInitializersFromInputs(EditorPass):
    """Remove initializers from the inputs of the model, so that no caller can override them.

    Rewrites: ``g (float[1] x, float[1] w = {2}) => (y)`` → ``g (float[1] x) => (y) <float[1] w = {2}>``. This changes
              the interface on purpose: a caller can no longer pass ``w``. A model of IR version 3 or older is raised to
              version 4, the first in which initializers need not be inputs.
    Refuses:  inputs without a default value.
    Exactness: bit-exact for callers that override no default.
    """

    preserves = ("checker", "shape-inference", "topological-sort", "unique-names")

    only_old: bool = option(False, "only in models of IR version 3 or older, where no caller can override them anyway")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Keep the inputs that have no default."""
        if self.only_old and model.ir_version >= _INPUTS_OPTIONAL_SINCE:
            return
        inputs = model.graph.inputs
        kept = [value for value in inputs if not value.is_initializer()]

        def keep() -> None:
            inputs.clear()
            inputs.extend(kept)
            model.ir_version = max(model.ir_version, _INPUTS_OPTIONAL_SINCE)

        if len(kept) < len(inputs):
            editor.change("initializers among the inputs", (), keep)
