"""With ``--json`` a program learns of every failure what people do."""

import json

import onnx_ir as ir
import pytest

from onnx_passes.core.manager import Manager
from tests.cli.conftest import BREAK_ADDS

FAILS = """
from onnx_passes import PassResult, Transformation, passes

@passes.register()
class FailsToday(Transformation):
    def call(self, model):
        raise KeyError("no such thing")
"""


def failure(run, *arguments: object, code: int) -> dict:
    answer = run(*arguments)
    assert answer.code == code
    assert answer.err
    found = json.loads(answer.out)
    assert set(found) == {"error"}
    assert found["error"]["exit_code"] == code
    return found["error"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--json", "absent.onnx", "cleanup"], "there is no such file", None),
        (["run", "--json"], "Missing argument 'MODEL'.", "Try 'onnx-passes run --help' for help."),
        (["list", "--json", "--kind", "x"], "Invalid value for '--kind': 'x' is not one of", "Try 'onnx-passes list"),
        (
            ["explain", "clenup", "--json"],
            "there is no pass, group or operator named 'clenup'",
            "did you mean 'cleanup'",
        ),
        (["plan", "--json", "cleanup{x=1}"], "pass 'cleanup' has no option 'x'", "options of 'cleanup'"),
        (["inspect", "absent.onnx", "--json"], "there is no such file", None),
    ],
)
def test_usage(run, arguments, message, hint):
    error = failure(run, *arguments, code=2)
    assert error["kind"] == "usage"
    assert error["message"].startswith(message)
    assert hint is None or error["hint"].startswith(hint)


def test_where(run, model):
    error = failure(run, "--json", model, "cleanup,", code=2)
    assert (error["type"], error["where"]) == ("PipelineSyntaxError", "pipeline")


def test_verification(run, model, tmp_path):
    (tmp_path / "wrong_for_json.py").write_text(BREAK_ADDS)
    options = ("--json", "--import", tmp_path / "wrong_for_json.py", "--repro", tmp_path / "kept")
    error = failure(run, *options, model, "break-adds", code=1)
    assert (error["kind"], error["type"]) == ("verification", "VerificationError")
    assert error["message"] == "global_output_0 not as expected"
    assert error["details"]["text"] == "break-adds"
    assert error["details"]["claim"] == "equality"
    assert error["details"]["difference"].startswith("global_output_0[")
    assert error["details"]["reproducer"] == str(tmp_path / "kept")


def test_pass(run, model, tmp_path):
    (tmp_path / "fails_for_json.py").write_text(FAILS)
    error = failure(run, "--json", "--import", tmp_path / "fails_for_json.py", model, "fails-today", code=3)
    assert (error["kind"], error["type"]) == ("pass", "PassFailedError")
    assert error["message"] == "KeyError: 'no such thing'"
    assert error["where"] == "pass 'fails-today'"


@pytest.mark.parametrize(
    ("raised", "code", "kind", "message"),
    [
        (ZeroDivisionError("by nought"), 4, "internal", "internal error: ZeroDivisionError: by nought"),
        (KeyboardInterrupt(), 130, "interrupted", "interrupted"),
        (ir.passes.PreconditionError("not so"), 1, "verification", "PreconditionError: not so"),
    ],
)
def test_faults(run, model, monkeypatch, raised, code, kind, message):
    def fail(self, plan, model):
        raise raised

    monkeypatch.setattr(Manager, "run", fail)
    error = failure(run, "--json", model, "cleanup", code=code)
    assert (error["kind"], error["message"]) == (kind, message)


def test_the_traceback_comes_with_it(run, model, monkeypatch, capfd):
    def fail(self, plan, model):
        raise ZeroDivisionError

    monkeypatch.setattr(Manager, "run", fail)
    with pytest.raises(ZeroDivisionError):
        run("--json", "--debug", model, "cleanup")
    assert json.loads(capfd.readouterr().out)["error"]["kind"] == "internal"


def test_without_json_nothing_goes_to_standard_output(run):
    answer = run("absent.onnx", "cleanup")
    assert (answer.code, answer.out) == (2, "")
