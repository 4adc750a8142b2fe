"""Write a model in the dialect of QONNX."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape
from onnx_passes.graph.names import Names
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.wording import count, name_of
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, OUR_DOMAIN
from onnx_passes.passes.qonnx.dialect import GENERAL, OPERATORS, own_nodes, scopes
from onnx_passes.passes.qonnx.eject_ops import eject
from onnx_passes.passes.qonnx.import_qonnx import normalise
from onnx_passes.passes.qonnx.qonnx_thresholds import QonnxThresholds, qonnx_thresholds
from onnx_passes.passes.qonnx.required import complete
from onnx_passes.rewrite.leftovers import Leftovers

_OVERLOADS_SINCE = 10
_HARDWARE = "finn"
"""How the domains of FINN's hardware library begin, which it reads itself."""
_NAMED = 3


@passes.verify.equality
@passes.register(tags=("qonnx", "convert"))
class ExportQonnx(Transformation):
    """Bring a model to the form that QONNX and FINN read, with a shape for every tensor and data types as annotations.

    Rewrites: what import-qonnx does; operators of the domain ``onnx_passes`` → those of QONNX; layouts, steps and
              padding that are left open → the usual ones; constants → initializers, where QONNX looks for them;
              functions made by inject-ops → nothing; an IR version above ``ir-version`` → that, or the one that the
              operator sets need.
    Refuses:  operators of the domain ``onnx_passes`` that QONNX does not have, or has no way to express: thresholds
              with steps that differ, for example. What QONNX will not read, such as subgraphs, functions and tensors
              without a static shape, is noted.
    Exactness: bit-exact.
    """

    needs = ("import-qonnx", "lift-constants", "shape-inference", "infer-datatypes")
    preserves = (
        "import-qonnx",
        "lift-constants",
        "remove-unused",
        "shape-inference",
        "topological-sort",
        "unique-names",
    )

    ir_version: int = option(8, "highest IR version to write, unless the operator sets need a higher one")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert in place."""
        nodes = [(scope, node) for scope in scopes(model) for node in own_nodes(model, scope)]
        own = {node: _expressed(node) for _, node in nodes if node.domain == OUR_DOMAIN}
        modified = eject(model) or bool(own)
        names = Names.of(model.graph) if any(own.values()) else Names()
        for scope, node in nodes:
            if node in own:
                thresholds = own[node]
                if thresholds is not None:
                    thresholds.apply(node, names)
                node.domain = GENERAL
                scope.opset_imports.pop(OUR_DOMAIN, None)
        modified |= normalise(model, context)
        completed = [node for scope in scopes(model) for node in own_nodes(model, scope) if complete(node)]
        modified |= bool(completed)
        modified |= _compute_constant_outputs(model.graph)
        modified |= self._lower_ir_version(model)
        for text in _unread(model):
            context.note(text)
        return PassResult(model, modified=modified)

    def _lower_ir_version(self, model: ir.Model) -> bool:
        import onnx.helper

        versions = [scope.opset_imports[""] for scope in scopes(model)]
        needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", max(versions))])
        if any(overload for _, _, overload in model.functions):
            needed = max(needed, _OVERLOADS_SINCE)
        wanted = min(model.ir_version, max(self.ir_version, needed))
        modified = wanted != model.ir_version
        model.ir_version = wanted
        return modified


def _expressed(node: ir.Node) -> QonnxThresholds | None:
    """Return what changes beside the domain of a node; refuses operators that QONNX has not."""
    definition = definition_of(node)
    if definition is None or definition.name not in OPERATORS:
        raise _refusal(node, "it has no such operator")
    if GENERAL in definition.domains:
        return None
    found = qonnx_thresholds(definition, node) if node.op_type == "MultiThreshold" else "its own is another one"
    if isinstance(found, str):
        raise _refusal(node, found)
    return found


def _refusal(node: ir.Node, reason: str) -> PassFailedError:
    return PassFailedError(
        f"QONNX cannot express {node.op_type}: {reason}",
        where=name_of(node),
        hint=_hint(node),
    )


def _hint(node: ir.Node) -> str:
    if node.op_type == "MultiThreshold":
        return "run separate-thresholds and decompose-thresholds first, or inline-qonnx for standard operators"
    return "replace it by standard operators, as inline-qonnx does"


def _compute_constant_outputs(graph: ir.Graph) -> bool:
    """Let a node yield each output that is an initializer: QONNX takes a tensor to be described once."""
    constant = [value for value in graph.outputs if value.is_initializer() and not value.is_graph_input()]
    names = Names.of(graph) if constant else Names()
    for value in dict.fromkeys(constant):
        node = ir.Node("", "Identity", [value], name=names.node(f"{value.name}/Identity"))
        output, name = node.outputs[0], value.name
        copy_type_and_shape(value, output)
        carry_annotations(value, output)
        value.name = names.value(f"{name}_value")
        output.name = name
        graph.append(node)
        graph.outputs[:] = [output if other is value else other for other in graph.outputs]
    return bool(constant)


def _unread(model: ir.Model) -> list[str]:
    """Say what of a model QONNX cannot make use of."""
    found: list[str] = []
    if model.functions:
        found.append(f"QONNX does not read functions, as the model has {len(model.functions)}: run inline-functions")
    if next(all_graphs(model.graph), None) is not None:
        found.append("QONNX does not look into the bodies of If, Loop and Scan")
    overridable = sum(value.is_graph_input() for value in model.graph.initializers.values())
    if overridable:
        found.append(
            f"{count(overridable, 'initializer')} can be overridden as inputs, so that no data types follow from them: "
            "run remove-initializers-from-inputs first"
        )
    left = Leftovers()
    for node in own_nodes(model, model.graph):
        if node.domain not in (GENERAL, CHANNELS_LAST_DOMAIN) and not node.domain.startswith(_HARDWARE):
            left.add(f"{node.domain}::{node.op_type}", "QONNX has no such operator")
    found.extend(left.notes())
    values = [value for value in annotations.values(model.graph) if value.name]
    unknown = [value for value in values if value.shape is None or value.dtype is None]
    dynamic = [value for value in values if value.shape is not None and static_shape(value) is None]
    if unknown:
        found.append(f"QONNX needs type and shape of every tensor, which {_some(unknown)} lack")
    if dynamic:
        found.append(f"QONNX needs sizes that are known, which {_some(dynamic)} have not")
    return found


def _some(values: Sequence[ir.Value]) -> str:
    names = ", ".join(f"'{value.name}'" for value in values[:_NAMED])
    return f"{count(values, 'tensor')} ({names}{', …' if len(values) > _NAMED else ''})"
