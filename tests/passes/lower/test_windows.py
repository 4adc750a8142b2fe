from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.passes.lower.windows import PADDING, windows_of
from onnx_passes.rewrite.refusal import Refusal
from tests.passes.tools import model_of


def window(attributes: str, size: int = 4, kernel: int = 2) -> list[list[int]]:
    model = model_of(f"""g (float[1,1,{size}] x) => (float[?,?,?] y)
        {{ y = MaxPool <kernel_shape = [{kernel}]{attributes}> (x) }}""")
    (node,) = model.graph
    x = node.inputs[0]
    assert isinstance(x, ir.Value)
    found = windows_of(x, node, [kernel])
    assert not isinstance(found, Refusal)
    return found[0].places.tolist()


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", [[0, 1], [1, 2], [2, 3]]),
        (", strides = [2]", [[0, 1], [2, 3]]),
        (", dilations = [3]", [[0, 3]]),
        (", pads = [1,0]", [[PADDING, 0], [0, 1], [1, 2], [2, 3]]),
        (', auto_pad = "SAME_UPPER"', [[0, 1], [1, 2], [2, 3], [3, PADDING]]),
        (', auto_pad = "SAME_LOWER"', [[PADDING, 0], [0, 1], [1, 2], [2, 3]]),
        (", strides = [3], ceil_mode = 1", [[0, 1], [3, PADDING]]),
        (", strides = [3], ceil_mode = 0", [[0, 1]]),
    ],
)
def test_where_windows_look(attributes: str, expected: list[list[int]]):
    assert window(attributes) == expected


def test_the_same_padding_with_a_stride():
    found = window(', strides = [2], auto_pad = "SAME_UPPER"', 5, 3)
    assert found == [[PADDING, 0, 1], [1, 2, 3], [3, 4, PADDING]]
