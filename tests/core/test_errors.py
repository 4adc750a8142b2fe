"""Errors say what, where and what next, and near misses are named."""

import pytest

from onnx_passes.core import errors
from onnx_passes.core.errors import ExitCode, ModelError, OnnxPassesError, did_you_mean


@pytest.mark.parametrize(
    ("where", "hint", "text"),
    [
        (None, None, "it is broken"),
        ("a.onnx", None, "a.onnx: it is broken"),
        (None, "mend it", "it is broken; mend it"),
        ("a.onnx", "mend it", "a.onnx: it is broken; mend it"),
    ],
)
def test_message_is_where_then_what_then_hint(where, hint, text):
    error = ModelError("it is broken", where=where, hint=hint)
    assert str(error) == text
    assert error.what == "it is broken"
    assert error.args == ("it is broken",)


def test_place_may_be_added_while_the_error_travels():
    error = ModelError("it is broken")
    error.where = "pass 'p'"
    assert str(error) == "pass 'p': it is broken"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("OnnxPassesError", ExitCode.INTERNAL),
        ("UsageError", ExitCode.USAGE),
        ("ModelError", ExitCode.USAGE),
        ("ConfigError", ExitCode.USAGE),
        ("RegistrationError", ExitCode.USAGE),
        ("UnknownPassError", ExitCode.USAGE),
        ("OptionError", ExitCode.USAGE),
        ("PlanError", ExitCode.USAGE),
        ("PassFailedError", ExitCode.PASS),
        ("ContractError", ExitCode.PASS),
        ("RewriteError", ExitCode.PASS),
        ("BudgetError", ExitCode.PASS),
    ],
)
def test_every_kind_of_error_has_its_exit_code(kind, code):
    cls = getattr(errors, kind)
    assert issubclass(cls, OnnxPassesError)
    assert cls.exit_code is code


def test_exit_codes_are_those_of_the_documentation():
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("cleanpu", "did you mean 'cleanup'?"),
        ("CLEANUP", "did you mean 'cleanup'?"),
        ("fold-constant", "did you mean 'fold-constants' or 'Fold-Constant-Shapes'?"),
        ("zzz", None),
        ("", None),
    ],
)
def test_near_misses_are_named_as_they_are_written(word, hint):
    assert did_you_mean(word, ["cleanup", "fold-constants", "Fold-Constant-Shapes", "verify"]) == hint


def test_only_the_nearest_words_are_named():
    assert did_you_mean("abcd", ["abcd1", "abcd2", "abcd3", "abcd4"]) in {
        f"did you mean '{a}', '{b}' or '{c}'?"
        for a in ("abcd1", "abcd2", "abcd3", "abcd4")
        for b in ("abcd1", "abcd2", "abcd3", "abcd4")
        for c in ("abcd1", "abcd2", "abcd3", "abcd4")
        if len({a, b, c}) == 3
    }
    assert did_you_mean("abcd", ["abcd1", "abcd2"], at_most=1).count("'") == 2


def test_nothing_is_near_when_nothing_is_known():
    assert did_you_mean("cleanup", []) is None
