"""The law of padding before convolutions and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, number
from onnx_passes.graph.shapes import rank
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : 18]> g (float[{batch},2,{4 + size},{width}] x, float[3,2,3,3] w) => (
        float[?,?,?,?] a, float[?,?,?,?] b, float[?,?,?,?] c, float[?,?,?,?] d)
    <int64[8] p = {{0,0,{size},1,0,0,1,{size}}}, int64[4] s = {{{size},1,0,{size}}}, int64[2] axes = {{-2,3}},
     float lowest = {{-inf}}, float zero = {{0}}> {{
        p0 = Pad (x, p) a = Conv <strides = [{1 + size},1]> (p0, w)
        p1 = Pad (x, p, lowest) b = MaxPool <kernel_shape = [3,3]> (p1)
        p2 = Pad (x, s, zero, axes) c = AveragePool <kernel_shape = [3,3], strides = [1,{1 + size}]> (p2)
        p3 = Pad (x, p) d = LpPool <kernel_shape = [3,3], p = {1 + size}> (p3)
    }}"""
    for size in range(3)
    for batch in (1, 2)
    for width in (3, 5)
)


def _padding_itself(op: Builder, node: ir.Node, pad: ir.Node, x: ir.Value) -> Rewritten:
    if len(pad.outputs[0].uses()) > 1:
        return no("the padded input has two uses", at=pad.outputs[0])
    dims = rank(x)
    added = _padding(pad, dims)
    if isinstance(added, Refusal):
        return added
    fill = _fill(pad, x)
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID") or node.attributes.get_int("ceil_mode", 0):
        return no("the window pads or rounds up by itself", at=node)
    own = [0] * len(added) if mode == "VALID" else list(node.attributes.get_ints("pads", ())) or [0] * len(added)
    wanted = -np.inf if node.op_type == "MaxPool" else 0.0
    if fill is None or fill != wanted:
        return no(f"{node.op_type} does not pad with that value", at=pad)
    pads = [a + b for a, b in zip(own, added, strict=True)]
    changed: dict[str, Any] = {"pads": pads, "auto_pad": None}
    if node.op_type != "Conv":
        kernel = node.attributes.get_ints("kernel_shape", ())
        if any(size >= window for size, window in zip(pads, [*kernel, *kernel], strict=True)):
            return no("a window would contain only padding", at=node)
    if node.op_type == "AveragePool":
        if any(own) and not node.attributes.get_int("count_include_pad", 0):
            return no("the average has padding that it does not count", at=node)
        changed["count_include_pad"] = 1
    return op.like(node, [x, *node.inputs[1:]], **changed)


def _padding(pad: ir.Node, dims: int | None) -> list[int] | Refusal:
    """Return the padding of the spatial axes: all beginnings, then all ends."""
    if pad.attributes.get_string("mode", "constant") != "constant":
        return no("the padding is not constant", at=pad)
    sizes, axes = constant(pad.inputs[1]), pad.inputs[3] if len(pad.inputs) > 3 else None
    chosen = None if axes is None else constant(axes)
    if dims is None or dims < 3 or sizes is None or (axes is not None and chosen is None):
        return no("the amount of padding is not known", at=pad)
    begins, ends = np.zeros(dims, np.int64), np.zeros(dims, np.int64)
    places = np.arange(dims) if chosen is None else chosen
    begins[places], ends[places] = np.split(sizes, 2)
    if begins[:2].any() or ends[:2].any() or (begins < 0).any() or (ends < 0).any():
        return no("the padding is negative, or not only of spatial axes", at=pad)
    return [int(size) for size in (*begins[2:], *ends[2:])]


def _fill(pad: ir.Node, x: ir.Value) -> float | None:
    """Return the padding value; the lowest number of a type counts as minus infinity."""
    value = pad.inputs[2] if len(pad.inputs) > 2 else None
    found = 0.0 if value is None else number(value, x)
    if found is not None and x.dtype is not None and x.dtype.is_integer() and found == x.dtype.min:
        return -np.inf
    return found


_law = Vocabulary(_padding_itself).law


@passes.verify.tolerance
@passes.register("fuse")
class FusePad(LawPass):
    """Fold padding into the convolution or pooling that follows.

    Rewrites: ``Conv(Pad(x, p, 0), w)`` → ``Conv<pads>(x, w)``, also for ``LpPool``, ``AveragePool`` (which then counts
              the padding), and ``MaxPool`` after padding with the lowest number.
    Refuses:  other values and modes; padding that is not constant, is negative, or not only of spatial axes;
              ``auto_pad`` and ``ceil_mode``; pooling whose padding would reach the size of its window; an average that
              has padding of its own and does not count it; padding that is used elsewhere.
    Exactness: rounding, as kernels may sum in another order.
    """

    fast_math = ("nnan", "nsz", "reassoc")
    fuzz_hints = hints(*_SAMPLES)
    laws = tuple(
        _law(f"{f}(padded := Pad(x, pads, ...), ...) → padding_itself(result, padded, x)")
        for f in ("Conv", "MaxPool", "AveragePool", "LpPool")
    )
