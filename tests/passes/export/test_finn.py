"""One word for users of FINN."""

from __future__ import annotations

import pytest

import onnx_passes
from onnx_passes import examples
from tests.passes.tools import operators


@pytest.mark.parametrize("name", examples.NAMES)
def test_networks_become_what_finn_has_layers_for(name: str):
    result = onnx_passes.apply(examples.path(name), "fix-shapes{N=1}, finn")
    assert not [note for step in result.record.steps for note in step.notes if "splits the hardware" in note]
    assert set(operators(result.model.graph)) <= {
        *("Add", "Flatten", "GlobalAccPool", "Im2Col", "MatMul", "MaxPoolNHWC", "Mul", "MultiThreshold", "Reshape"),
        "Transpose",
    }
