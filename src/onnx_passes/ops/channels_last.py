"""Standard operators for images whose channels come last: Conv, pooling and BatchNormalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.traits import TRAITS, Traits
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, Attribute, Call, Definition, Input, define
from onnx_passes.ops.max_pool_nhwc import MaxPoolNHWC, as_attributes, windows_of
from onnx_passes.ops.windows import SlidingWindows, channels_first, channels_last

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder

_AVERAGE_DILATIONS = 19
"""The first version in which AveragePool has dilations."""
_NO_AUTO_PAD = Attribute("auto_pad", "string", "pads are always given", default="NOTSET", choices=("NOTSET",))


@define
class ChannelsLastMaxPool(MaxPoolNHWC):
    """Take the maximum of each window: the standard MaxPool for channels last, over any number of axes.

    What is padded never is the maximum. Of windows with NaN, and of zeros of both signs, either may come out.
    """

    name = "MaxPool"
    domains = (CHANNELS_LAST_DOMAIN,)
    attributes = (*MaxPoolNHWC.attributes, _NO_AUTO_PAD)


@define
class ChannelsLastAveragePool(MaxPoolNHWC):
    """Take the mean of each window: the standard AveragePool for channels last, over any number of axes.

    What is padded counts only with ``count_include_pad``. The order in which elements are added is not fixed, so that
    results are the same everywhere where sums are exact.
    """

    name = "AveragePool"
    domains = (CHANNELS_LAST_DOMAIN,)
    attributes = (
        *MaxPoolNHWC.attributes,
        Attribute("count_include_pad", "int", "whether padding counts as zeros", default=0),
        _NO_AUTO_PAD,
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        windows = windows_of(attributes)
        axes = len(windows.kernel)
        counts = np.ones((1,) * (axes + 2), x.dtype)
        for axis, size in enumerate(x.shape[1:-1]):
            before, behind = windows.padding(axis)
            low, high = (0, before + size + behind) if attributes["count_include_pad"] else (before, before + size)
            place = windows.starts(axis, size)[:, None] + windows.offsets(axis)
            inside = np.sum((place >= low) & (place < high), axis=1, dtype=x.dtype)
            counts = counts * inside.reshape(-1, *(1,) * (axes - axis))
        return windows.of(x, 0).sum(axis=tuple(range(axes + 1, 2 * axes + 1))) / counts

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        axes = len(call["kernel_shape"]) + 2
        given = as_attributes(windows_of(call), op.opset, dilations_since=_AVERAGE_DILATIONS)
        if call["count_include_pad"]:
            given["count_include_pad"] = 1
        return channels_last(op, op.AveragePool(channels_first(op, call.x, axes), **given), axes)


@define
class ChannelsLastConv(Definition):
    """Convolve: the standard Conv for channels last, of the image ``[N, …, C]`` and the weights ``[M, …, C / group]``.

    The order in which products are added is not fixed, so that results are the same everywhere where sums are exact.
    """

    name = "Conv"
    domains = (CHANNELS_LAST_DOMAIN,)
    inputs = (
        Input("x", "the image, channels last"),
        Input("weights", "the kernels, channels last"),
        Input("bias", "what is added to each channel of the result", optional=True),
    )
    attributes = (
        Attribute("kernel_shape", "ints", "the size of kernels; that of the weights unless given", default=()),
        Attribute("strides", "ints", "the steps from window to window; 1 unless given", default=()),
        Attribute("pads", "ints", "zeros at the starts, then at the ends of axes; 0 unless given", default=()),
        Attribute("dilations", "ints", "the distances within a window; 1 unless given", default=()),
        Attribute("group", "int", "into how many groups channels fall", default=1),
        _NO_AUTO_PAD,
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, weights, *bias = inputs
        group = attributes["group"]
        windows = _kernel(attributes, weights.shape[1:-1], None)
        found = windows.of(x, 0)
        places = found.shape[: len(windows.kernel) + 1]
        rows = found.reshape(*places, -1, group, x.shape[-1] // group)
        kernels = weights.reshape(group, len(weights) // group, -1, weights.shape[-1])
        result = np.einsum("...kgc,gmkc->...gm", rows, kernels).reshape(*places, len(weights))
        return result + bias[0] if bias else result

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return self._lowered(op, call, op.Conv, {})

    def _lowered(self, op: Builder, call: Call, operator: Callable[..., ir.Value], more: dict[str, Any]) -> ir.Value:
        """Build the standard operator between transpositions."""
        given, bias, where = call.input(1), call.input(2), name_of(call.node)
        assert given is not None
        axes = _axes(call, given)
        shape = static_shape(given)
        windows = _kernel(call, None if shape is None else shape[1:-1], where)
        inputs = [channels_first(op, call.x, axes), channels_first(op, given, axes), *([] if bias is None else [bias])]
        convolved = operator(
            *inputs,
            kernel_shape=list(windows.kernel),
            strides=list(windows.strides),
            pads=list(windows.pads),
            dilations=list(windows.dilations),
            group=call["group"],
            **more,
        )
        return channels_last(op, convolved, axes)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer, for each window, as many channels as there are kernels."""
        x, weights = node.inputs[:2]
        if x is None or weights is None or x.shape is None or weights.shape is None:
            return
        attributes = self.checked(node)
        shape = static_shape(weights)
        if shape is not None or attributes["kernel_shape"]:
            windows = _kernel(attributes, None if shape is None else shape[1:-1], name_of(node))
            ctx.set_shape_and_dtype(node.outputs[0], windows.infer(ctx, x.shape, weights.shape[0]), x.dtype)


