"""Passes that are written by hand announce every change: they can be stopped inside, and change nothing else."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.check.verification import Verification
from onnx_passes.core.instruments import Limit
from onnx_passes.core.registry import REGISTRY
from onnx_passes.core.walk import all_nodes

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CONSTANTS = f"""{HEAD} g (float[2] x) => (float[2] y) {{
    c = Constant <value_floats = [1.0, 4.0]> () d = Constant <value_floats = [1.0, 4.0]> ()
    e = Sqrt (c) f = Neg (d) a = Mul (x, e) y = Add (a, f)
}}"""
CASES = {
    "lift-constants": CONSTANTS,
    "fold-constants": CONSTANTS,
    "fold-shapes": f"""{HEAD} g (float[2,3] x, float[N,4] z) => (int64[2] y, float[N,4] w) {{
        a = Shape (x) y = Neg (a) s = Shape (z) r = Neg (z) w = Reshape (r, s)
    }}""",
    "fold-if": f"""{HEAD} g (float[2] x) => (float[2] y, float[2] z) <bool t = {{1}}, bool f = {{0}}> {{
        y = If (t) <then_branch = a () => (float[2] p) {{ p = Relu (x) }},
                    else_branch = b () => (float[2] q) {{ q = Neg (x) }}>
        z = If (f) <then_branch = c () => (float[2] r) {{ r = Relu (x) }},
                    else_branch = d () => (float[2] s) {{ s = Neg (x) }}>
    }}""",
    "deduplicate-initializers": f"""{HEAD} g (float[2] x) => (float[2] y)
        <float[2] a = {{1, 2}}, float[2] b = {{1, 2}}, float[2] c = {{1, 2}}> {{
        d = Add (x, a) e = Mul (d, b) y = Sub (e, c)
    }}""",
    "remove-unused-nodes": f"""{HEAD} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{
        a = Relu (x) b = Neg (a) c = Abs (x) y = Exp (x)
    }}""",
    "remove-unused-functions": """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[2] x) => (float[2] y) { y = Neg (x) }
        <domain: "local", opset_import: ["": 20]> f (x) => (y) { y = Neg (x) }
        <domain: "local", opset_import: ["": 20]> h (x) => (y) { y = Abs (x) }""",
    "remove-unused-opsets": """<ir_version: 10, opset_import: ["": 20, "one": 1, "two": 1]>
        g (float[2] x) => (float[2] y) { y = Neg (x) }""",
    "unique-names": f"{HEAD} g (float[2] x) => (float[2] y) {{ [n] a = Neg (x) [n] y = Neg (a) }}",
    "remove-initializers-from-inputs": f"""{HEAD} g (float[2] x, float[2] w) => (float[2] y)
        <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}""",
    "eliminate-common-subexpression": f"""{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{
        a = Relu (x) b = Relu (x) c = Relu (x) y = Add (a, b) z = Mul (b, c)
    }}""",
    "eliminate-zero-state": f"""{HEAD} g (float[2,1,3] x) => (float[1,1,2] y)
        <float[1,2,3] w = {{1,2,3,4,5,6}}, float[1,2,2] r = {{1,2,3,4}}, float[1,1,2] h = {{0,0}}> {{
        , y = RNN <hidden_size = 2> (x, w, r, , , h)
    }}""",
    "inline-functions": """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[2] x) => (float[2] y) { a = local.f (x) y = local.f (a) }
        <domain: "local", opset_import: ["": 20]> f (x) => (y) { a = Neg (x) y = Exp (a) }""",
    "convert-opset{version=21}": f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Neg (x) }}",
    "convert-layouts{inp=[NC>CN], out=[NC>CN]}": f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Neg (x) }}",
}
QONNX = "qonnx.custom_op.general"
PARAMETERS = "float s = {0.5}, float z = {0}, float b = {4}"
QUANT = '<signed = 1, narrow = 0, rounding_mode = "ROUND">'


def quantized(domain: str, attributes: str = QUANT) -> str:
    """Write two quantizers of one kind in a row."""
    return f"""<ir_version: 10, opset_import: ["": 20, "{domain}": 1]> g (float[2] x) => (float[2] y) <{PARAMETERS}> {{
        a = {domain}.Quant {attributes} (x, s, z, b) y = {domain}.Quant {attributes} (a, s, z, b)
    }}"""


CASES |= {
    "import-qonnx": quantized("onnx.brevitas", '<rounding_mode = "round">'),
    "export-qonnx": """<ir_version: 10, opset_import: ["": 20, "onnx_passes": 1]> g (float[2,3] x) => (float[2,3] y)
        <float[3,1] t = {0, 1, 2}> { a = onnx_passes.MultiThreshold (x, t) y = onnx_passes.MultiThreshold (a, t) }""",
    "inject-ops": quantized(QONNX),
    "inline-qonnx": quantized(QONNX),
}
VALUES_REPLACED = {
    "fold-shapes",
    "eliminate-common-subexpression",
    "eliminate-zero-state",
    "inline-qonnx",
}


def test_every_transformation_of_the_collection_announces():
    silent = [
        entry.name
        for entry in REGISTRY.entries()
        if entry.kind == "transformation" and not REGISTRY.load(entry).announces()
    ]
    assert not silent


def model_of(pass_: str) -> ir.Model:
    return ir.from_onnx_text(CASES[pass_])


@pytest.mark.parametrize("pass_", CASES)
def test_every_change_is_announced(pass_: str):
    result = apply(model_of(pass_), pass_, paranoid=True)
    step = result.record.steps[-1]
    assert step.modified
    assert step.applications == sum(rule.applied for rule in step.rules) > 0
    assert all("/passes/" in rule.source for rule in step.rules)


@pytest.mark.parametrize("pass_", CASES)
def test_a_limit_stops_inside(pass_: str):
    total = apply(model_of(pass_), pass_).record.applications
    for number in range(total):
        limit = Limit(number)
        record = apply(model_of(pass_), pass_, instruments=[limit]).record
        assert limit.reached
        assert record.applications == number
        assert record.steps[-1].modified == bool(number)


@pytest.mark.parametrize("pass_", sorted(VALUES_REPLACED))
def test_replaced_values_are_checked_where_they_stand(pass_: str):
    step = apply(model_of(pass_), pass_, verify=Verification(prove=False)).record.steps[-1]
    assert step.evidence is not None
    assert step.evidence.windows == step.applications


@pytest.mark.parametrize("pass_", ["fold-constants", "lift-constants", "deduplicate-initializers"])
def test_what_is_the_same_needs_no_window(pass_: str):
    step = apply(model_of(pass_), pass_).record.steps[-1]
    assert step.evidence is not None
    assert (step.evidence.level, step.evidence.windows) == ("bits:sampled", 0)


def test_functions_stay_until_all_calls_are_inlined():
    model = model_of("inline-functions")
    apply(model, "inline-functions", instruments=[Limit(1)], in_place=True)
    assert len(model.functions) == 1
    assert [node.op_type for node in all_nodes(model.graph)] == ["Neg", "Exp", "f"]


def test_functions_of_operators_stay_until_nothing_calls_them():
    injected = apply(model_of("inject-ops"), "inject-ops").model
    total = apply(injected, "eject-ops", paranoid=True).record.applications
    for number in range(total):
        result = apply(injected, "eject-ops", instruments=[Limit(number)])
        assert result.record.applications == number
        assert result.model.functions
    assert not apply(injected, "eject-ops").model.functions
