from __future__ import annotations

import base64
import gzip
import json
import re

import pytest

from onnx_passes import apply, examples, report_differences
from onnx_passes.core.errors import UsageError
from onnx_passes.report.html import page, write_report


def data_of(html: str) -> dict:
    packed = re.search(r'<script type="application/octet-stream;base64" id="report-gz">([^<]*)</script>', html)
    if packed:
        return json.loads(gzip.decompress(base64.b64decode(packed[1])))
    plain = re.search(r'<script type="application/json" id="report">(.*?)</script>', html, re.DOTALL)
    return json.loads(plain[1])


def test_page_holds_the_data_and_asks_for_nothing_else(tmp_path):
    result = apply(examples.path("digits-mlp"), "simplify", verify=False, report=True)
    path = result.report(tmp_path / "out.html")
    html = path.read_text()
    assert data_of(html)["run"]["pipeline"] == "simplify"
    assert "__REPORT_DATA__" not in html
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", html)


def test_names_cannot_break_out_of_the_page():
    nasty = {"title": "</script><script>alert(1)</script><!--", "other": "x" * 10}
    html = page(json.dumps(nasty))
    assert "</script><script>alert" not in html
    assert data_of(html) == nasty


def test_long_data_are_packed():
    text = json.dumps({"numbers": [0, 1] * 5000})
    assert 'id="report-gz">' in page(text)
    assert data_of(page(text)) == json.loads(text)
    assert page(text) == page(text)


def test_json_is_the_data_alone(tmp_path):
    path = write_report({"title": "ä"}, tmp_path / "out.json")
    assert path.read_text() == '{"title":"ä"}\n'


def test_place_that_cannot_be_written_is_an_error_for_people(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        write_report({}, tmp_path / "missing" / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_report_of_two_models(tmp_path):
    result = apply(examples.path("digits-mlp"), "simplify", verify=False)
    result.save(tmp_path / "simple.onnx")
    path = report_differences(examples.path("digits-mlp"), tmp_path / "simple.onnx", tmp_path / "out.json")
    data = json.loads(path.read_text())
    assert data["kind"] == "comparison"
    assert data["title"] == "digits_mlp.onnx → simple.onnx"
    assert {event["step"] for event in data["events"]} == {1}
