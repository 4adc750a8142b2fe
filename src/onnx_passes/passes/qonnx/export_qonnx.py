"""Export a model in the dialect of QONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.datatypes import smallest_for_values
from onnx_passes.graph import annotations
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape, detach
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.wording import count, name_of
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, OUR_DOMAIN, Definition, definition_of
from onnx_passes.passes.qonnx.dialect import GENERAL, OPERATORS, USUAL_LAYOUTS, own_nodes, scopes
from onnx_passes.passes.qonnx.eject_ops import eject
from onnx_passes.passes.qonnx.import_qonnx import normalise
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


_LAYOUTS = {(2, 1): "NC", (3, 1): "NCW", (3, 2): "NWC", (4, 1): "NCHW", (4, 3): "NHWC"}
"""QONNX's layouts by rank and channel axis."""


@dataclass(frozen=True)
class QonnxThresholds:
    """Parameters of QONNX's MultiThreshold that is equivalent to ours."""

    rows: np.ndarray
    scale: float
    bias: float
    layout: str
    datatype: str

    def build(self, op: Builder, node: ir.Node) -> ir.Value:
        """Build the node of QONNX."""
        x, given = node.inputs[:2]
        if given is not None and static_shape(given) != self.rows.shape:
            given = op.initializer(self.rows, f"{given.name}_rows")
        return op.MultiThreshold(
            *(x, given),
            _domain=GENERAL,
            out_dtype=self.datatype,
            out_scale=self.scale,
            out_bias=self.bias,
            data_layout=self.layout,
        )


def qonnx_thresholds(definition: Definition, node: ir.Node) -> QonnxThresholds | str:
    """Return the thresholds of a node in QONNX; the reason if QONNX cannot express them."""
    x, given = node.inputs[0], node.inputs[1]
    shape, thresholds = static_shape(x), constant(given)
    weighted = node.inputs[2] if len(node.inputs) > 2 else None
    weights = np.ones(1, np.float32) if weighted is None else constant(weighted)
    if not isinstance(node.graph, ir.Graph):
        return "it is inside a function"
    if thresholds is None or weights is None:
        return "its thresholds or weights are not constant"
    if x is None or shape is None:
        return "the shape of its input is not known"
    if x.dtype is not ir.DataType.FLOAT or thresholds.dtype != np.float32 or weights.dtype != np.float32:
        return "its input, thresholds and weights are not all float32"
    if weights.size == 0 or (weights != weights.flat[0]).any():
        return "its steps differ in height"
    placed = _channels(thresholds.shape[:-1], len(shape))
    if placed is None:
        return "its thresholds vary along another axis than that of the channels"
    amount = thresholds.shape[-1]
    step = cast("np.float32", weights.flat[0])
    bias = np.float32(definition.checked(node)["out_bias"])
    counts = np.arange(amount + 1, dtype=np.float32)
    levels = step * counts + bias
    added = np.concatenate([[np.float32(0)], np.cumsum(np.full(amount, step))]) + bias
    if not np.array_equal(levels, added):
        return "its steps accumulate to other floats than step times count"
    channels, layout = placed
    rows = thresholds.reshape(channels, amount)
    return QonnxThresholds(rows, float(step), float(bias), layout, str(smallest_for_values(levels)))


def _channels(shape: tuple[int, ...], axes: int) -> tuple[int, str] | None:
    """Return the number of channels and the layout; None if the thresholds vary along other axes."""
    if len(shape) > axes:
        return None
    long = [axes - len(shape) + index for index, size in enumerate(shape) if size != 1]
    if not long:
        return 1, USUAL_LAYOUTS.get(axes, "")
    layout = _LAYOUTS.get((axes, long[0]))
    return (max(shape), layout) if len(long) == 1 and layout is not None else None


_WINDOWS = {
    (GENERAL, "MaxPoolNHWC"),
    *((domain, name) for domain in ("", CHANNELS_LAST_DOMAIN) for name in ("AveragePool", "MaxPool")),
    *((domain, name) for domain in ("", CHANNELS_LAST_DOMAIN) for name in ("Conv", "ConvTranspose")),
}
_EXPLICIT_PADDING = ("", "NOTSET")


def lacking(node: ir.Node) -> dict[str, ir.Attr]:
    """Return the missing attributes of a node that can be inferred."""
    operator = (node.domain, node.op_type)
    found: dict[str, ir.Attr] = {}
    if operator == (GENERAL, "MultiThreshold"):
        found = _layout(node)
    elif operator == (GENERAL, "Im2Col"):
        found = _input_shape(node)
    elif operator in _WINDOWS:
        found = _windows(node)
    return {name: attribute for name, attribute in found.items() if not _is_given(node.attributes.get(name))}


def _is_given(attribute: ir.Attr | None) -> bool:
    return attribute is not None and (attribute.is_ref() or bool(attribute.value))


def _layout(node: ir.Node) -> dict[str, ir.Attr]:
    """Return the layout, as versions of QONNX differ in its default."""
    layout = USUAL_LAYOUTS.get(rank(node.inputs[0]) or 0)
    return {} if layout is None else {"data_layout": ir.AttrString("data_layout", layout)}


def _input_shape(node: ir.Node) -> dict[str, ir.Attr]:
    shape = static_shape(node.inputs[0])
    return {} if shape is None else {"input_shape": ir.AttrString("input_shape", f"({','.join(map(str, shape))})")}


def _windows(node: ir.Node) -> dict[str, ir.Attr]:
    """Return explicit strides, padding and dilations, and the kernel size if the weights determine it."""
    kernel = node.attributes.get("kernel_shape")
    if kernel is not None and kernel.is_ref():
        return {}
    weights = static_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    own = (weights or ())[2:] if node.domain == "" else (weights or ())[1:-1]
    sizes = list(kernel.as_ints()) if kernel is not None and kernel.value else list(own)
    if not sizes:
        return {}
    wanted = {"kernel_shape": sizes, "strides": [1] * len(sizes)}
    if node.domain or node.attributes.get_string("auto_pad", "") in _EXPLICIT_PADDING:
        wanted["pads"] = [0] * 2 * len(sizes)
    if weights is not None or node.domain == CHANNELS_LAST_DOMAIN:
        wanted["dilations"] = [1] * len(sizes)
    found = {name: ir.AttrInt64s(name, numbers) for name, numbers in wanted.items()}
    return found | {"group": ir.AttrInt64("group", 1)} if weights is not None else found
