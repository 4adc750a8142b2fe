"""The dialect of QONNX: its domains and operators, and the version that a model uses."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.wording import name_of

GENERAL = "qonnx.custom_op.general"
"""The domain of quantizers and related operators in QONNX, since it is a separate project."""

EARLIER = ("onnx.brevitas", "finn.custom_op.general", "finn")
"""Earlier domains of the same operators in Brevitas and FINN."""

OPERATORS = frozenset(
    {
        *("Quant", "BipolarQuant", "FloatQuant", "Trunc", "MultiThreshold"),
        *("Im2Col", "MaxPoolNHWC", "QuantAvgPool2d", "XnorPopcountMatMul", "DebugMarker", "GenericPartition"),
    }
)
"""Operators of QONNX's general domain; IntQuant is a second name of Quant that FINN does not know."""

USUAL_LAYOUTS = {2: "NC", 3: "NWC", 4: "NCHW"}
"""Default layouts by rank, as in QONNX since version 1."""

ROUNDING = {"HALF_EVEN": "ROUND", "ROUND_TO_ZERO": "DOWN"}
"""Aliases of rounding modes; QONNX does not know Brevitas' ROUND_TO_ZERO by that name."""

_INPUTS_OF_SECOND_TRUNC = 6

Scope = ir.Graph | ir.Function


def scopes(model: ir.Model) -> list[Scope]:
    """Return the graph and all functions, which import operator sets."""
    return [model.graph, *model.functions.values()]


def own_nodes(model: ir.Model, scope: Scope) -> Iterator[ir.Node]:
    """Yield the nodes of a scope and its subgraphs in custom domains, without calls of model functions."""
    return (node for node in all_nodes(scope) if node.domain and node.op_identifier() not in model.functions)


def is_backend_node(node: ir.Node) -> bool:
    """Return whether a node is of FINN's hardware library, which was once in the domain ``finn``."""
    return node.domain == "finn" and "backend" in node.attributes


def is_general(node: ir.Node) -> bool:
    """Return whether a node is of QONNX's general domain, under any of its names."""
    return node.domain == GENERAL or (node.domain in EARLIER and not is_backend_node(node))


def version_of(model: ir.Model, scope: Scope) -> int | None:
    """Return the version of the general domain that a scope needs; None if it does not use the domain.

    The second version differs in Trunc, which has six inputs there and five in the first. Raises ModelError if a
    scope uses both versions, as no version has both.
    """
    used, first, second = False, "", ""
    for node in own_nodes(model, scope):
        if is_general(node):
            used = True
            if node.op_type == "Trunc":
                if len(node.inputs) < _INPUTS_OF_SECOND_TRUNC:
                    first = first or name_of(node)
                else:
                    second = second or name_of(node)
    if first and second:
        raise ModelError(
            f"{first} is Trunc of version 1, {second} of version 2, and a model has one version of a domain",
            hint="replace one kind by standard operators first, as inline-qonnx does",
        )
    if not used:
        return None
    imported = scope.opset_imports.get(GENERAL, 0)
    return 1 if first else 2 if second else imported if imported in (1, 2) else 1
