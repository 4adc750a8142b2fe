"""What several tests of this folder are given."""

import pytest

from onnx_passes.graph.external import MappedTensor


@pytest.fixture
def unread(monkeypatch):
    """Refuse to read mapped weights as a whole."""

    def refuse(self):
        raise AssertionError("the weight was read")

    monkeypatch.setattr(MappedTensor, "bytes", property(refuse))
    monkeypatch.setattr(MappedTensor, "numpy", refuse)
