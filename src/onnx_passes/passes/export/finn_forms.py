"""Convert integer operators to the forms from which FINN builds layers of hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.traits import is_product, traits_of
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import FINN_DOMAIN
from onnx_passes.passes.export.finn_annotations import is_window
from onnx_passes.passes.export.thresholds import is_threshold
from onnx_passes.passes.qonnx.dialect import USUAL_LAYOUTS
from onnx_passes.rewrite.editor import Editor, Rewrite

_IMAGE = 4
_WITH_AXES = 4
"""Number of inputs of a Slice with axes."""
_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
_FLOATS = "it is not of integers"
_FORK = "sums that several use"


class FinnSite:
    """A node to convert, and its context."""

    def __init__(self, r: Rewrite, node: ir.Node, ranges: Mapping[ir.Value, Range]) -> None:
        self.op, self.node, self._ranges = r.op, node, ranges

    @property
    def x(self) -> ir.Value:
        """Return the first input."""
        value = self.node.inputs[0]
        assert value is not None
        return value

    @property
    def is_lowered(self) -> bool:
        """Return whether windows slide over images anywhere: only then FINN removes flattening."""
        return self.node.graph is not None and any(node.op_type == "Im2Col" for node in self.node.graph)

    @property
    def is_of_integers(self) -> bool:
        """Return whether the first input holds integers."""
        known = self._ranges.get(self.x)
        return known is not None and known.integer_grid is not None

    def layer(self, operator: str, x: ir.Value, **attributes: Any) -> ir.Value:
        """Build a layer of FINN's library on a channels-last image."""
        shape = static_shape(x)
        assert shape is not None
        return self.op.op(operator, x, _domain=FINN_DOMAIN, backend="fpgadataflow", NumChannels=shape[-1], **attributes)


FinnForm = Callable[[FinnSite], "ir.Value | Sequence[ir.Value] | str"]
"""Builds the result of a node in FINN's form, or all results, or returns the reason why it cannot."""
FINN_FORMS: Interface[FinnForm] = Interface("finn_form", "the form from which FINN builds hardware")


def write_forms(model: ir.Model, editor: Editor) -> None:
    """Convert each operator to the form that FINN requires."""
    ranges = ranges_of(model)
    for node in tuple(editor.graph):
        form = FINN_FORMS.get(node)
        if form is None or editor.stopped:
            continue
        with editor.rewrite(f"FINN's form of {node.op_type}", node) as r:
            found = form(FinnSite(r, node, ranges))
            if isinstance(found, str):
                r.refuse(found, at=node)
            else:
                r.replace_all(dict(zip(node.outputs, [found] if isinstance(found, ir.Value) else found, strict=True)))


@FINN_FORMS.of("ReduceSum")
def _global_sum(site: FinnSite) -> ir.Value | str:
    """Sum pixels in a layer: FINN has one for sums, but would leave a float factor after averages."""
    node, shape = site.node, static_shape(site.x)
    axes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    result = static_shape(node.outputs[0])
    if axes is None or shape is None or result is None or len(shape) != _IMAGE:
        return "it is not of an image of known size, along constant axes"
    along = sorted(int(axis) % _IMAGE for axis in axes.reshape(-1))
    if along not in ([1, 2], [2, 3]):
        return "it is not along height and width"
    if not site.is_of_integers:
        return _FLOATS
    image = site.x if along == [1, 2] else site.op.Transpose(site.x, perm=_TO_LAST)
    *vectors, _ = sizes = [shape[axis] for axis in (range(_IMAGE) if along == [1, 2] else _TO_LAST)]
    image.shape = image.shape or ir.Shape(sizes)
    total = site.layer("GlobalAccPool", image, PE=1, numInputVectors=vectors)
    return total if list(result) == [sizes[0], 1, 1, sizes[3]] else site.op.Reshape(total, np.array(result, np.int64))


@FINN_FORMS.of("Resize")
def _upsample(site: FinnSite) -> ir.Value | str:
    """Repeat pixels in a layer, which FINN's own flow would only infer from a removed operator of ONNX."""
    node, shape, result = site.node, static_shape(site.x), static_shape(site.node.outputs[0])
    if shape is None or result is None or len(shape) != _IMAGE:
        return "it is not of an image of known size"
    if not site.is_of_integers:
        return _FLOATS
    if shape[0] != result[0] or shape[3] != result[3]:
        return "the image is not channels last"
    if any(large % small for large, small in zip(result[1:3], shape[1:3], strict=True)):
        return "the image does not grow by integer factors"
    if not _repeats(node):
        return "it does not repeat pixels"
    sizes = dict(zip(("HI", "WI", "HO", "WO"), (*shape[1:3], *result[1:3]), strict=True))
    return site.layer("UpsampleNearestNeighbour", site.x, SIMD=1, batchSize=shape[0], **sizes)


def _repeats(node: ir.Node) -> bool:
    """Return whether the interpolation repeats pixels, under any coordinate transformation."""
    attributes = node.attributes
    if attributes.get_string("mode", "nearest") != "nearest" or attributes.get_int("antialias", 0):
        return False
    where = attributes.get_string("coordinate_transformation_mode", "half_pixel")
    rounded = attributes.get_string("nearest_mode", "round_prefer_floor")
    return (where, rounded) == ("asymmetric", "floor") or (
        where in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
        and rounded in ("round_prefer_floor", "round_prefer_ceil")
    )


