from __future__ import annotations

from onnx_passes.passes.cleanup.remove_unused_functions import RemoveUnusedFunctions
from tests.passes.tools import apply, check, model_of

FUNCTIONS = """
<domain: "local", opset_import: ["" : 18, "local" : 1]> direct (a) => (b) { b = local.nested (a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> nested (a) => (b) { b = Relu (a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> branch (a) => (b) { b = Abs (a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> unused (a) => (b) { b = local.also_unused (a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> also_unused (a) => (b) { b = Neg (a) }
"""


def test_keeps_what_is_called_directly_through_others_and_in_subgraphs():
    model = model_of(
        """g (bool k, float[2] x) => (float[2] y) {
          a = local.direct (x)
          y = If (k) <then_branch = t () => (float[2] r) { r = local.branch (a) },
                      else_branch = e () => (float[2] s) { s = Identity (a) }>
        }"""
        + FUNCTIONS,
        domains='"local" : 1',
    )
    assert apply(RemoveUnusedFunctions(), model)
    assert [name for _, name, _ in model.functions] == ["direct", "nested", "branch"]
    check(model)


def test_without_functions_nothing_changes():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    assert not apply(RemoveUnusedFunctions(), model)
