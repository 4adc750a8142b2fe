"""Thresholds, patches, pooling and bit products compute what QONNX computes, bit by bit; runs where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnx_passes.ops.channels_last import ChannelsLastBatchNormalization, ChannelsLastConv, ChannelsLastMaxPool
from onnx_passes.ops.definition import Definition
from onnx_passes.ops.im2col import Im2Col
from onnx_passes.ops.layout_converter import DebugMarker
from onnx_passes.ops.max_pool_nhwc import MaxPoolNHWC, QuantAvgPool2d
from onnx_passes.ops.multi_threshold import MultiThreshold
from onnx_passes.ops.xnor_popcount_matmul import XnorPopcountMatMul
from tests.ops.test_multi_threshold import awkward_thresholds, near
from tests.ops.tools import assert_computes, one_node

pytest.importorskip("qonnx")

OPSETS = (9, 10, 11, 12, 13, 18, 23)
Case = tuple[type[Definition], list[np.ndarray], dict[str, Any]]


class Draw:
    """Draws the parameters of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def whole(self, low: int, high: int, *shape: int) -> np.ndarray:
        return self.rng.integers(low, high, shape).astype(np.float32)

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        return [int(n) for n in self.rng.integers(low, high, count)]


def threshold_case(seed: int) -> Case:
    draw = Draw(seed)
    layout = draw.one_of("NC", "NCHW", "NHWC", "NWC", "NCW", "", "NCDHW")
    axes = len(layout) or draw.one_of(2, 3, 4, 5)
    guess = {2: "NC", 3: "NWC", 4: "NCHW"}.get(axes, "NC")
    shape = draw.numbers(axes, 1, 5)
    channels = draw.one_of(1, shape[(layout or guess).index("C")])
    thresholds = awkward_thresholds(draw.rng, (channels, draw.one_of(1, 2, 3, 15, 16, 17, 33, 63, 255)))
    attributes = {
        "out_dtype": "INT8",
        "out_scale": draw.one_of(1.0, 2.0, 0.1, -1.0),
        "out_bias": draw.one_of(0.0, -1.0, 0.5, -128.0, 0.1),
        "data_layout": layout,
    }
    return MultiThreshold, [near(draw.rng, thresholds, shape), thresholds], attributes


def im2col_case(seed: int) -> Case:
    draw = Draw(seed)
    kernel, dilations, stride = draw.numbers(2, 1, 4), draw.numbers(2, 1, 3), draw.numbers(2, 1, 4)
    height, width = (
        (d * (k - 1) + 1) + int(more) for d, k, more in zip(dilations, kernel, draw.numbers(2, 1, 6), strict=True)
    )
    channels = int(draw.rng.integers(1, 5))
    attributes = {
        "kernel_size": kernel,
        "stride": stride,
        "dilations": dilations,
        "pad_amount": draw.one_of([0, 0, 0, 0], draw.numbers(4, 0, 3)),
        "pad_value": draw.one_of(0, -1, 3),
        "input_shape": f"(1, {height}, {width}, {channels})",
        "depthwise": draw.one_of(0, 1),
    }
    return Im2Col, [draw.rng.standard_normal((1, height, width, channels), dtype=np.float32)], attributes


def xnor_case(seed: int) -> Case:
    draw = Draw(seed)
    rows, length, columns = draw.numbers(3, 1, 40)
    lead = draw.one_of((), (2,), (2, 3))
    return XnorPopcountMatMul, [draw.whole(0, 2, *lead, rows, length), draw.whole(0, 2, length, columns)], {}


def average_case(seed: int) -> Case:
    draw = Draw(seed)
    kernel, stride, bits = draw.one_of(1, 2, 3, 4, 7), draw.one_of(1, 2, 3), draw.one_of(2, 4, 8)
    signed, layout = draw.one_of(0, 1), draw.one_of("NCHW", "NHWC")
    size = [kernel + more for more in draw.numbers(2, 0, 5)]
    low = -(2 ** (bits - 1)) if signed else 0
    x = draw.whole(low, low + 2**bits, *((2, 3, *size) if layout == "NCHW" else (2, *size, 3)))
    attributes = {"kernel": kernel, "stride": stride, "ibits": bits, "obits": draw.one_of(2, 4, 8), "signed": signed}
    return QuantAvgPool2d, [x], attributes | {"data_layout": layout}


