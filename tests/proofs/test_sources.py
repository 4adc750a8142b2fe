"""Digests of sources: they change with what a rule does, not with what is said about it."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path

import pytest

from onnx_passes.core.build import collect
from onnx_passes.ops import DOMAIN
from onnx_passes.ops.definition import DEFINITIONS
from onnx_passes.proofs import sources
from onnx_passes.proofs.rule_certificate import certificates_of
from onnx_passes.proofs.rule_sources import definition_of, sources_of

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
    framework = (
        "onnx_passes.rewrite.passes",
        "onnx_passes.rewrite.editor",
        "onnx_passes.core.base",
        "onnx_passes.verify",
    )
    assert not any(module.startswith(framework) for module, _ in found)
    assert sources.digest_of([(place, "MoveReshapeDown")]) != sources.digest_of([(place, "MoveReshapeDown")], "text")


TABLE = """
from {package}.helpers import Interface
KNOWN: Interface[int] = Interface("known", "what is known", "first.module"{more})
def rule(x):
    return KNOWN.get(x)
"""


def test_modules_that_attach_to_an_interface_do_not_count(digest) -> None:
    interface = "class Interface: ...\n"
    fewer = digest(TABLE.replace("{more}", ""), interface)
    more = digest(TABLE.replace("{more}", ', "second.module"'), interface)
    assert "KNOWN" in fewer
    assert _plain(fewer) == _plain(more)
    renamed = digest(TABLE.replace("{more}", "").replace('"known"', '"other"'), interface)
    assert _plain(fewer) != _plain(renamed)


def test_another_operator_leaves_rules_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    [pass_] = collect("inline-qonnx")
    rules = ["InlineQuant", "InlineDebugMarker"]
    before = sources_of(pass_, rules)
    assert len(set(before.values())) == 2, "each rule has the definition of its operator"
    known = DEFINITIONS.table()
    monkeypatch.setattr(DEFINITIONS, "_table", {**known, ("some.where", "Other"): known[DOMAIN, "Trunc"]})
    assert ("some.where", "Other") in DEFINITIONS.table()
    assert sources_of(pass_, rules) == before
    found = sources.closure([definition_of(pass_), *pass_.reaches("InlineQuant")])
    assert ("onnx_passes.ops.quant", "Quant") in found
    assert ("onnx_passes.ops.trunc", "Trunc") not in found
    assert not any(module == "onnx_passes.ops.builtin" for module, _ in found)


ALWAYS = "def is_integral(value):\n    return True\n\n\n"


@pytest.mark.parametrize(
    ("name", "module", "old", "new"),
    [
        ("eliminate-comparison", "onnx_passes.graph.shapes", "def is_integral(", f"{ALWAYS}def _once("),
        ("inline-qonnx", "onnx_passes.ops.quant", "op.Mul(q, scale)", "op.Mul(scale, q)"),
    ],
)
def test_helpers_of_other_packages_count(
    name: str, module: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [pass_], held = collect(name), certificates_of(name)
    assert held is not None
    rules = list(held.rules)
    before = sources_of(pass_, rules)
    path = sources.path_of(module)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / path.name
    changed.write_text(text.replace(old, new), encoding="utf-8")
    find = sources.path_of
    monkeypatch.setattr(sources, "path_of", lambda each: changed if each == module else find(each))
    sources._read.cache_clear()
    try:
        assert sources_of(pass_, rules) != before
    finally:
        sources._read.cache_clear()
