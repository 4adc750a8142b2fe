"""Table of FINN's layers of hardware, to name nodes without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import count, name_of
from onnx_passes.ops.definition import FINN_DOMAIN
from onnx_passes.ops.quantizer import is_quantizer
from onnx_passes.passes.qonnx.dialect import GENERAL

_NO_LAYER = "FINN has no layer for it; quantize its result, so that it becomes thresholds, or make it the last node"
_QUANTIZER = "FINN has thresholds, not quantizers; see the note of infer-thresholds above"
_NOT_INTEGER = "FINN has it for integers, but an input is not: see the notes of check-streamlined"
_IMAGE = 4
_CHANNELS_LAST = (2, _IMAGE)
_SIZES = "its sizes are computed, but FINN needs static ones"


@dataclass(frozen=True)
class Candidate:
    """A node for which FINN may have a layer."""

    node: ir.Node
    is_lowered: bool
    """Whether windows slide over images anywhere: only then FINN removes flattening."""

    def is_integer(self, index: int = 0) -> bool:
        """Return whether an input is annotated as integers."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        datatype = None if value is None else datatype_of(value)
        return datatype is not None and datatype.is_integer


Objection = Callable[[Candidate], str]
"""Returns the reason why a node becomes no layer of hardware; empty if it does."""
FINN_LAYERS: Interface[Objection] = Interface("finn_layer", "when FINN has a layer of hardware for it")


def name_what_stays(graph: ir.Graph, context: Context) -> None:
    """Note each node that stays in software, with its position and the reason."""
    dynamic = [value for value in graph.inputs if static_shape(value) is None]
    if dynamic:
        context.note(f"FINN builds no hardware for '{dynamic[0].name}' of unknown size; {_hint(dynamic[0])}")
        return
    is_lowered = any(node.op_type == "Im2Col" for node in graph)
    reasons = {node: why_not(Candidate(node, is_lowered)) for node in graph}
    front, behind = _in_front(reasons), _behind(reasons)
    parting = 0
    for node, reason in reasons.items():
        if not reason or (node in front and traits_of(node).kind == "movement"):
            continue
        parts = node not in front and node not in behind
        parting += parts
        place = "splits the hardware" if parts else f"stays {'before' if node in front else 'after'} the hardware"
        context.note(f"{name_of(node)} {place}: {reason}")
    if parting:
        context.note(f"FINN builds one block of hardware, which {count(parting, 'node')} would split")


def _hint(value: ir.Value) -> str:
    names = [str(size) for size in value.shape or () if isinstance(size, ir.SymbolicDim) and size.value]
    return f"run fix-shapes{{{names[0]}=1}} first" if names else "give it a shape"


def why_not(candidate: Candidate) -> str:
    """Return the reason why FINN builds no hardware for a node; empty if it does."""
    node, objection = candidate.node, FINN_LAYERS.get(candidate.node)
    if node.domain.startswith(FINN_DOMAIN):
        return ""
    if objection is None:
        return _QUANTIZER if is_quantizer(node) else _NO_LAYER
    if any(static_shape(value) is None for value in (*node.inputs, *node.outputs) if value is not None):
        return _SIZES
    return objection(candidate)


def _in_front(reasons: dict[ir.Node, str]) -> set[ir.Node]:
    """Return the nodes that read nothing from hardware."""
    found: set[ir.Node] = set()
    for node, reason in reasons.items():
        if reason and all(before in found for before in node.predecessors()):
            found.add(node)
    return found


def _behind(reasons: dict[ir.Node, str]) -> set[ir.Node]:
    """Return the nodes whose results no hardware reads."""
    found: set[ir.Node] = set()
    for node in reversed(reasons):
        if reasons[node] and all(after in found for after in node.successors()):
            found.add(node)
    return found


def _always(candidate: Candidate) -> str:
    return ""


def _of_integers(candidate: Candidate) -> str:
    return "" if candidate.is_integer() else _NOT_INTEGER


def _product(candidate: Candidate) -> str:
    return "" if candidate.is_integer() and candidate.is_integer(1) else _NOT_INTEGER


def _convolution(candidate: Candidate) -> str:
    if rank(candidate.node.inputs[0]) != _IMAGE:
        return "FINN slides windows over two-dimensional images; give one-dimensional data a second axis of size 1"
    return _product(candidate) or "FINN multiplies matrices; lower-convs=true lowers convolutions where possible"


