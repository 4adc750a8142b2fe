"""Add function definitions of custom operators to a model."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.wording import count
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.functions import Functions
from onnx_passes.passes.qonnx.dialect import own_nodes
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.leftovers import Leftovers
from onnx_passes.rewrite.passes import EditorPass

_OVERLOADS_SINCE = 10
_KNOWN_TO_ONNX_RUNTIME = ("ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft", "com.microsoft.nchwc")


@passes.verify.equality
@passes.register(tags=("qonnx", "functions"))
class InjectOps(EditorPass):
    """Add a function for each custom operator, so that the model runs in stock ONNX Runtime.

    Rewrites: ``Quant <rounding_mode = "ROUND"> (x, s, z, b)`` → the same node with an ``overload``, and a function of
              that name: one function for each combination of attributes, as functions cannot compare strings. QONNX
              reads the nodes as before. The IR version becomes 10, the first with overloads.
    Refuses:  operators inside functions, and operators that are defined neither here nor by ONNX Runtime: they stay,
              with a note. Operators with a function in the model keep it.
    Exactness:bit-exact. With its optimizations on, ONNX Runtime drops the addition of zero, so that a negative zero
              that should become positive stays negative.
    """

    needs = ("shape-inference",)
    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names", "import-qonnx")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Make all functions first, so that a refusal leaves the model unchanged."""
        functions = Functions(model.opset_imports, model.functions)
        calls = [
            (node, functions.get(definition, node))
            for node in own_nodes(model, model.graph)
            if (definition := definition_of(node)) is not None
        ]
        for function in model.functions.values():
            left = [node for node in own_nodes(model, function) if definition_of(node) is not None]
            if left:
                editor.context.note(
                    f"{count(left, 'custom operator')} in function '{function.name}' stay, as ONNX Runtime does "
                    "not let functions call overloads: run inline-functions first"
                )
        left = Leftovers()
        for node in own_nodes(model, model.graph):
            if definition_of(node) is None and node.domain not in _KNOWN_TO_ONNX_RUNTIME:
                left.add(f"{node.domain}::{node.op_type}", "it is not defined here")
        for text in left.notes():
            editor.context.note(text)
        for node, function in calls:
            if not editor.change(f"function of {node.op_type}", [node], partial(_call, model, node, function)):
                return


def _call(model: ir.Model, node: ir.Node, function: ir.Function) -> None:
    node.overload = function.overload
    model.functions[function.identifier()] = function
    model.ir_version = max(model.ir_version, _OVERLOADS_SINCE)
