"""Remove imports of operator sets that nothing uses."""

from __future__ import annotations

from collections.abc import MutableMapping

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL, PassResult, Transformation
from onnx_passes.core.walk import all_nodes

_DEFAULT = {"", "ai.onnx"}


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedOpsets(Transformation):
    """Remove imports of operator sets that no node uses, from the model and from its functions.

    Rewrites: ``opset_import: ["" : 18, "com.example" : 1]`` → ``opset_import: ["" : 18]``.
    Refuses:  the default domain, domains of functions, and for the model also what its functions use inside.
    Exactness: bit-exact.
    """

    preserves = ALL

    def call(self, model: ir.Model) -> PassResult:
        """Compare imports with the domains of nodes and functions."""
        used = _domains(model.graph)
        modified = False
        for function in model.functions.values():
            inside = _domains(function)
            modified |= _keep(function.opset_imports, inside)
            used |= inside | {function.domain}
        modified |= _keep(model.opset_imports, used)
        return PassResult(model, modified)


def _domains(scope: ir.Graph | ir.Function) -> set[str]:
    return {node.domain for node in all_nodes(scope)} | _DEFAULT


def _keep(imports: MutableMapping[str, int], used: set[str]) -> bool:
    unused = [domain for domain in imports if domain not in used]
    for domain in unused:
        del imports[domain]
    return bool(unused)
