"""Where a version of an operator means something else than the one before: how the older one writes it, or why not.

Each entry is keyed by the operator and the version that brought the break, and is given the node as that version writes
it. What schemas tell (types, attributes and inputs that are new) is not here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx

from onnx_passes.ops.opsets.form import NodeForm

COUNTED_BACKWARDS_ALWAYS = frozenset({"Gather", "LpNormalization", "OneHot", "Scatter", "TopK"})
"""Operators that always took negative axes; others do since opset 11."""


def _softmax(form: NodeForm) -> None:
    """Move the axis to the end: before opset 13, all axes from the given one on were taken together."""
    axis = form.get("axis", -1)
    if axis == -1:
        form.set("axis", -1)
        return
    length = form.rank()
    axis %= length
    form.set("axis", length - 1)
    if axis == length - 1:
        return
    order = [*range(axis), *range(axis + 1, length), axis]
    moved = form.compute("Transpose", [form.input(0)], perm=order)
    result = form.compute(form.node.op_type, [moved], axis=length - 1)
    form.become("Transpose", [result], perm=[order.index(place) for place in range(length)])


def _batch_normalization(form: NodeForm) -> None:
    if form.get("training_mode", 0):
        form.refuse("it is in training mode")
    if any(name in form.used for name in form.node.output[1:]):
        form.refuse("its further outputs do not mean the same in both versions")


def _dropout(form: NodeForm) -> None:
    _mask(form)
    training = form.input(2)
    if training and (form.constant(2) is None or bool(form.constant(2))):
        form.refuse("it may be in training mode")
    form.set_inputs(list(form.node.input)[:2])
    # It decides nothing where nothing is dropped.
    form.drop("seed")


def _mask(form: NodeForm) -> None:
    if any(name in form.used for name in form.node.output[1:]):
        form.refuse("its mask does not mean the same in both versions")


def _clip(form: NodeForm) -> None:
    """Write missing bounds as infinities: before opset 11, infinities were clipped to the largest number."""
    for index, (name, bound) in enumerate((("min", -math.inf), ("max", math.inf)), start=1):
        if not form.input(index):
            form.set(name, bound)
    least, most = form.constant(1), form.constant(2)
    if least is not None and most is not None and (least > most).any():
        form.refuse("its bounds are the wrong way round")


def _pad_value(form: NodeForm) -> None:
    if form.input(2):
        value = float(form.required(2, "constant_value").reshape(-1)[0])
        if value != np.float32(value) and not math.isnan(value):
            form.refuse("'constant_value' is more precise than an attribute can be")
        form.set("value", value)
        form.set_inputs(list(form.node.input)[:2])


def _pad_axes(form: NodeForm) -> None:
    if not form.input(3):
        return
    length, axes, pads = form.rank(), form.required(3, "axes"), form.required(1, "pads")
    given, spread = pads.reshape(2, -1), np.zeros((2, length), np.int64)
    for index, axis in enumerate(axes.reshape(-1).tolist()):
        spread[:, axis % length] = given[:, index]
    form.set_inputs([form.input(0), form.hold(spread.reshape(-1)), form.input(2)])


def _pad_wrap(form: NodeForm) -> None:
    if form.get("mode", "constant") == "wrap":
        form.refuse("opset 18 does not pad in mode 'wrap'")


def _slice_steps(form: NodeForm) -> None:
    if form.input(4):
        steps = form.required(4, "steps")
        if (steps != 1).any():
            form.refuse(f"opset 9 has no steps (they are {steps.reshape(-1).tolist()})")
        form.set_inputs(list(form.node.input)[:4])


def _slice_axes(form: NodeForm) -> None:
    axes = form.constant(3)
    if axes is not None and (axes < 0).any():
        inputs = list(form.node.input)
        inputs[3] = form.hold(axes % np.array(form.rank(), axes.dtype))
        form.set_inputs(inputs)


def _top_k(form: NodeForm) -> None:
    form.set("k", int(form.required(1, "K").reshape(-1)[0]))
    form.set_inputs([form.input(0)])


def _reduce(form: NodeForm) -> None:
    """Without axes an older version reduces all of them."""
    axes, given = form.constant(1), form.input(1)
    if form.get("noop_with_empty_axes", 0) and (axes is None or not axes.size):
        form.refuse("noop_with_empty_axes is set, and there may be no axes")
    if given and axes is not None and not axes.size:
        form.set_inputs([form.input(0)])
    form.drop("noop_with_empty_axes")


def _split(form: NodeForm) -> None:
    """Name the sizes where the parts differ: the last one is smaller."""
    count = form.get("num_outputs")
    if count is None:
        return
    size = form.size(form.get("axis", 0))
    if size is None:
        form.refuse("it has num_outputs, and the size that it splits is not known")
    form.drop("num_outputs")
    if size % count:
        part = -(-size // count)
        sizes = [part] * (count - 1)
        form.set_inputs([form.input(0), form.hold(np.array([*sizes, size - sum(sizes)], np.int64))])


def _reshape(form: NodeForm) -> None:
    if form.get("allowzero", 0) and (form.required(1, "shape") == 0).any():
        form.refuse("it makes an axis of size 0 (allowzero)")
    form.drop("allowzero")


def _resize_axes(form: NodeForm) -> None:
    axes = form.get("axes")
    form.drop("axes")
    if axes is None or list(axes) == list(range(len(form.dims(0) or ()))):
        return
    length, inputs = form.rank(), [form.input(index) for index in range(4)]
    if inputs[1] and form.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        form.refuse("it crops some of the axes")
    if inputs[2]:
        scales = np.ones(length, np.float32)
        scales[list(axes)] = form.required(2, "scales")
        inputs[2] = form.hold(scales)
    elif inputs[3]:
        dims = form.dims(0) or []
        if any(size is None for place, size in enumerate(dims) if place not in [axis % length for axis in axes]):
            form.refuse("it names some of the axes, and the sizes of others are not known")
        sizes = np.array([size or 0 for size in dims], np.int64)
        sizes[list(axes)] = form.required(3, "sizes")
        inputs[3] = form.hold(sizes)
    form.set_inputs(inputs)


def _resize_symmetric(form: NodeForm) -> None:
    if form.get("coordinate_transformation_mode") == "half_pixel_symmetric":
        form.refuse("opset 18 does not resize in mode 'half_pixel_symmetric'")


def _resize_optional(form: NodeForm) -> None:
    """Write inputs that are left out as empty tensors."""
    empty = np.zeros(0, np.float32)
    inputs = [form.input(index) for index in range(4)]
    form.set_inputs([inputs[0], inputs[1] or form.hold(empty), inputs[2] or form.hold(empty), inputs[3]])


def _resize_coordinates(form: NodeForm) -> None:
    """Drop attributes that repeat opset 10: it rounds down where it enlarges, and up where it shrinks."""
    mode = form.get("mode", "nearest")
    coordinates = form.get("coordinate_transformation_mode", "half_pixel")
    rounding = form.get("nearest_mode", "round_prefer_floor")
    if coordinates != "asymmetric" or mode == "cubic":
        form.refuse(f"opset 10 does not resize in mode '{mode}' with coordinates '{coordinates}'")
    kept, scales = form.input(2), form.constant(2)
    if form.input(3):
        scales = _scales(form)
        kept = form.hold(scales)
    if mode == "nearest":
        fits = scales is not None and bool((scales >= 1).all() if rounding == "floor" else (scales <= 1).all())
        if not fits or rounding not in ("floor", "ceil"):
            form.refuse(f"opset 10 does not round so (nearest_mode is {rounding})")
    form.become("Resize", [form.input(0), kept], mode=mode)


def _scales(form: NodeForm) -> np.ndarray:
    """Return by which factors sizes are reached."""
    sizes, dims = form.constant(3), form.dims(0)
    if sizes is None or dims is None or None in dims:
        form.refuse("it is given sizes, which opset 10 does not take")
    given = np.array(dims, np.float32)
    scales = sizes.astype(np.float32) / given
    if (np.floor(scales * given) != sizes).any():
        form.refuse("it is given sizes that no scale yields exactly")
    return scales


def _resize_upsample(form: NodeForm) -> None:
    scales = form.required(1, "scales")
    if (scales < 1).any():
        form.refuse("opset 9 does not shrink")
    form.become("Upsample", list(form.node.input), mode=form.get("mode", "nearest"))


def _shape(form: NodeForm) -> None:
    """Slice the whole shape."""
    start, end = form.get("start", 0), form.get("end")
    form.drop("start", "end")
    if start == 0 and end is None:
        return
    bounds = [
        form.hold(np.array([bound], np.int64)) for bound in (start, np.iinfo(np.int64).max if end is None else end)
    ]
    whole = form.compute("Shape", [form.input(0)])
    form.become("Slice", [whole, *bounds, form.hold(np.array([0], np.int64))])


def _cast(form: NodeForm) -> None:
    """Drop attributes that only concern missing types, which are refused as such."""
    form.drop("saturate", "round_mode")


def _cast_like(form: NodeForm) -> None:
    dtype = form.dtype(1)
    if dtype is None:
        form.refuse("the type that it casts to is not known")
    form.become("Cast", [form.input(0)], to=dtype)


def _constant_kinds(form: NodeForm) -> None:
    """Write numbers as tensors."""
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", object)):
        for spelled in (f"value_{name}", f"value_{name}s"):
            value = form.get(spelled)
            if value is not None:
                texts = [text.encode() if isinstance(text, str) else text for text in np.atleast_1d(value).tolist()]
                array = np.array(texts if name == "string" else value, dtype)
                form.drop(spelled)
                form.set("value", onnx.numpy_helper.from_array(array.reshape(np.shape(value))))


def _quantize_channels(form: NodeForm) -> None:
    dims = form.dims(1)
    if dims is None or math.prod(size or 0 for size in dims) != 1:
        form.refuse("scales of channels need opset 13")
    form.drop("axis")


def _quantize_type(form: NodeForm) -> None:
    """Replace the output type by a zero point of that type."""
    dtype = form.get("output_dtype", 0)
    form.drop("output_dtype")
    if not dtype or form.input(2) or dtype == onnx.TensorProto.UINT8:
        return
    dims = form.dims(1)
    if dims is None or None in dims:
        form.refuse("it has an output_dtype, and the shape of its scale is not known")
    zero = np.zeros([size or 0 for size in dims], onnx.helper.tensor_dtype_to_np_dtype(dtype))
    form.set_inputs([form.input(0), form.input(1), form.hold(zero)])


def _dequantize_type(form: NodeForm) -> None:
    dtype = form.get("output_dtype", 0)
    if dtype in (0, form.dtype(1)):
        form.drop("output_dtype")


def _grid_sample(form: NodeForm) -> None:
    mode = form.get("mode", "linear")
    if form.rank() != 4:
        form.refuse("opset 19 samples two axes only")
    form.set("mode", {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def _group_normalization(form: NodeForm) -> None:
    form.refuse("scale and bias are those of channels, and opset 20 takes those of groups")


def _roi_align(form: NodeForm) -> None:
    mode = form.get("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        form.refuse(f"opset 15 has no coordinate_transformation_mode '{mode}'")
    form.drop("coordinate_transformation_mode")


def _dft(form: NodeForm) -> None:
    if not form.input(2):
        form.set("axis", form.rank() - 2)


def _no_dilations(form: NodeForm) -> None:
    if set(form.get("dilations", ())) <= {1}:
        form.drop("dilations")


def _average_pool(form: NodeForm) -> None:
    _no_dilations(form)
    if form.get("ceil_mode", 0) and form.get("count_include_pad", 0):
        form.refuse("opset 18 counts padding beyond the end (ceil_mode with count_include_pad)")


def _pool_in_padding(form: NodeForm) -> None:
    """Since opset 22, windows that start in the padding at the end are left out."""
    if not form.get("ceil_mode", 0):
        return
    kernel = form.get("kernel_shape")
    ones = [1] * len(kernel)
    dilations, strides, pads = (
        form.get("dilations", ones),
        form.get("strides", ones),
        form.get("pads", [0, 0] * len(kernel)),
    )
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    if any(pad + stride > size for pad, stride, size in zip(pads[len(kernel) :], strides, reach, strict=True)):
        form.refuse("opset 21 pools windows that start in the padding (ceil_mode)")


def _scatter_reduction(form: NodeForm) -> None:
    if form.get("reduction", "none") in ("max", "min"):
        form.refuse(f"opset 17 does not reduce by '{form.get('reduction')}'")


def _scatter_elements(form: NodeForm) -> None:
    form.node.op_type = "Scatter"


def _gather(form: NodeForm) -> None:
    """Count constant indices from the front; others were never checked."""
    indices = form.constant(1)
    if indices is None or not indices.size or indices.min() >= 0:
        return
    size = form.size(form.get("axis", 0))
    if size is None:
        form.refuse("negative indices need opset 11, and the size is not known")
    form.set_inputs([form.input(0), form.hold(indices % np.array(size, indices.dtype))])


def _one_hot(form: NodeForm) -> None:
    indices = form.constant(0)
    if indices is None or (indices < 0).any():
        form.refuse("its indices may be negative, which mean nothing below opset 11")


def _gemm(form: NodeForm) -> None:
    """Add negative zeros, which change nothing."""
    if not form.input(2):
        dtype = form.dtype(0)
        if dtype is None:
            form.refuse("opset 10 needs the input 'C', and the type is not known")
        held = form.hold(np.array([-0.0]).astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)))
        form.set_inputs([form.input(0), form.input(1), held])
        form.drop("beta")


def _conv_transpose(form: NodeForm) -> None:
    if form.get("auto_pad", "NOTSET").startswith("SAME") or form.get("output_shape") is not None:
        form.refuse("opset 10 pads the other side (auto_pad, output_shape)")


def _mod(form: NodeForm) -> None:
    dtype = form.dtype(0)
    kind = None if dtype is None else onnx.helper.tensor_dtype_to_np_dtype(dtype).kind
    if kind not in ("i", "u") and not form.get("fmod", 0):
        form.refuse("opset 27 takes integers only, unless fmod is set")


def _or_equal(strict: str) -> Callable[[NodeForm], None]:
    def rewrite(form: NodeForm) -> None:
        inputs = list(form.node.input)
        form.become("Or", [form.compute(strict, inputs), form.compute("Equal", inputs)])

    return rewrite


def _same_shapes(form: NodeForm) -> None:
    dims = [form.dims(index) for index in range(len(form.node.input))]
    if dims[0] is None or None in dims[0] or any(other != dims[0] for other in dims):
        form.refuse("opset 7 does not broadcast here")


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

BREAKS: dict[tuple[str, int], Callable[[NodeForm], None]] = {
    **{(name, 13): _softmax for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(f"Reduce{name}", 18): _reduce for name in _REDUCTIONS},
    **{(name, 8): _same_shapes for name in ("Max", "Mean", "Min", "Sum")},
    **{("Cast", version): _cast for version in (19, 24)},
    **{("CastLike", version): _cast for version in (19, 24)},
    ("AveragePool", 19): _average_pool,
    ("AveragePool", 22): _pool_in_padding,
    ("BatchNormalization", 14): _batch_normalization,
    ("CastLike", 15): _cast_like,
    ("Clip", 11): _clip,
    ("Constant", 12): _constant_kinds,
    ("ConvTranspose", 11): _conv_transpose,
    ("DFT", 20): _dft,
    ("DequantizeLinear", 13): _quantize_channels,
    ("DequantizeLinear", 23): _dequantize_type,
    ("Dropout", 10): _mask,
    ("Dropout", 12): _dropout,
    ("Gather", 11): _gather,
    ("Gemm", 11): _gemm,
    ("GreaterOrEqual", 12): _or_equal("Greater"),
    ("GridSample", 20): _grid_sample,
    ("GroupNormalization", 21): _group_normalization,
    ("LessOrEqual", 12): _or_equal("Less"),
    ("LpPool", 18): _no_dilations,
    ("MaxPool", 10): _no_dilations,
    ("MaxPool", 22): _pool_in_padding,
    ("Mod", 28): _mod,
    ("OneHot", 11): _one_hot,
    ("Pad", 11): _pad_value,
    ("Pad", 18): _pad_axes,
    ("Pad", 19): _pad_wrap,
    ("QuantizeLinear", 13): _quantize_channels,
    ("QuantizeLinear", 19): _cast,
    ("QuantizeLinear", 21): _quantize_type,
    ("ReduceSum", 13): _reduce,
    ("Reshape", 14): _reshape,
    ("Resize", 10): _resize_upsample,
    ("Resize", 11): _resize_coordinates,
    ("Resize", 13): _resize_optional,
    ("Resize", 18): _resize_axes,
    ("Resize", 19): _resize_symmetric,
    ("RoiAlign", 16): _roi_align,
    ("ScatterElements", 11): _scatter_elements,
    ("ScatterElements", 18): _scatter_reduction,
    ("ScatterND", 18): _scatter_reduction,
    ("Shape", 15): _shape,
    ("Slice", 10): _slice_steps,
    ("Slice", 11): _slice_axes,
    ("Split", 18): _split,
    ("TopK", 10): _top_k,
}
"""How to write what a version brought, by operator and version."""
