from __future__ import annotations

import xml.etree.ElementTree as ET

from onnx_passes import examples

DIGITS = str(examples.path("digits-mlp"))


def test_writes_a_picture_and_says_what_it_shows(run, tmp_path):
    answer = run("draw", DIGITS, "-o", tmp_path / "graph.svg")
    assert answer.code == 0
    assert answer.out == ""
    assert "nodes" in answer.err
    ET.parse(tmp_path / "graph.svg")


def test_without_a_file_the_picture_goes_to_standard_output(run):
    answer = run("draw", DIGITS)
    assert answer.code == 0
    assert ET.fromstring(answer.out).tag.endswith("svg")


def test_colours_what_changed(run, tmp_path):
    after = tmp_path / "after.onnx"
    assert run("-q", "-o", after, DIGITS, "streamline").code == 0
    answer = run("draw", after, "--before", DIGITS, "-o", tmp_path / "changes.svg")
    assert answer.code == 0
    assert "removed" in answer.err


def test_shows_what_is_near_a_node(run, tmp_path):
    answer = run("draw", DIGITS, "--around", "no-such-node", "-o", tmp_path / "near.svg")
    assert answer.code == 2
    assert "no node named 'no-such-node'" in answer.err
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_a_mistake_of_the_user(run, tmp_path):
    answer = run("draw", DIGITS, "-o", tmp_path / "graph.jpg")
    assert answer.code == 2
    assert "is not a format of drawings" in answer.err


def test_all_and_limit_exclude_each_other(run):
    assert run("draw", DIGITS, "--all", "--limit", 3).code == 2
