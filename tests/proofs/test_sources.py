"""Digests of sources: they change with what a rule does, not with what is said about it."""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_passes.core.build import collect
from onnx_passes.ops import DOMAIN
from onnx_passes.ops.definition import DEFINITIONS
from onnx_passes.proofs import sources
from onnx_passes.proofs.rule_certificate import certificates_of, certified_passes
from onnx_passes.proofs.sources import definition_of, sources_of
from onnx_passes.rewrite.laws import LawPass, When

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

    def of(
        rule: str = RULE, helpers: str = HELPERS, lazy: str = LAZY, name: str = "rule", *, hashed: bool = False
    ) -> str:
        package = f"sources{next(_NUMBERS)}"
        folder = tmp_path / package
        folder.mkdir()
        for file, text in (("__init__", ""), ("rules", rule), ("helpers", helpers), ("lazy", lazy)):
            (folder / f"{file}.py").write_text(text.replace("{package}", package))
        importlib.invalidate_caches()
        monkeypatch.setattr(sources, "in_scope", lambda module: module.startswith(f"{package}."))
        monkeypatch.setattr(sources, "_PACKAGE", folder)
        sources.path_of.cache_clear()
        if hashed:
            return sources.digest_of([(f"{package}.rules", name)])
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


def test_another_place_does_not_count(digest) -> None:
    helpers = 'TABLE = {"a": 1}\nTABLE.update(b=2)\nfrom {package}.lazy import helper'
    lazy = f"{LAZY}from {{package}}.helpers import TABLE\ndef helper(x):\n    return late(x) * len(TABLE)\n"
    assert digest(RULE, helpers, lazy, hashed=True) == digest(hashed=True)


TWINS = """
from {package}.helpers import twin as one
from {package}.lazy import twin as two
def rule(x):
    return one(x) - two(x)
"""
TWIN = "def twin(x):\n    return x\n"
FLOOR = """
from {package}.helpers import near
def rule(x):
    return near(x)
"""


@pytest.mark.parametrize(
    ("rule", "helpers", "lazy", "other"),
    [
        (TWINS, TWIN, TWIN.replace("x\n", "-x\n"), TWINS.replace("one(x) - two", "two(x) - one")),
        (TWINS, TWIN, TWIN.replace("x\n", "-x\n"),
         TWINS.replace("helpers", "aside").replace("lazy", "helpers").replace("aside", "lazy")),
        (FLOOR.replace("{package}.helpers", "math").replace("near", "floor as near", 1), "", "",
         FLOOR.replace("{package}.helpers", "math").replace("near", "ceil as near", 1)),
        ("import math as m\ndef rule(x):\n    return m.floor(x)", "", "",
         "import cmath as m\ndef rule(x):\n    return m.floor(x)"),
        ("if 1:\n    def near(x):\n        return x\ndef rule(x):\n    return near(x)", "", "",
         "if 1:\n    def near(x):\n        return -x\ndef rule(x):\n    return near(x)"),
    ],
)  # fmt: skip
def test_what_names_stand_for_counts(digest, rule: str, helpers: str, lazy: str, other: str) -> None:
    assert rule != other
    before = digest(rule, helpers, lazy, hashed=True)
    assert digest(rule, helpers, lazy, hashed=True) == before, "the name of the package does not count"
    assert digest(other, helpers, lazy, hashed=True) != before


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
    assert ("onnx_passes.rewrite.rule", "Rule") in found, "what decides whether a rule matches belongs to it"
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


BESIDE = {
    "onnx_passes": "names for users",
    "onnx_passes.core.base": "what all passes are",
    "onnx_passes.core.claims": "what a pass promises, which the digest has as text",
    "onnx_passes.core.collector": "when memory is freed",
    "onnx_passes.core.display": "how objects are shown",
    "onnx_passes.core.errors": "what is raised instead of a result",
    "onnx_passes.core.options": "declarations of options, whose defaults are in the class",
    "onnx_passes.graph.wording": "texts for people",
    "onnx_passes.rewrite.editor": "puts what is built in its place, in the same way for all rules",
    "onnx_passes.rewrite.failures": "texts on what does not match",
    "onnx_passes.rewrite.hints": "what the generator of models should try",
    "onnx_passes.rewrite.index": "which rules are tried at a node",
    "onnx_passes.rewrite.passes": "bases of passes that are made of rules",
    "onnx_passes.rewrite.source": "file and line of a rule, and where a class is from",
}
"""All that rules name although their digests leave it out."""


def test_what_digests_leave_out_is_known() -> None:
    left_out: set[str] = set()
    for name in certified_passes():
        [pass_], held = collect(name), certificates_of(name)
        assert held is not None
        for definition in sources.closure(sources.definitions_of(pass_, list(held.rules))):
            source = sources._source(definition)
            assert source is not None
            left_out |= {module for _, (module, _) in source.named if not sources.in_scope(module)}
    assert {module for module in left_out if module.partition(".")[0] == "onnx_passes"} == BESIDE.keys()
    assert all(sources.path_of(module) is not None for module in sources.PARTS)


def test_every_function_of_a_law_has_a_source() -> None:
    for name in certified_passes():
        [pass_] = collect(name)
        for law in pass_.chosen() if isinstance(pass_, LawPass) else ():
            for definition in sources.called_by(law):
                assert sources._source(definition), (name, definition)


ALWAYS = "def is_integral(value):\n    return True\n\n\n"


@pytest.mark.parametrize(
    ("name", "module", "old", "new"),
    [
        ("eliminate-comparison", "onnx_passes.graph.shapes", "def is_integral(", f"{ALWAYS}def _once("),
        ("inline-qonnx", "onnx_passes.ops.quant", "op.Mul(q, scale)", "op.Mul(scale, q)"),
        ("absorb-not", "onnx_passes.rewrite.law_right", "import onnx_ir as ir\n", "def Terms(*given): ...\n"),
        ("convert-bipolar", "onnx_passes.rewrite.node_rule", "commute=False", "commute=True"),
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
    _forget()
    try:
        assert sources_of(pass_, rules) != before
    finally:
        _forget()


def _forget() -> None:
    sources._read.cache_clear()
    sources._source.cache_clear()
    sources._label.cache_clear()


@pytest.mark.parametrize("change", [{"forks": "duplicate"}, {"commute": False}, {"when": (When("is_constant(x)"),)}])
def test_options_of_a_law_count(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    [pass_] = collect("absorb-not")
    law = next(law for law in pass_.laws if law.commute and law.forks == "exclusive")
    monkeypatch.setattr(type(pass_), "laws", (law,))
    before = sources_of(pass_, [law.rule_name])
    monkeypatch.setattr(type(pass_), "laws", (replace(law, **change),))
    assert sources_of(pass_, [law.rule_name]) != before