def _thresholds(candidate: Candidate) -> str:
    node, attributes = candidate.node, candidate.node.attributes
    rows, shape = static_shape(node.inputs[1]), static_shape(node.inputs[0])
    bias, datatype = attributes.get_float("out_bias", 0.0), datatype_of(node.outputs[0])
    if attributes.get_float("out_scale", 1.0) != 1 or not bias.is_integer():
        return "FINN counts in steps of one from an integer; streamline factors scales out of quantizers"
    if datatype is None or not datatype.is_integer or (float(datatype.min or 0) < 0 and bias >= 0):
        return "FINN needs a negative lowest level for signed results"
    if not is_constant(node.inputs[1]) or rows is None or shape is None:
        return "FINN needs constant thresholds"
    if len(shape) not in _CHANNELS_LAST and rows[0] > 1:
        return "FINN has per-channel thresholds for matrices and images, not for this rank"
    return ""


def _pooling(candidate: Candidate) -> str:
    kernel, strides = (candidate.node.attributes.get_ints(name) or () for name in ("kernel_shape", "strides"))
    if rank(candidate.node.inputs[0]) != _IMAGE:
        return "FINN pools two-dimensional images"
    if any(step > size for size, step in zip(kernel, strides, strict=False)):
        return "FINN pools windows without gaps"
    return _of_integers(candidate)


def _joined(candidate: Candidate) -> str:
    """Return the reason why channels cannot be concatenated or split."""
    axis, length = candidate.node.attributes.get_int("axis", 0), rank(candidate.node.outputs[0]) or 0
    values = [value for value in candidate.node.inputs if value is not None]
    if axis % max(length, 1) != length - 1:
        return "FINN concatenates and splits along the last axis only"
    if candidate.node.op_type == "Concat" and any(is_constant(value) for value in values):
        return "FINN concatenates computed values, not constants"
    return "" if candidate.is_integer() else _NOT_INTEGER


def _largest(candidate: Candidate) -> str:
    if candidate.node.outputs[0].uses() or candidate.node.outputs[0].is_graph_output():
        return "FINN returns the indices of the largest values, not the values; drop that result"
    return _of_integers(candidate)


def _reshape(candidate: Candidate) -> str:
    """Return the reason why a reshape is neither removed nor part of a layer that moves data."""
    before, after = candidate.node.predecessors(), candidate.node.successors()
    if any(other.op_type == "Transpose" for other in (*before, *after)):
        return ""
    given, result = static_shape(candidate.node.inputs[0]), static_shape(candidate.node.outputs[0])
    flattens = given is not None and result is not None and len(result) == 2 and given[:1] == result[:1]
    if flattens and candidate.is_lowered and before and after:
        return ""
    return "FINN reshapes next to a Transpose, or flattens images after convolutions"


def _rows(candidate: Candidate) -> str:
    is_held = constant(candidate.node.inputs[0]) is not None and candidate.node.attributes.get_int("axis", 0) == 0
    return "" if is_held and candidate.is_integer(1) else "FINN looks up rows of a constant, by integers"


def _cast(candidate: Candidate) -> str:
    return "FINN has no Cast; sums that need doubles are too wide for it: quantize to fewer bits"


def _norm(candidate: Candidate) -> str:
    axis, length = candidate.node.attributes.get_int("axis", -1), rank(candidate.node.inputs[0]) or 1
    return "" if axis % length == length - 1 else "FINN normalizes along the last axis"


FINN_LAYERS.attach(
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual"), _always),
        **dict.fromkeys(("Greater", "GreaterOrEqual", "Relu", "Softmax", "Transpose"), _always),
        **dict.fromkeys(("Concat", "Split"), _joined),
        **dict.fromkeys(("Flatten", "Reshape"), _reshape),
        **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
        "Cast": _cast,
        "Gather": _rows,
        "LayerNormalization": _norm,
        "MatMul": _product,
        "MaxPool": _pooling,
        "TopK": _largest,
    }
)
FINN_LAYERS.attach(
    {
        "Im2Col": _of_integers,
        "MaxPoolNHWC": _pooling,
        "MultiThreshold": _thresholds,
        "QuantAvgPool2d": _of_integers,
        "XnorPopcountMatMul": _product,
    },
    domains=(GENERAL,),
)
