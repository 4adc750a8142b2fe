"""Convert a model to another version of the default operator set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes import passes
from onnx_passes.core.base import Context
from onnx_passes.core.options import option
from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.functions import MOST_NODES, expanded_size
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

if TYPE_CHECKING:
    from onnx_passes.ops.opsets.convert import OpsetConversion


@passes.verify.tolerance
@passes.register(
    tags=("convert",), aliases={f"convert-opset{version}": f"version={version}" for version in range(7, 26)}
)
class ConvertOpset(EditorPass):
    """Convert graph, subgraphs and functions to another version of the default operator set, up or down.

    Rewrites: ``opset_import: ["" : 11]`` → ``opset_import: ["" : 21]``, and the nodes whose operator changed in
              between; ``convert-opset21`` is short for ``convert-opset{version=21}``. Downwards, nodes without new
              features stay, and others are rewritten in the older form, such as ``ReduceMean(x, axes)`` → ``ReduceMean
              <axes> (x)``; the IR version is lowered, too. ``only-raise`` leaves models of a later version unchanged.
    Refuses:  nodes with a feature or element type that the target version lacks: all are named, with the feature, and
              the model stays unchanged.
    Exactness:bit-exact, unless ONNX Runtime has different kernels for the two versions: AveragePool of opset 19 rounds
              differently from its predecessor.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names")

    version: int = option(21, "version of the default operator set")
    only_raise: bool = option(False, "leave models of a later version unchanged")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert in place and as one change: a model with two versions would be invalid."""
        if not self.only_raise or model.opset_imports.get("", 0) < self.version:
            convert_to(self.version, model, editor)


def convert_to(version: int, model: ir.Model, editor: Editor) -> bool:
    """Convert to a version as one rewrite; return False if it was vetoed."""
    from onnx_passes.ops.opsets.convert import OpsetError

    try:
        conversion = _planned(version, model, editor)
    except OpsetError as error:
        for node, reason in error.refused:
            editor.refuse(f"operator set {version}", reason, node)
        error.hint = _lowering({node.op_type for node, _ in error.refused}, version) or error.hint
        raise
    return not conversion or editor.change(f"operator set {version}", conversion.nodes, conversion.apply)


def _planned(version: int, model: ir.Model, editor: Editor) -> OpsetConversion:
    """Plan the conversion, with missing types and ranks inferred first."""
    from onnx_passes.ops.opsets.convert import OpsetConversion, OpsetError, target_versions

    given = model.opset_imports.get("", version)
    if version in target_versions() and version != given:
        editor.annotated |= _infer(model, gaps_only=True)
    try:
        conversion = OpsetConversion(model, version)
    except OpsetError:
        if not _infer(model, gaps_only=False):
            raise
        editor.annotated = True
        conversion = OpsetConversion(model, version)
    if version < given and model.functions and expanded_size(model) <= MOST_NODES:
        # The element types inside a function are only known at its calls.
        called = InlinePass()(copy_model(model)).model
        _infer(called, gaps_only=True)
        OpsetConversion(called, version)
    return conversion


def _infer(model: ir.Model, *, gaps_only: bool) -> bool:
    from onnx_passes.passes.annotate.shape_inference import ShapeInference

    return ShapeInference(gaps_only=gaps_only).run(model, Context()).modified


def _lowering(operators: set[str], version: int) -> str:
    """Name the passes that lower operators missing in a version to older ones."""
    from onnx_passes.graph.schemas import schema_of

    missing = {name for name in operators if schema_of("", name, version) is None}
    lowering = REGISTRY.groups().get("lower", [])
    found = sorted(entry.name for entry in lowering if missing & {*REGISTRY.load(entry).lowers})
    return f"{' and '.join(found)} first, or stay with a higher version" if found else ""
