"""Export a model in the dialect of QONNX."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape, detach
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.wording import count, name_of
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, OUR_DOMAIN, definition_of
from onnx_passes.passes.qonnx.dialect import GENERAL, OPERATORS, own_nodes, scopes
from onnx_passes.passes.qonnx.eject_ops import eject
from onnx_passes.passes.qonnx.import_qonnx import normalise
from onnx_passes.passes.qonnx.qonnx_thresholds import QonnxThresholds, qonnx_thresholds
from onnx_passes.passes.qonnx.required import lacking
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.leftovers import Leftovers
from onnx_passes.rewrite.passes import EditorPass

_OVERLOADS_SINCE = 10
_HARDWARE = "finn"
"""Prefix of the domains of FINN's hardware library, which FINN reads itself."""
_NAMED = 3
_COMPLETE = "attributes that QONNX asks for"


@passes.verify.equality
@passes.register(tags=("qonnx", "convert"))
class ExportQonnx(EditorPass):
    """Convert a model to the form that QONNX and FINN read: with static shapes and annotated data types.

    Rewrites: the rewrites of import-qonnx; operators of the domain ``onnx_passes`` → those of QONNX; missing layouts,
              kernel sizes, strides, padding and groups → their defaults; constants → initializers, where QONNX requires
              them; functions made by inject-ops → nothing; an IR version above ``ir-version`` → that, or the one that
              the operator sets need.
    Refuses:  operators of the domain ``onnx_passes`` without an equivalent in QONNX, for example thresholds with
              different steps. Parts that QONNX does not read, such as subgraphs, functions and tensors without a static
              shape, are noted.
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

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert in place, and note the parts that QONNX will not read."""
        self.write(model, editor)
        if not editor.stopped:
            for text in _unread(model):
                editor.context.note(text)

    def write(self, model: ir.Model, editor: Editor) -> None:
        """Convert in place."""
        nodes = [(scope, node) for scope in scopes(model) for node in own_nodes(model, scope)]
        own = [(scope, node, _expressed(node)) for scope, node in nodes if node.domain == OUR_DOMAIN]
        eject(model, editor)
        for scope, node, thresholds in own:
            editor.import_opsets(scope.opset_imports, {GENERAL: scope.opset_imports.get(GENERAL, 1)})
            _express(editor, node, thresholds)
            if editor.stopped:
                return
        for scope, _, _ in own:
            editor.import_opsets(scope.opset_imports, {}, without=[OUR_DOMAIN])
        normalise(model, editor)
        for scope in scopes(model):
            for node in all_nodes(scope):
                if node.op_identifier() in model.functions:
                    continue
                if editor.stopped or not editor.update(_COMPLETE, node, attributes=lacking(node)):
                    return
        _compute_constant_outputs(model.graph, editor)
        self._lower_ir_version(model, editor)

    def _lower_ir_version(self, model: ir.Model, editor: Editor) -> None:
        import onnx.helper

        versions = [scope.opset_imports[""] for scope in scopes(model)]
        needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", max(versions))])
        if any(overload for _, _, overload in model.functions):
            needed = max(needed, _OVERLOADS_SINCE)
        wanted = min(model.ir_version, max(self.ir_version, needed))
        if wanted != model.ir_version:
            editor.change(f"IR version {wanted}", (), lambda: setattr(model, "ir_version", wanted))


def _express(editor: Editor, node: ir.Node, thresholds: QonnxThresholds | None) -> None:
    rule = f"QONNX form of {node.op_type}"
    if thresholds is None:
        editor.update(rule, node, domain=GENERAL)
        return
    with editor.rewrite(rule, node) as r:
        r.replace(node.outputs[0], thresholds.build(r.op, node))


def _expressed(node: ir.Node) -> QonnxThresholds | None:
    """Return the QONNX thresholds of a node, None if only its domain changes; refuse other operators."""
    definition = definition_of(node)
    if definition is None or definition.name not in OPERATORS:
        raise _refusal(node, "QONNX has no such operator")
    if GENERAL in definition.domains:
        return None
    found = (
        qonnx_thresholds(definition, node)
        if node.op_type == "MultiThreshold"
        else "QONNX has a different operator of that name"
    )
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


def _compute_constant_outputs(graph: ir.Graph, editor: Editor) -> None:
    """Insert Identity before outputs that are initializers: QONNX requires a tensor to be described once."""
    for value in dict.fromkeys(graph.outputs):
        if value.is_initializer() and not value.is_graph_input():
            node = ir.Node("", "Identity", [value], name=editor.scope.names.node(f"{value.name}/Identity"))
            if not editor.change("constant output", (), partial(_yield, node, value, graph, editor), added=[node]):
                detach(node)
                return


def _yield(node: ir.Node, value: ir.Value, graph: ir.Graph, editor: Editor) -> None:
    output, name = node.outputs[0], value.name
    copy_type_and_shape(value, output)
    carry_annotations(value, output)
    value.name = editor.scope.names.value(f"{name}_value")
    output.name = name
    graph.append(node)
    graph.outputs[:] = [output if other is value else other for other in graph.outputs]


def _unread(model: ir.Model) -> list[str]:
    """Describe the parts of a model that QONNX cannot use."""
    found: list[str] = []
    if model.functions:
        found.append(f"QONNX does not read functions, but the model has {len(model.functions)}: run inline-functions")
    if next(all_graphs(model.graph), None) is not None:
        found.append("QONNX ignores the bodies of If, Loop and Scan")
    overridable = sum(value.is_graph_input() for value in model.graph.initializers.values())
    if overridable:
        found.append(
            f"{count(overridable, 'initializer')} can be overridden as inputs, so that their data types are unknown: "
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
        found.append(f"QONNX needs type and shape of every tensor: {_some(unknown)} lack them")
    if dynamic:
        found.append(f"QONNX needs static shapes: {_some(dynamic)} have none")
    return found


def _some(values: Sequence[ir.Value]) -> str:
    names = ", ".join(f"'{value.name}'" for value in values[:_NAMED])
    return f"{count(values, 'tensor')} ({names}{', …' if len(values) > _NAMED else ''})"