@define
class ChannelsLastConvTranspose(ChannelsLastConv):
    """Spread each place over a window: the standard ConvTranspose for channels last, weights ``[C, …, M / group]``.

    QONNX itself has no such operator. The order in which products are added is not fixed, so that results are the same
    everywhere where sums are exact.
    """

    name = "ConvTranspose"
    attributes = (
        *ChannelsLastConv.attributes,
        Attribute("output_padding", "ints", "places more at the ends of axes; 0 unless given", default=()),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, weights, *bias = inputs
        group, windows = attributes["group"], _kernel(attributes, weights.shape[1:-1], None)
        axes = range(len(windows.kernel))
        more = attributes["output_padding"] or (0,) * len(axes)
        sizes = [(x.shape[a + 1] - 1) * windows.strides[a] + windows.extent(a) + more[a] for a in axes]
        inner, features = x.shape[-1] // group, weights.shape[-1]
        whole = np.zeros((len(x), *sizes, group * features), x.dtype)
        grouped = x.reshape(*x.shape[:-1], group, inner)
        kernels = weights.reshape(group, inner, *weights.shape[1:])
        for tap in np.ndindex(*windows.kernel):
            part = np.einsum("...gc,gcm->...gm", grouped, kernels[(slice(None), slice(None), *tap)])
            starts = [tap[a] * windows.dilations[a] for a in axes]
            places = tuple(
                slice(start, start + x.shape[a + 1] * windows.strides[a], windows.strides[a])
                for a, start in enumerate(starts)
            )
            whole[(slice(None), *places)] += part.reshape(*x.shape[:-1], -1)
        inside = tuple(slice(windows.padding(a)[0], sizes[a] - windows.padding(a)[1]) for a in axes)
        result = whole[(slice(None), *inside)]
        return result + bias[0] if bias else result

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        more = call["output_padding"]
        return self._lowered(op, call, op.ConvTranspose, {"output_padding": list(more)} if more else {})

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer, for each place, as many places as the steps between windows."""
        x, weights = node.inputs[:2]
        if x is None or weights is None or x.shape is None or weights.shape is None:
            return
        attributes, shape = self.checked(node), static_shape(weights)
        if shape is None and not attributes["kernel_shape"]:
            return
        windows = _kernel(attributes, None if shape is None else shape[1:-1], name_of(node))
        if len(x.shape) != len(windows.kernel) + 2:
            return
        more = attributes["output_padding"] or (0,) * len(windows.kernel)
        sizes = [
            size * windows.strides[axis]
            + (windows.extent(axis) - windows.strides[axis] - sum(windows.padding(axis)) + more[axis])
            for axis, size in enumerate(list(x.shape)[1:-1])
        ]
        depth, group = weights.shape[-1], attributes["group"]
        channels = depth * group if isinstance(depth, int) else ctx.new_symbolic_dim()
        ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([x.shape[0], *sizes, channels]), x.dtype)


@define
class ChannelsLastBatchNormalization(Definition):
    """Normalize each channel: the standard BatchNormalization for channels last.

    ``scale / sqrt(variance + epsilon) * (x - mean) + bias``, rounded as the engine does.
    """

    name = "BatchNormalization"
    domains = (CHANNELS_LAST_DOMAIN,)
    inputs = (
        Input("x", "the values, channels last"),
        Input("scale", "of each channel"),
        Input("bias", "of each channel"),
        Input("mean", "of each channel"),
        Input("variance", "of each channel"),
    )
    attributes = (
        Attribute("epsilon", "float", "what is added to the variance", default=1e-5),
        Attribute("momentum", "float", "for training, without effect here", default=0.9),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, scale, bias, mean, variance = inputs
        number = x.dtype.type
        factor = scale * (number(1) / np.sqrt(variance + number(attributes["epsilon"])))
        return x * factor + (bias - mean * factor)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        axes = _axes(call)
        others = [call.input(index) for index in range(1, 5)]
        normal = op.BatchNormalization(channels_first(op, call.x, axes), *others, epsilon=call["epsilon"])
        return channels_last(op, normal, axes)


def _axes(call: Call, other: ir.Value | None = None) -> int:
    """Return how many axes there are, as far as the values tell."""
    axes = rank(call.x) or rank(other)
    if axes is None:
        raise ModelError("the number of axes of x is not known", where=name_of(call.node), hint="infer shapes first")
    return axes


def _kernel(attributes: Mapping[str, Any] | Call, shape: Sequence[int] | None, where: str | None) -> SlidingWindows:
    """Return the windows that kernels of a shape slide over."""
    given = attributes["kernel_shape"]
    if shape is not None and given and tuple(shape) != given:
        raise ModelError(f"kernel_shape is {list(given)}, but that of the weights is {list(shape)}", where=where)
    if shape is None and not given:
        raise ModelError("the size of kernels has to be known", where=where, hint="give kernel_shape")
    return SlidingWindows(tuple(shape or given), attributes["strides"], attributes["pads"], attributes["dilations"])


TRAITS.of(ChannelsLastConv, ChannelsLastConvTranspose)(Traits("product", expensive=True))
