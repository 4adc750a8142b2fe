"""Recipes of QONNX operators on images: pooling of integers, and windows as rows."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.testing.fuzz.site import RECIPES, RecipeSite
from onnx_passes.testing.fuzz.values import Shape

_BITS = 4


def _image(site: RecipeSite) -> Shape:
    """Draw the shape of an image that fits windows of three pixels with stride two."""
    draws = site.draws
    return draws.number(1, 2), draws.number(5, 7), draws.number(5, 7), draws.number(1, 3)


def _average(site: RecipeSite) -> None:
    batch, height, width, channels = _image(site)
    layout = site.attribute("data_layout", ("NCHW", "NHWC"), default="NCHW")
    shape = (batch, channels, height, width) if layout == "NCHW" else (batch, height, width, channels)
    numbers = [site.draws.number(0, 2**_BITS - 1) for _ in range(batch * height * width * channels)]
    site.input(0, shape, values=np.array(numbers, np.float32).reshape(shape))
    for name, options in (("stride", (1, 2)), ("kernel", (1, 2, 3)), ("ibits", (_BITS,)), ("obits", (2, 4, 8))):
        site.attribute(name, options, optional=False)
    site.attribute("signed", (0,), optional=False)


def _windows(site: RecipeSite, kernel: str, stride: str) -> None:
    site.attribute(kernel, ([1, 1], [2, 2], [3, 2]), optional=False)
    site.attribute(stride, ([1, 1], [2, 1]), optional=False)


def _rows(site: RecipeSite) -> None:
    shape = _image(site)
    site.input(0, shape)
    _windows(site, "kernel_size", "stride")
    site.attribute("input_shape", (str(shape).replace(" ", ""),), optional=False)
    site.attribute("pad_amount", ([0, 0, 0, 0], [1, 0, 1, 1]), default=[0, 0, 0, 0])
    site.attribute("depthwise", (0, 1), default=0)


def _maximum(site: RecipeSite) -> None:
    site.input(0, _image(site))
    _windows(site, "kernel_shape", "strides")
    site.attribute("pads", ([0, 0, 0, 0],), optional=False)


RECIPES.attach({"Im2Col": _rows, "MaxPoolNHWC": _maximum, "QuantAvgPool2d": _average}, domains=GENERAL_DOMAINS)
