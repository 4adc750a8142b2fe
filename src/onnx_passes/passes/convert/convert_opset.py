"""Convert a model to another version of the default operator set."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(
    tags=("convert",), aliases={f"convert-opset{version}": f"version={version}" for version in range(7, 26)}
)
class ConvertOpset(EditorPass):
    """Convert graph, subgraphs and functions to another version of the default operator set.

    Rewrites: ``opset_import: ["" : 11]`` → ``opset_import: ["" : 21]``, and the nodes whose operator changed in
              between; ``convert-opset21`` is short for ``convert-opset{version=21}``.
    Refuses:  operators that the version does not have; the model then stays as it was.
    Exactness: bit-exact.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names")

    version: int = option(21, "version of the default operator set")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert in place, all at once: a model of two versions would be none."""
        convert_to(self.version, model, editor)


def convert_to(version: int, model: ir.Model, editor: Editor) -> bool:
    """Convert to a version as one rewrite; returns false if that was vetoed."""
    from onnx_passes.graph.opset import OpsetConversion

    conversion = OpsetConversion(model, version)
    return not conversion or editor.change(f"operator set {version}", conversion.nodes, conversion.apply)
