"""Recipes of operators that compute along axes: matrix products, convolutions, pooling, reductions, normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.draws import UnbuildableError
from onnx_passes.testing.fuzz.movement import axis_of, shape_of, some_axes
from onnx_passes.testing.fuzz.site import RECIPES, RecipeSite
from onnx_passes.testing.fuzz.values import Shape

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def _matmul(site: RecipeSite) -> None:
    want, draws = site.want, site.draws
    inner = shapes.dim(draws)
    left: Shape
    right: Shape
    if len(want) == 0:
        left, right = (inner,), (inner,)
    elif len(want) == 1:
        left, right = draws.choose("vector", (((inner,), (inner, want[0])), ((want[0], inner), (inner,))))
    else:
        left = (*want[:-1], inner)
        right = (*shapes.part(draws, want[:-2]), inner, want[-1])
    if not site.is_computed(0) and site.is_computed(1):
        actual = shape_of(site, 1, right)
        rows = actual[-2:-1] or actual
        site.input(0, (*left[:-1], *rows))
        return
    actual = shape_of(site, 0, left)
    if not actual:
        raise UnbuildableError("MatMul takes no scalars")
    known = (*right[:-2], actual[-1], right[-1]) if len(right) > 1 else (actual[-1],)
    if shapes.broadcast([actual[:-2], known[:-2]]) is None:
        known = known[-2:]
    site.input(1, known)


def _agreeing_bits(site: RecipeSite) -> None:
    inner = max(1, shapes.dim(site.draws))
    rows, columns = (*site.want[-2:], 2, 3)[:2] if len(site.want) >= 2 else (2, 3)
    for index, shape in enumerate(((rows, inner), (inner, columns))):
        bits = [site.draws.number(0, 1) for _ in range(shape[0] * shape[1])]
        site.input(index, shape, values=np.array(bits, np.float32).reshape(shape))


def _gemm(site: RecipeSite) -> None:
    m, n = (*site.want[-2:], 2, 3)[:2] if len(site.want) >= 2 else (2, 3)
    k = shapes.dim(site.draws)
    left, right = site.attribute("transA", (0, 1), default=0), site.attribute("transB", (0, 1), default=0)
    for name in ("alpha", "beta"):
        site.attribute(name, (1.0, 2.0, 0.5, 0.0), default=1.0)
    a = shape_of(site, 0, (k, m) if left else (m, k))
    if len(a) != 2:
        raise UnbuildableError("Gemm takes matrices only")
    m, k = (a[1], a[0]) if left else (a[0], a[1])
    b = shape_of(site, 1, (n, k) if right else (k, n))
    n = b[0 if right else 1] if len(b) == 2 else n
    bias = site.draws.choose("bias", ((n,), (m, n), (1,), (), (m, 1), (1, n)))
    site.input(2, bias)


def _windows(site: RecipeSite, spatial: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Choose kernel, strides, dilations and pads of a window."""
    draws = site.draws
    kernel = [draws.choose("kernel", (1, 2, 3)) for _ in range(spatial)]
    kernel = list(_fixed(site, "kernel_shape") or kernel)
    mode = site.attribute("auto_pad", ("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), default="NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    strides = site.attribute("strides", ([1] * spatial, [2] * spatial, [1, 2, 1][:spatial]), default=[1] * spatial)
    dilations = [1] * spatial
    if "dilations" in (site.op.signature.attributes if site.op.signature else ()):
        dilations = site.attribute("dilations", ([1] * spatial, [2] * spatial), default=[1] * spatial)
    pads = [0] * (2 * spatial)
    if mode == "NOTSET":
        some = [draws.choose("padding", (0, 1)) if kernel[i % spatial] > 1 else 0 for i in range(2 * spatial)]
        pads = site.attribute("pads", (pads, some, [1 if k > 1 else 0 for k in kernel] * 2), default=pads)
    if not (len(strides) == len(dilations) == len(kernel) == spatial and len(pads) == 2 * spatial):
        raise UnbuildableError("window of another rank")
    return kernel, list(strides), list(dilations), list(pads)


def _fixed(site: RecipeSite, name: str) -> Any:
    return getattr(site.op.pattern.attributes.get(name), "value", None)


def _image(site: RecipeSite, minimum: int = 3) -> Shape:
    """Return a wanted shape for an image, from the wanted result if that is one."""
    if len(site.want) >= minimum:
        return site.want
    spatial = site.draws.choose("image rank", (2, 1))
    return (1, 2, *(4 + site.draws.number(0, 1) for _ in range(spatial)))


def _grown(want: Shape, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]) -> Shape:
    spatial = len(kernel)
    return tuple(
        max(1, (max(1, size) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + spatial])
        for i, size in enumerate(want)
    )


def _conv(site: RecipeSite) -> None:
    known = site.known(0)
    want = _image(site) if known is None or len(known) < 3 else known
    kernel, strides, dilations, pads = _windows(site, len(want) - 2)
    group = site.attribute("group", (1, 1, 2), default=1)
    channels = group * site.draws.number(1, 2)
    hint = (want[0], channels, *_grown(want[2:], kernel, strides, dilations, pads))
    actual = shape_of(site, 0, hint if known is None else known)
    if len(actual) != len(want) or actual[1] % group:
        raise UnbuildableError("no image")
    features = group * site.draws.number(1, 2) if want[1] % group or not want[1] else want[1]
    weights = shape_of(site, 1, (features, actual[1] // group, *kernel))
    if "kernel_shape" in site.op.pattern.attributes or site.draws.often("kernel_shape", percent=30):
        site.attribute("kernel_shape", (list(weights[2:]),))
    site.input(2, weights[:1])


def _conv_transpose(site: RecipeSite) -> None:
    want = _image(site)
    kernel, _, _, _ = _windows(site, len(want) - 2)
    group = site.attribute("group", (1, 1, 2), default=1)
    actual = shape_of(site, 0, (want[0], group * site.draws.number(1, 2), *want[2:]))
    if len(actual) != len(want) or actual[1] % group:
        raise UnbuildableError("no image")
    weights = shape_of(site, 1, (actual[1], site.draws.number(1, 2), *kernel))
    site.input(2, (weights[1] * group,))


def _pool(site: RecipeSite) -> None:
    known = site.known(0)
    want = _image(site) if known is None or len(known) < 3 else known
    kernel, strides, dilations, pads = _windows(site, len(want) - 2)
    site.attribute("kernel_shape", (kernel,), optional=False)
    site.attribute("ceil_mode", (0, 1), default=0)
    if site.op.op_type == "AveragePool":
        site.attribute("count_include_pad", (0, 1), default=0)
    hint = (*want[:2], *_grown(want[2:], kernel, strides, dilations, pads))
    actual = shape_of(site, 0, hint if known is None else known)
    if len(actual) != len(want):
        raise UnbuildableError("no image")


def _global_pool(site: RecipeSite) -> None:
    site.input(0, _image(site))


def _reduce(site: RecipeSite) -> None:
    draws = site.draws
    keep = site.attribute("keepdims", (1, 0), default=1)
    known = site.known(0)
    wide = list(site.want)
    axes = some_axes(site, len(wide)) if wide else []
    if keep:
        for axis in axes:
            wide[axis] = shapes.dim(draws)
    else:
        wide.insert(draws.number(0, len(wide)), shapes.dim(draws))
    actual = shape_of(site, 0, tuple(wide) if known is None else known)
    axes = some_axes(site, len(actual)) if actual else []
    as_attribute = site.op.signature is not None and "axes" in site.op.signature.attributes
    if as_attribute:
        site.attribute("axes", (axes,))
    elif site.has(1):
        empty = draws.often("no axes", percent=10)
        if empty:
            axes = []
        site.input(1, (len(axes),), values=np.array(axes, np.int64))
        site.attribute("noop_with_empty_axes", (0, 1), default=0)


def _along_axis(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (2,))
    axis_of(site, len(actual), default=-1)


def _arg(site: RecipeSite) -> None:
    keep = site.attribute("keepdims", (1, 0), default=1)
    hint = site.want if keep and site.want else (*site.want, 3)
    axis_of(site, len(shape_of(site, 0, hint)))


def _cumsum(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (2,))
    if not actual:
        raise UnbuildableError("no axis")
    axis = site.draws.choose("axis", [*range(len(actual)), *range(-len(actual), 0)])
    site.input(1, (), values=np.array(axis, np.int64))


def _topk(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (3,))
    axis = axis_of(site, len(actual), default=-1)
    site.input(1, (1,), values=np.array([site.draws.number(0, actual[axis])], np.int64))


def _batch_norm(site: RecipeSite) -> None:
    want = site.want if len(site.want) >= 2 else (2, 3)
    actual = shape_of(site, 0, want)
    if len(actual) < 2:
        raise UnbuildableError("no channels")
    for index in (1, 2, 3):
        site.input(index, (actual[1],), recipe="positive" if index == 1 and site.draws.number(0, 1) else None)
    site.input(4, (actual[1],), recipe="positive")
    site.attribute("epsilon", (1e-5, 0.1, 1e-3, 0.0), default=1e-5)
    site.attribute("training_mode", (0,), default=0)
    site.attribute("momentum", (0.9, 0.5), default=0.9)


def _channel_norm(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want if len(site.want) >= 3 else (1, 2, 3))
    if len(actual) < 2:
        raise UnbuildableError("no channels")
    site.input(1, (actual[1],))
    site.input(2, (actual[1],))


def _layer_norm(site: RecipeSite) -> None:
    actual = shape_of(site, 0, site.want or (2, 3))
    axis = axis_of(site, len(actual), default=-1)
    site.input(1, actual[axis:])
    site.input(2, actual[axis:])


RECIPES.attach(
    {
        **{f"Reduce{name}": _reduce for name in _REDUCTIONS},
        "ArgMax": _arg,
        "ArgMin": _arg,
        "AveragePool": _pool,
        "BatchNormalization": _batch_norm,
        "Conv": _conv,
        "ConvInteger": _conv,
        "ConvTranspose": _conv_transpose,
        "CumSum": _cumsum,
        "Gemm": _gemm,
        "GlobalAveragePool": _global_pool,
        "GlobalMaxPool": _global_pool,
        "Hardmax": _along_axis,
        "InstanceNormalization": _channel_norm,
        "LayerNormalization": _layer_norm,
        "LogSoftmax": _along_axis,
        "LpNormalization": _along_axis,
        "LpPool": _pool,
        "MatMul": _matmul,
        "MatMulInteger": _matmul,
        "MaxPool": _pool,
        "Softmax": _along_axis,
        "TopK": _topk,
    }
)
RECIPES.attach({"XnorPopcountMatMul": _agreeing_bits}, domains=GENERAL_DOMAINS)
