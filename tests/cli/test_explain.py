"""``explain`` of operators and laws; what else it says of passes is tested with the other commands."""

from __future__ import annotations

import json

import pytest

from onnx_passes.ops.describe import operator_names


def test_shows_what_an_operator_computes_and_takes(run):
    shown = run("explain", "Quant").out
    assert shown.startswith("Quant (operator)\n\nQuantize to integers")
    for part in (
        "bitwidth: the number of bits",
        "narrow=0  (int)",
        "IntQuant",
        "onnx.brevitas",
        "onnx_passes.ops.quant",
    ):
        assert part in shown


@pytest.mark.parametrize("name", ["IntQuant", "intquant", "QUANT"])
def test_knows_other_names_in_any_case(run, name: str):
    assert run("explain", name).out == run("explain", "Quant").out


def test_shows_every_version_that_shares_a_name(run):
    shown = run("explain", "Trunc").out
    assert "version 1, which has five inputs" in shown
    assert "version 2, which has six inputs" in shown


def test_every_operator_is_explained(run):
    for name in operator_names():
        shown = run("explain", name).out
        assert "Inputs:" in shown
        assert "Domains:" in shown
        assert "(no documentation)" not in shown


def test_shows_the_laws_of_a_pass(run):
    law = "Not(Less(x, y)) → GreaterOrEqual(x, y)   when is_integral(x)"
    assert f"\nLaws:\n  {law}\n" in run("explain", "eliminate-negated-comparison").out
    [found] = json.loads(run("explain", "--json", "eliminate-negated-comparison").out)
    assert found["laws"][0] == law
    assert "Laws:" not in run("explain", "cleanup").out


def test_passes_and_operators_together_as_json(run):
    found = json.loads(run("explain", "--json", "cleanup", "Quant").out)
    assert [item.get("name") or item["operator"] for item in found][-1] == "Quant"
    assert [item["name"] for item in found[-1]["inputs"]] == ["x", "scale", "zeropt", "bitwidth"]
    assert found[-1]["attributes"][0] == {
        "name": "signed",
        "kind": "int",
        "doc": "whether there are negative integers",
        "default": 1,
        "required": False,
        "choices": [],
    }


@pytest.mark.parametrize(
    ("wrong", "right"), [("BipolarQant", "BipolarQuant"), ("Trnc", "Trunc"), ("clenup", "cleanup")]
)
def test_names_the_nearest_of_passes_and_operators(run, wrong: str, right: str):
    answer = run("explain", wrong)
    assert answer.code == 2
    assert f"there is no pass, group or operator named '{wrong}'" in answer.err
    assert f"'{right}'" in answer.err
    assert "Traceback" not in answer.err
