"""Every planted fault is caught and located, and no right pass raises an alarm, with no configuration."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from onnx_passes import apply
from onnx_passes.core.errors import ContractError
from onnx_passes.verify.failure import PostconditionError
from tests.cli.conftest import clean_registry, run  # noqa: F401
from tests.planted.faults import FAULTS, LOCATED
from tests.planted.planting import Fault, Tricky
from tests.planted.tricky import TRICKY

VERIFIED = [fault for fault in FAULTS if fault.seen_by == "verification"]


def named(planted: Fault | Tricky) -> str:
    return planted.name.replace(" ", "-")


@cache
def caught(name: str) -> PostconditionError:
    """Run a wrong pass and return how it was caught."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    with pytest.raises(PostconditionError) as error:
        apply(fault.model(), [fault.pass_class() for _ in range(fault.times)], inputs=fault.samples)
    return error.value


@pytest.mark.parametrize("fault", VERIFIED, ids=named)
def test_fault_is_caught(fault: Fault):
    error = caught(fault.name)
    assert fault.pass_class.__name__ in str(error)
    assert error.failure.difference
    assert 1 <= error.failure.step <= fault.times


@pytest.mark.parametrize("fault", LOCATED, ids=named)
def test_wrong_application_and_rule_are_named(fault: Fault):
    failure = caught(fault.name).failure
    number = re.match(r"number (\d+) of (\d+) in this pass, by (\w+)", failure.application)
    assert number is not None, failure.application
    assert int(number[1]) == fault.culprit
    assert int(number[2]) > 1
    assert number[3] == (fault.rule or fault.pass_class.__name__)
    assert Path(failure.source.rsplit(":", 1)[0]).name.startswith("faults_")


@pytest.mark.parametrize("fault", LOCATED, ids=named)
def test_report_shows_a_tensor_that_is_wrong(fault: Fault):
    """The tensor in the report is one that the wrong application reaches, not one that is only rounded."""
    difference = caught(fault.name).failure.difference
    shown = re.match(r"y(\d*)", difference)
    assert "no longer runs" in difference or (shown is not None and shown[1] in ("", str(fault.culprit))), difference


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.seen_by == "contracts"], ids=named)
def test_contracts_catch_what_changes_no_result(fault: Fault):
    assert apply(fault.model(), fault.pass_class).record
    with pytest.raises(ContractError, match=fault.pass_class().name):
        apply(fault.model(), fault.pass_class, paranoid=True)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.seen_by == "writing"], ids=named)
def test_writing_into_a_weight_is_stopped(fault: Fault):
    with pytest.raises(ContractError, match=fault.pass_class().name):
        apply(fault.model(), [fault.pass_class] * fault.times)


@pytest.mark.parametrize("tricky", TRICKY, ids=named)
def test_right_pass_raises_no_alarm(tricky: Tricky):
    result = apply(tricky.model(), tricky.pass_class, inputs=tricky.samples, paranoid=True)
    assert result.modified
    steps = list(result.record.leaves())
    assert all(step.evidence is not None for step in steps)
    assert {step.evidence.level for step in steps} <= tricky.levels
    assert any(step.evidence.level in ("bits:sampled", "tolerance:sampled") for step in steps)
    assert all(step.applications for step in steps if tricky.kind == "rule")


def test_enough_is_planted():
    assert len(FAULTS) >= 36
    assert len(LOCATED) >= 20
    assert len(TRICKY) >= 36
    assert sum(bool(fault.samples) for fault in FAULTS) <= 5
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({tricky.name for tricky in TRICKY}) == len(TRICKY)


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_target_is_surrounded(fault: Fault):
    nodes = sum(1 for _ in fault.model().graph.all_nodes())
    assert 8 <= nodes <= 60


def registered(path: Path, planted: Fault | Tricky) -> Path:
    """Write what a user would: a module that registers the pass."""
    cls = planted.pass_class
    path.write_text(
        f"from onnx_passes import passes\nfrom {cls.__module__} import {cls.__name__}\n"
        f"passes.register()({cls.__name__})\n"
    )
    return path


@pytest.mark.parametrize("name", ["Relu in front of a comparison", "square weights the other way round"])
def test_fault_is_caught_on_the_command_line(name, run, tmp_path, monkeypatch):  # noqa: F811
    fault = next(fault for fault in LOCATED if fault.name == name)
    monkeypatch.chdir(tmp_path)
    Path("model.onnxtxt").write_text(fault.model_text)
    module = registered(tmp_path / "planted_fault.py", fault)
    answer = run("--import", module, "-o", "out.onnx", "model.onnxtxt", fault.pass_class().name)
    assert answer.code == 1
    assert f"Post-condition for pass '{fault.pass_class.__name__}' failed" in answer.err
    assert f"number {fault.culprit} of" in answer.err
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("name", ["difference as a sum", "slices ended by the first"])
def test_right_pass_is_applied_on_the_command_line(name, run, tmp_path, monkeypatch):  # noqa: F811
    tricky = next(tricky for tricky in TRICKY if tricky.name == name)
    monkeypatch.chdir(tmp_path)
    Path("model.onnxtxt").write_text(tricky.model_text)
    module = registered(tmp_path / "planted_right.py", tricky)
    answer = run("--import", module, "-o", "out.onnx", "model.onnxtxt", tricky.pass_class().name)
    assert answer.code == 0, answer.err
    assert Path("out.onnx").exists()