def _before_threshold(site: FinnSite) -> ir.Value | str:
    """Move data movement before the thresholds of an input: at the input, it needs no hardware."""
    before = site.x.producer()
    if before is None or not is_threshold(before) or len(site.x.uses()) > 1 or site.x.is_graph_output():
        return "it is not the only consumer of thresholds"
    source, thresholds = before.inputs
    shape, result = static_shape(thresholds), static_shape(site.node.outputs[0])
    if source is None or not source.is_graph_input():
        return "the thresholds are not those of an input"
    if shape is None or shape[0] != 1 or result is None:
        return "the thresholds vary by channel"
    layout = USUAL_LAYOUTS.get(len(result))
    if layout is None:
        return "QONNX has no layout for this rank"
    if len(result) == _IMAGE and not any(is_window(user) for user in site.node.successors()):
        layout = "NHWC"
    moved = site.op.like(site.node, [source, *site.node.inputs[1:]])
    copy_type_and_shape(site.node.outputs[0], moved)
    return site.op.like(before, [moved, thresholds], data_layout=layout)


def _reshaped(site: FinnSite) -> ir.Value | str:
    """Attach a reshape to a transposition that keeps the order of elements, as a reshape alone is not a layer."""
    moved = _before_threshold(site)
    sizes, result = static_shape(site.x), static_shape(site.node.outputs[0])
    if not isinstance(moved, str) or sizes is None or result is None:
        return moved
    if _is_at_the_input(site.node) or not site.node.successors() or len(sizes) < 2 or sizes[0] != 1:
        return "it is movement at an end of the network, or over several samples"
    if any(other.op_type == "Transpose" for other in (*site.node.predecessors(), *site.node.successors())):
        return "an adjacent transposition makes it a layer"
    if site.is_lowered and len(result) == 2 and result[0] == 1:
        return "FINN removes it"
    perm = [1, 0, *range(2, len(sizes))]
    turned = site.op.Transpose(site.x, perm=perm)
    turned.type, turned.shape = site.x.type, ir.Shape([sizes[axis] for axis in perm])
    return site.op.Reshape(turned, np.array(result, np.int64))


def _is_at_the_input(node: ir.Node) -> bool:
    """Return whether only movement lies between a node and the inputs."""
    return all(traits_of(before).kind == "movement" and _is_at_the_input(before) for before in node.predecessors())


FINN_FORMS.attach(dict.fromkeys(("Flatten", "Reshape"), _reshaped))


@FINN_FORMS.of("Split")
def _split(site: FinnSite) -> Sequence[ir.Value] | str:
    """Set the sizes of the results as an input, where FINN requires them."""
    sizes = [dimension(value, site.node.attributes.get_int("axis", 0)) for value in site.node.outputs]
    known = [size for size in sizes if size is not None]
    if len(site.node.inputs) > 1 or len(known) < len(sizes):
        return "the sizes of its results are given, or not known"
    kept = {name: given for name, given in site.node.attributes.items() if name != "num_outputs"}
    return site.op.Split(site.x, np.array(known, np.int64), _outputs=len(known), **kept)


@FINN_FORMS.of("Slice")
def _chosen_columns(site: FinnSite) -> ir.Value | str:
    """Compute only the selected columns of a product; each Slice gets its own product."""
    product, length = site.x.producer(), rank(site.x)
    weights = constant(product.inputs[1]) if product is not None and product.op_type == "MatMul" else None
    if product is None or weights is None or weights.ndim != 2:
        return "it does not slice a product with constant weights"
    if len(site.node.inputs) < _WITH_AXES:
        return "it does not name its axes"
    start, end, axes, *steps = map(constant, site.node.inputs[1:])
    if start is None or end is None or axes is None or length is None or axes.size != 1:
        return "it is not along one axis that is known"
    if int(axes.item()) % length != length - 1 or any(step is None or (step != 1).any() for step in steps):
        return "it is not along the channels, which come last, one by one"
    if any(user.op_type != "Slice" for user, _ in site.x.uses()) or site.x.is_graph_output():
        return "another node needs all columns"
    columns = np.ascontiguousarray(weights[:, int(start.item()) : int(end.item())])
    name = product.inputs[1].name if product.inputs[1] is not None else ""
    return site.op.MatMul(product.inputs[0], site.op.initializer(columns, f"{name}_columns"))


def part_thresholds(editor: Editor) -> None:
    """Separate thresholds from a product with other consumers, as FINN would merge both into one layer for all."""
    for node in tuple(editor.graph):
        if editor.stopped or not is_product(node) or not _is_read_by_thresholds_and_others(node):
            continue
        total = node.outputs[0]
        with editor.rewrite(_FORK, node) as r:
            again = r.op.like(node, node.inputs)
            again.name = f"{total.name}_sums"
            copy_type_and_shape(total, again)
            r.replace(total, r.op.Add(again, np.zeros(1, np.float32)))


def _is_read_by_thresholds_and_others(node: ir.Node) -> bool:
    total = node.outputs[0]
    users = [user for user, _ in total.uses()]
    return any(map(is_threshold, users)) and (len(users) > 1 or total.is_graph_output())
