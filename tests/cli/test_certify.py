from __future__ import annotations

import json

import pytest

BEFORE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N,4] x) => (float[N,4] y) { a = Neg(x) b = Neg(a) y = Relu(b) }
"""
AFTER = '<ir_version: 10, opset_import: ["" : 21]>\ng (float[N,4] x) => (float[N,4] y) { y = Relu(x) }\n'
WRONG = '<ir_version: 10, opset_import: ["" : 21]>\ng (float[N,4] x) => (float[N,4] y) { y = Abs(x) }\n'


@pytest.fixture
def files(tmp_path):
    for name, text in (("before", BEFORE), ("after", AFTER), ("wrong", WRONG)):
        (tmp_path / f"{name}.onnxtxt").write_text(text)
    return [tmp_path / f"{name}.onnxtxt" for name in ("before", "after", "wrong")]


def test_a_certificate_is_written_and_checked(run, files, tmp_path):
    before, after, wrong = files
    answer = run("certify", before, after, "--json", tmp_path / "c.json")
    assert answer.code == 0
    assert "tested" in answer.out
    assert "what holds for N = 2 holds for all sizes" in answer.out
    data = json.loads((tmp_path / "c.json").read_text())
    assert data["level"] == "tested"
    assert data["windows"][0]["method"] == "congruence"
    assert "the certificate holds" in run("certify", "--check", tmp_path / "c.json", before, after).out
    answer = run("certify", "--check", tmp_path / "c.json", before, wrong)
    assert answer.code == 1
    assert "the model after is another one" in answer.out


def test_a_refuted_window_ends_with_1(run, files):
    before, _, wrong = files
    answer = run("certify", before, wrong, "--json", "-")
    assert answer.code == 1
    assert json.loads(answer.out)["windows"][0]["level"] == "refuted"


def test_the_same_models_have_nothing_to_prove(run, files):
    answer = run("certify", files[0], files[0])
    assert answer.code == 0
    assert "the same" in answer.out


def test_what_is_no_certificate_is_an_error_of_use(run, files, tmp_path):
    (tmp_path / "c.json").write_text("{")
    assert run("certify", "--check", tmp_path / "c.json", files[0], files[1]).code == 2
    run("certify", files[0], files[1], "--json", tmp_path / "whole.json")
    whole = json.loads((tmp_path / "whole.json").read_text())
    wrong = [
        {},
        [],
        [1],
        "text",
        3,
        None,
        {**whole, "windows": 3},
        {**whole, "windows": [3]},
        {**whole, "allow": "all"},
    ]
    wrong += [{**whole, "allow": [["nnan"]]}, {**whole, "windows": [{"output": "y"}]}, {**whole, "before": None}]
    wrong += [{name: value for name, value in whole.items() if name != missing} for missing in ("format", "windows")]
    for data in wrong:
        (tmp_path / "c.json").write_text(json.dumps(data))
        answer = run("certify", "--check", tmp_path / "c.json", files[0], files[1])
        assert answer.code == 2, (data, answer)
        assert "not a certificate" in answer.err
    (tmp_path / "c.json").write_bytes(b"\xff\xfe")
    assert run("certify", "--check", tmp_path / "c.json", files[0], files[1]).code == 2
