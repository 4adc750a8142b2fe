from __future__ import annotations

from onnx_passes.passes.cleanup.remove_unused_opsets import RemoveUnusedOpsets
from tests.passes.tools import apply, check, model_of


def test_removes_imports_that_nothing_uses():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }", domains='"com.example" : 3, "other" : 1')
    assert apply(RemoveUnusedOpsets(), model)
    assert dict(model.opset_imports) == {"": 18}
    check(model)


def test_keeps_the_default_domain_though_nothing_uses_it():
    model = model_of("g (float[2] x) => (float[2] y) { y = other.Op (x) }", domains='"other" : 1')
    assert not apply(RemoveUnusedOpsets(), model)
    assert dict(model.opset_imports) == {"": 18, "other": 1}


def test_keeps_domains_of_subgraphs_and_of_functions_and_in_functions():
    model = model_of(
        """g (bool k, float[2] x) => (float[2] y) {
          y = If (k) <then_branch = t () => (float[2] r) { r = inner.Op (x) },
                      else_branch = e () => (float[2] s) { s = local.f (x) }>
        }
        <domain: "local", opset_import: ["" : 18, "used" : 1, "unused" : 1]> f (a) => (b) { b = used.Op (a) }""",
        domains='"inner" : 1, "local" : 1, "used" : 1, "unused" : 1',
    )
    assert apply(RemoveUnusedOpsets(), model)
    assert dict(model.opset_imports) == {"": 18, "inner": 1, "local": 1, "used": 1}
    assert dict(next(iter(model.functions.values())).opset_imports) == {"": 18, "used": 1}
    check(model)
