from __future__ import annotations

import re

import pytest

from onnx_passes import passes
from onnx_passes.core.build import collect
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.registry import REGISTRY
from onnx_passes.legacy.names import _CLASSES, WRITTEN, written


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("ImportQONNX", "import-qonnx"),
        ("InlineQONNXQuant", "inline-qonnx"),
        ("InlineBatchNormalization", "inline-batch-normalization"),
        ("ConvToMatMul", "lower-conv"),
        ("ConvertVersion19", "convert-opset19"),
        ("ConvertRoundToThresholds", "infer-thresholds"),
        ("EliminateIdentityMul", "eliminate-neutral-element"),
        ("EliminateIdentitySlice", "eliminate-slice"),
        ("GroupBitwiseXor", "group-constants"),
        ("MoveTransposePastAdd", "move-transpose-down"),
        ("MoveTransposePastElementwiseUnary", "move-transpose-down"),
        ("MoveAddPastSlice", "move-selection-up"),
        ("ThresholdGranularityDecomposition", "decompose-thresholds"),
        ("VerifyTolerance", "verify"),
        ("Streamline", "streamline"),
    ],
)
def test_classes_of_0_4_name_what_does_their_work_now(former: str, now: str):
    assert REGISTRY.find(former).name == now
    assert passes.collect([former])[0]({}, {}).name


def test_all_that_stands_for_a_class_exists():
    for pattern, text in _CLASSES:
        name = re.sub(r"\\g<\w+>", lambda found: "19" if "version" in found[0] else "Slice", text)
        assert REGISTRY.find(name), pattern
    for text in WRITTEN.values():
        assert collect(text)


def test_names_of_now_are_not_renamed():
    own = [entry for entry in REGISTRY.entries() if entry.module.startswith("onnx_passes.")]
    assert [REGISTRY.find(entry.class_name).name for entry in own] == [entry.name for entry in own]


def test_unknown_names_stay_unknown():
    with pytest.raises(OnnxPassesError, match="no pass or group named 'MoveNothing'"):
        collect("MoveNothing")


def test_options_that_are_given_say_what_is_meant():
    assert written("lower-conv", "lower-conv", ()) == "lower-conv{im2col=true}"
    assert written("lower-conv", "lower-conv{im2col=false}", ()) == "lower-conv{im2col=false}"
    assert written("streamline", "streamline", {"Transpose"}) == "absorb-layouts, streamline"
    assert written("streamline", "streamline", {"MatMul"}) == "streamline"
