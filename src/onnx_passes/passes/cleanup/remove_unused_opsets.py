"""Remove unused opset imports."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL
from onnx_passes.core.walk import all_nodes
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_DEFAULT = {"", "ai.onnx"}


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedOpsets(EditorPass):
    """Remove imports of operator sets that no node uses, from the model and from its functions.

    Rewrites: ``opset_import: ["" : 18, "com.example" : 1]`` → ``opset_import: ["" : 18]``.
    Refuses:  the default domain, domains of functions and, for the model, domains that its functions use.
    Exactness: bit-exact.
    """

    preserves = ALL

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Remove imports of domains that no node or function uses."""
        used = _domains(model.graph)
        for function in model.functions.values():
            inside = _domains(function)
            _keep(function.opset_imports, inside, editor)
            used |= inside | {function.domain}
        _keep(model.opset_imports, used, editor)


def _domains(scope: ir.Graph | ir.Function) -> set[str]:
    return {node.domain for node in all_nodes(scope)} | _DEFAULT


def _keep(imports: MutableMapping[str, int], used: set[str], editor: Editor) -> None:
    for domain in [domain for domain in imports if domain not in used]:
        editor.change("unused operator set", (), partial(imports.pop, domain))
