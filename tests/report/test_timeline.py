from __future__ import annotations

import json
from collections import Counter

import pytest

from onnx_passes import Transformation, apply, examples
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.instruments import Limit
from onnx_passes.report.timeline import Timeline


def spans(trace: dict, kind: str) -> list[dict]:
    return [event for event in trace["traceEvents"] if event.get("cat") == kind]


@pytest.fixture(scope="module")
def traced():
    timeline = Timeline()
    result = apply(examples.path("digits-cnn"), "streamline", instruments=[timeline])
    return result, json.loads(json.dumps(timeline.to_json(), allow_nan=False))


def test_events_have_what_the_format_asks_for(traced):
    needed = {"X": {"ts", "dur", "tid"}, "i": {"ts", "s", "tid"}, "C": {"ts", "args"}, "M": {"args"}}
    for event in traced[1]["traceEvents"]:
        assert needed[event["ph"]] <= event.keys()
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0


def test_every_step_that_ran_and_every_rewrite_is_there(traced):
    result, trace = traced
    ran = [step for step in result.steps if step.status == "done"]
    assert Counter(span["args"]["step"] for span in spans(trace, "pass")) == Counter(step.number for step in ran)
    assert [mark["args"]["number"] for mark in spans(trace, "rewrite")] == list(
        range(1, result.record.applications + 1)
    )
    nodes = [event["args"]["nodes"] for event in trace["traceEvents"] if event["name"] == "nodes"]
    assert (nodes[0], nodes[-1]) == (result.record.before.nodes, result.record.after.nodes)


def test_spans_of_a_track_are_nested(traced):
    for track in (1, 2):
        found = [e for e in traced[1]["traceEvents"] if e["ph"] == "X" and e["tid"] == track]
        stack: list[float] = []
        for span in sorted(found, key=lambda e: (e["ts"], -e["dur"])):
            end = span["ts"] + span["dur"]
            while stack and stack[-1] <= span["ts"] + 0.01:
                stack.pop()
            assert not stack or end <= stack[-1] + 0.01
            stack.append(end)


def test_failed_run_is_closed():
    class Fail(Transformation):
        def call(self, model):
            raise ValueError("out of luck")

    timeline = Timeline()
    with pytest.raises(PassFailedError):
        apply(examples.path("digits-mlp"), ["shape-inference", Fail], instruments=[timeline], verify=False)
    trace = timeline.to_json()
    assert spans(trace, "pass")[-1]["args"]["status"] == "failed"
    assert "out of luck" in spans(trace, "run")[0]["args"]["failed"]


def test_pass_that_is_vetoed_has_no_span():
    timeline = Timeline()
    result = apply(examples.path("digits-cnn"), "streamline", instruments=[timeline, Limit(1)], verify=False)
    skipped = {step.number for step in result.steps if step.status == "skipped"}
    shown = {span["args"]["step"] for span in spans(timeline.to_json(), "pass")}
    assert skipped
    assert not skipped & shown
