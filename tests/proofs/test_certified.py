"""Applications of rules that are certified are proved, if what they are applied to is in the domain."""

from __future__ import annotations

import pytest

from onnx_passes import apply
from onnx_passes.graph.text import from_text
from onnx_passes.proofs import rule_certificate

MODEL = """<ir_version: 10, opset_import: ["" : {opset}]>
g ({type}{shape} x) => ({type}{shape} y) {{ n = Neg (x) y = Neg (n) }}
"""


def proofs(element: str = "float", shape: str = "[3]", opset: int = 18):
    model = from_text(MODEL.format(opset=opset, type=element, shape=shape), "model")
    result = apply(model, "eliminate-involution")
    return [proof for step in result.record.steps for proof in step.proofs]


def test_in_the_domain() -> None:
    [proof] = proofs()
    assert proof.level == "bits:proved"
    assert any("certificate" in fact for fact in proof.facts)


@pytest.mark.parametrize("outside", [{"shape": "[1,1,1,1,1,2]"}, {"opset": 12}])
def test_outside_of_the_domain(outside: dict[str, object]) -> None:
    [proof] = proofs(**outside)  # pyright: ignore[reportArgumentType]
    assert proof.level != "bits:proved"


def test_changed_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_certificate, "module_digest", lambda name: "changed")
    monkeypatch.setattr(rule_certificate, "sources_of", lambda pass_, rules: dict.fromkeys(rules, "changed"))
    rule_certificate._current.cache_clear()
    try:
        [proof] = proofs()
    finally:
        rule_certificate._current.cache_clear()
    assert proof.level != "bits:proved"
