from __future__ import annotations

from onnx_passes.passes.cleanup.remove_unused import RemoveUnused
from tests.passes.tools import apply, check, model_of


def test_what_becomes_unused_goes_too():
    model = model_of(
        """g (float[2] x) => (float[2] y) { dead = local.f (x) y = Relu (x) }
        <domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Abs (a) }""",
        domains='"local" : 1',
    )
    assert apply(RemoveUnused(), model)
    assert len(model.graph) == 1
    assert not model.functions
    assert dict(model.opset_imports) == {"": 18}
    check(model)
