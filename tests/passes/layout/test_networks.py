"""Networks on images of others: how many transposes remain."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnx_passes
from tests.helpers.small_models import SMALL, named
from tests.helpers.thorough import some

PREPARED = (
    "remove-initializers-from-inputs, inline-functions, lift-constants, shape-inference, fold-constants, fold-shapes, "
    "fold-constants, together(eliminate), cleanup, shape-inference"
)
FOUND_AND_LEFT = {
    # An image goes in, and one comes out of some; products of a shape and heads of attention have their own order.
    "brevitas/small_cnv": (2, 3),
    "brevitas/small_separable": (1, 2),
    "brevitas/small_inception": (0, 2),
    "brevitas/small_unet": (0, 2),
    "brevitas/small_upsampled": (0, 2),
    "qcdq/small_separable__qcdq": (1, 2),
    "ort-quantized/small_cnn__qdq_s8s8_pc": (0, 1),
    "float/small_cnn": (0, 1),
    "float/small_mobile": (0, 2),
    "float/small_residual": (0, 2),
    "float/small_upsampler": (0, 2),
    "brevitas/bnnpynq_cnv_2w2a": (3, 4),
    "brevitas/inception_concat_w4a4": (1, 2),
    "brevitas/mobilenet_v1_4w4a_x025_96": (0, 1),
    "brevitas/resnet18_w8_4w4a": (0, 1),
    "brevitas/unet_convtranspose_w4a4": (0, 2),
    "brevitas/upsample_nearest_bilinear_w4a4": (0, 2),
    "brevitas/vit_tiny_w4a4_mnist": (27, 17),
    "float/dnsmos_model_v8": (2, 0),
    "float/efficientnet_mini__dy": (0, 1),
    "float/efficientnet_mini__ts": (0, 1),
    "float/onnx_light_densenet121": (0, 2),
    "float/onnx_light_inception_v2": (0, 1),
    "float/onnx_light_resnet50": (0, 1),
    "float/onnx_light_shufflenet": (16, 17),
    "float/onnx_light_squeezenet": (0, 2),
    "float/ppocrv2_cls": (0, 1),
    "float/ppocrv6_det_tiny": (0, 2),
    "qcdq/dwsep_cnn_w4a4_fashion__qcdq": (0, 1),
    "ort-quantized/cnn_fashion__qdq_s8s8_pc": (0, 1),
}


def is_one_of_many(name: str) -> bool:
    """Choose small networks, and every other one of the rest."""
    return name in SMALL or name in some([name for name in FOUND_AND_LEFT if name not in SMALL], every=2)


CHOSEN = {name: counts for name, counts in FOUND_AND_LEFT.items() if is_one_of_many(name)}


@pytest.mark.parametrize(("path", "found_and_left"), named(CHOSEN), indirect=["path"])
def test_transposes_that_remain(path: Path, found_and_left: tuple[int, int]):
    before = onnx_passes.apply(path, PREPARED, verify=False).model
    after = onnx_passes.apply(before, "convert-channels-last").model
    counts = [sum(node.op_type == "Transpose" for node in model.graph) for model in (before, after)]
    assert tuple(counts) == found_and_left
    images = ("Conv", "ConvTranspose", "MaxPool", "AveragePool")
    assert not [node for node in after.graph if node.domain == "" and node.op_type in images]
