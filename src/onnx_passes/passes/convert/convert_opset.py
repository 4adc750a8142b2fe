"""Convert a model to another version of the default operator set."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.options import option


@passes.verify.equality
@passes.register(
    tags=("convert",), aliases={f"convert-opset{version}": f"version={version}" for version in range(7, 26)}
)
class ConvertOpset(Transformation):
    """Convert graph, subgraphs and functions to another version of the default operator set.

    Rewrites: ``opset_import: ["" : 11]`` → ``opset_import: ["" : 21]``, and the nodes whose operator changed in
              between; ``convert-opset21`` is short for ``convert-opset{version=21}``.
    Refuses:  operators that the version does not have; the model then stays as it was.
    Exactness: bit-exact.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names")

    version: int = option(21, "version of the default operator set")

    def call(self, model: ir.Model) -> PassResult:
        """Convert in place."""
        from onnx_passes.graph.opset import convert_opset

        before = _versions(model)
        converted = convert_opset(model, self.version)
        return PassResult(converted, modified=_versions(converted) != before)


def _versions(model: ir.Model) -> list[int | None]:
    return [scope.opset_imports.get("") for scope in (model.graph, *model.functions.values())]