def pool_case(seed: int) -> Case:
    draw = Draw(seed)
    kernel, strides = draw.numbers(2, 1, 4), draw.numbers(2, 1, 4)
    pads = [draw.one_of(0, int(draw.rng.integers(0, k))) for k in kernel] * 2
    size = [k + more for k, more in zip(kernel, draw.numbers(2, 0, 6), strict=True)]
    x = draw.whole(-20, 20, 2, *size, 3)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return MaxPoolNHWC, [x], attributes | {"ceil_mode": draw.one_of(0, 1)}


def channels_last_pool_case(seed: int) -> Case:
    _, inputs, attributes = pool_case(seed)
    return ChannelsLastMaxPool, inputs, {key: given for key, given in attributes.items() if key != "ceil_mode"}


def conv_case(seed: int) -> Case:
    draw = Draw(seed)
    axes = draw.one_of(1, 2)
    group = draw.one_of(1, 1, 2)
    kernel, dilations, strides = draw.numbers(axes, 1, 4), draw.numbers(axes, 1, 3), draw.numbers(axes, 1, 3)
    size = [d * (k - 1) + 1 + more for d, k, more in zip(dilations, kernel, draw.numbers(axes, 0, 5), strict=True)]
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": group}
    x, weights = draw.whole(-9, 9, 2, *size, 2 * group), draw.whole(-9, 9, 3 * group, *kernel, 2)
    bias = draw.one_of([], [draw.whole(-9, 9, 3 * group)])
    return ChannelsLastConv, [x, weights, *bias], attributes | {"pads": draw.numbers(2 * axes, 0, 2)}


def normal_case(seed: int) -> Case:
    draw = Draw(seed)
    axes = draw.one_of(3, 4)
    x = draw.rng.standard_normal((*draw.numbers(axes - 1, 1, 5), 3), dtype=np.float32)
    scale, bias, mean = draw.rng.standard_normal((3, 3), dtype=np.float32)
    variance = draw.rng.uniform(0.1, 2, 3).astype(np.float32)
    return ChannelsLastBatchNormalization, [x, scale, bias, mean, variance], {"epsilon": 1e-5, "momentum": 0.9}


def marker_case(seed: int) -> Case:
    return DebugMarker, [Draw(seed).whole(-9, 9, 2, 3)], {"export_debug_name": "here"}


MAKERS = (
    threshold_case,
    im2col_case,
    xnor_case,
    average_case,
    pool_case,
    channels_last_pool_case,
    conv_case,
    normal_case,
    marker_case,
)


def by_qonnx(case: Case, shape: tuple[int, ...]) -> np.ndarray:
    """Let QONNX execute one node."""
    from qonnx.custom_op.registry import getCustomOp

    definition, inputs, attributes = case
    names = [f"i{number}" for number in range(len(inputs))]
    node = onnx.helper.make_node(definition.name, names, ["y"], domain=definition.domains[0], **attributes)
    graph = onnx.helper.make_graph([node], "graph", [], [])
    annotation = graph.quantization_annotation.add(tensor_name="i0")
    annotation.quant_parameter_tensor_names.add(key="finn_datatype", value="FLOAT32")
    context = dict(zip(names, inputs, strict=True)) | {"y": np.zeros(shape, np.float32)}
    version = 13 if definition.domains[0].endswith("channels_last") else 1
    getCustomOp(graph.node[0], onnx_opset_version=version).execute_node(context, graph)
    return context["y"]


@pytest.fixture(autouse=True)
def _old_files(monkeypatch: pytest.MonkeyPatch):
    """QONNX makes files of the newest version, which ONNX Runtime does not read yet."""
    make = onnx.helper.make_model

    def make_model(graph: Any, **given: Any) -> Any:
        return make(graph, **({"ir_version": 8} | given))

    monkeypatch.setattr(onnx.helper, "make_model", make_model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", MAKERS)
def test_computes_what_qonnx_computes(make: Any):
    for seed in range(120):
        case = make(seed)
        definition, (x, *others), attributes = case
        opset = 23 if attributes.get("ceil_mode") else OPSETS[seed % len(OPSETS)]
        model = one_node(definition, x, *others, opset=opset, fed=seed % 3 == 0, **attributes)
        shape = definition().compute([x, *others], definition().checked(model.graph[0])).shape
        expected = by_qonnx(case, shape).astype(np.float32)
        assert_computes(model, x, expected)
