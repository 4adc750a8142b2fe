"""Digests of sources: they change with what a rule does, not with what is said about it."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path

import pytest

from onnx_passes.proofs import sources

RULE = '''
"""About the module."""
from {package}.helpers import helper
LIMIT = 3
def rule(x):
    """About the rule."""
    return helper(x) + LIMIT
def other(x):
    return x
'''
HELPERS = """
TABLE = {"a": 1}
TABLE.update(b=2)
def helper(x):
    from {package}.lazy import late
    return late(x) * len(TABLE)  # a remark
"""
LAZY = """
def late(x):
    return x
"""
_NUMBERS = itertools.count()


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)

    def of(rule: str = RULE, helpers: str = HELPERS, lazy: str = LAZY, name: str = "rule") -> str:
        package = f"sources{next(_NUMBERS)}"
        folder = tmp_path / package
        folder.mkdir()
        for file, text in (("__init__", ""), ("rules", rule), ("helpers", helpers), ("lazy", lazy)):
            (folder / f"{file}.py").write_text(text.replace("{package}", package))
        importlib.invalidate_caches()
        monkeypatch.setattr(sources, "SCOPE", (f"{package}.",))
        found = sources.closure([(f"{package}.rules", name)])
        return "\n".join(f"{module.partition('.')[2]}.{each}: {text}" for (module, each), text in sorted(found.items()))

    return of


def test_all_that_is_named_belongs_to_it(digest) -> None:
    names = [line.partition(":")[0] for line in digest().splitlines()]
    assert names == ["helpers.TABLE", "helpers.helper", "lazy.late", "rules.LIMIT", "rules.rule"]
    assert [line.partition(":")[0] for line in digest(name="other").splitlines()] == ["rules.other"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("About the rule.", "Something else."),
        ("# a remark", "# another"),
        ("def other(x):\n    return x", "def other(x):\n    return -x"),
        ("LIMIT = 3\n", "LIMIT  =  3\n\n\n"),
    ],
)
def test_words_and_others_do_not_count(digest, old: str, new: str) -> None:
    changed = [text.replace(old, new) for text in (RULE, HELPERS, LAZY)]
    assert changed != [RULE, HELPERS, LAZY]
    assert _plain(digest(*changed)) == _plain(digest())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("helper(x) + LIMIT", "helper(x) - LIMIT"),
        ("b=2", "b=3"),
        ("def late(x):\n    return x", "def late(x):\n    return -x"),
    ],
)
def test_what_it_does_counts(digest, old: str, new: str) -> None:
    changed = [text.replace(old, new) for text in (RULE, HELPERS, LAZY)]
    assert changed != [RULE, HELPERS, LAZY]
    assert _plain(digest(*changed)) != _plain(digest())


def _plain(text: str) -> str:
    """Leave out the number of the package."""
    return re.sub(r"sources\d+", "package", text)


def test_digest_of_a_pass() -> None:
    place = "onnx_passes.passes.move.move_reshape_down"
    found = sources.closure([(place, "MoveReshapeDown")])
    assert {(place, "_past"), ("onnx_passes.passes.move.forms", "exchange")} <= found.keys()
    assert all(module.startswith("onnx_passes.passes.") for module, _ in found)
    assert sources.digest_of([(place, "MoveReshapeDown")]) != sources.digest_of([(place, "MoveReshapeDown")], "text")
