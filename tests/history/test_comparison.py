from __future__ import annotations

import onnx_ir as ir

from onnx_passes import apply, examples
from onnx_passes.history.comparison import compare
from tests.history.test_recording import real, told

HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y)'


def model(body: str) -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} {{ {body} }}")


def test_the_same_is_no_event():
    recording = compare(model("a = Neg(x) y = Exp(a)"), model("a = Neg(x) y = Exp(a)"))
    assert recording.events == []


def test_nodes_are_told_by_what_they_compute():
    recording = compare(model("a = Neg(x) b = Tanh(a) y = Exp(b)"), model("p = Neg(x) y = Exp(p)"))
    (event,) = recording.events
    assert [str(node) for node in event.changes.removed] == ["b = Tanh(a)"]
    assert event.changes.added == []
    assert {str(old): str(new) for old, new in event.changes.rewired} == {
        "a = Neg(x)": "p = Neg(x)",
        "y = Exp(b)": "y = Exp(p)",
    }


def test_changed_attribute_is_a_change():
    recording = compare(model("y = LeakyRelu <alpha = 0.1> (x)"), model("y = LeakyRelu <alpha = 0.2> (x)"))
    (event,) = recording.events
    assert [node.texts["alpha"][:3] for node in (*event.changes.removed, *event.changes.added)] == ["0.1", "0.2"]
    assert len(event.changes.links) == 1


def test_states_are_the_two_models():
    before = ir.load(examples.path("digits-cnn"))
    after = apply(before, "streamline", verify=False).model
    recording = compare(before, after)
    assert told(recording.state(0)) == real(before)
    assert told(recording.final) == real(after)
    assert recording.run is not None
    assert (recording.run.before.nodes, recording.run.after.nodes) == (len(before.graph), len(after.graph))
