"""Certificates that are written: which rules are proved again, and when the others still count."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.core.build import collect
from onnx_passes.proofs import rule_certificate as room
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.rule_certificate import PassCertificates, current_certificates
from onnx_passes.proofs.sources import modules_of, sources_of
from onnx_passes.testing.prove import certify
from onnx_passes.testing.prove.family import FamilyEffort
from onnx_passes.testing.prove.prover import RuleClaim

PASS = "eliminate-transpose"
ROOT = Path(__file__).parents[3]
EFFORT = FamilyEffort(models=60, most_models=60, most_instances=8)


def _proved(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
    return Proof("proved-here", "congruence")


def _refused(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
    return Unproved("nobody knows")


def _forget() -> None:
    for cached in (room.certificates_of, room.current_certificates, room._current):
        cached.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(room, "FOLDER", tmp_path)
    shutil.copy(ROOT / "certificates" / f"{PASS}.json", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _written(certificates: PassCertificates) -> PassCertificates:
    certify.write(certificates)
    _forget()
    held = current_certificates(PASS)
    assert held is not None
    return held


def _held(change: Callable[[str], str]) -> PassCertificates:
    held = room.certificates_of(PASS)
    assert held is not None
    [pass_] = collect(PASS)
    sources = sources_of(pass_, list(held.rules))
    rules = {name: replace(each, source=change(name) or sources[name]) for name, each in held.rules.items()}
    return _written(replace(held, rules=rules, modules={}))


def test_only_stale_rules_are_proved_again(folder: Path) -> None:
    first = next(iter(_held(lambda _: "").rules))
    assert certify.certify(PASS, anew="stale", by=_refused)[1] == []
    old = _held(lambda name: "old" if name == first else "")
    assert [name for name, each in old.rules.items() if each.void] == [first]
    new, verdicts = certify.certify(PASS, anew="stale", by=_proved, effort=EFFORT)
    assert [verdict.target.name for verdict in verdicts] == [f"{PASS}/{first}"]
    assert not any(each.void for each in _written(new).rules.values())


def test_rules_that_cannot_be_proved_are_open_but_not_stale(folder: Path) -> None:
    new, _ = certify.certify(PASS, by=_refused, effort=EFFORT)
    assert not any(each.is_proved for each in _written(new).rules.values())
    assert certify.certify(PASS, anew="stale", by=_proved, effort=EFFORT)[1] == []
    assert len(certify.certify(PASS, anew="open", by=_proved, effort=EFFORT)[1]) == len(new.rules)


def test_a_rule_that_was_not_proved_again_stays_stale(folder: Path) -> None:
    old = _held(lambda _: "old")
    first, *others = old.rules
    new, _ = certify.certify(PASS, [f"{PASS}/{first}"], by=_proved, effort=EFFORT)
    held = _written(new)
    assert not held.rules[first].void
    assert all(held.rules[name].level == "stale" for name in others)


def test_an_edited_file_is_not_sealed_anew(folder: Path) -> None:
    path = folder / f"{PASS}.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"float", ', "", 1), encoding="utf-8")
    _forget()
    first, *others = room.certificates_of(PASS).rules  # pyright: ignore[reportOptionalMemberAccess]
    new, _ = certify.certify(PASS, [f"{PASS}/{first}"], by=_proved, effort=EFFORT)
    assert list(new.rules) == [first], "what the others say may have been changed"
    assert len(certify.certify(PASS, anew="stale", by=_proved, effort=EFFORT)[1]) == 1 + len(others)


SHAPES = "src/onnx_passes/graph/shapes.py"
LAW_TEXT = "src/onnx_passes/rewrite/law_text.py"
OPERATOR = '''"""An operator of our own."""

from __future__ import annotations

from onnx_passes.graph.traits import TRAITS, Traits

TRAITS.attach({"Ours": Traits("elementwise", 1, exact=True)}, domains=("ours",))
'''


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources, and write certificates that are current."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "viewer"))
    (folder / "certificates").mkdir()
    for path in (ROOT / "certificates").glob("eliminate-c*.json"):
        held = PassCertificates.from_text(path.stem, path.read_text(encoding="utf-8"))
        [pass_] = collect(path.stem)
        sources = sources_of(pass_, list(held.rules))
        rules = {name: replace(each, source=sources[name]) for name, each in held.rules.items() if name in sources}
        current = replace(held, rules=rules, modules=modules_of(pass_, list(rules)))
        (folder / "certificates" / path.name).write_text(current.to_text(), encoding="utf-8")
    return folder


def _levels(checkout: Path) -> set[str]:
    script = "import json, sys; sys.path.insert(0, sys.argv[1])\n"
    script += "from onnx_passes.proofs.rule_certificate import FOLDER\nassert str(FOLDER).startswith(sys.argv[2])\n"
    script += "from onnx_passes.cli.main import run_command_line as run\nrun(['list', '--evidence', 'eliminate-c'])"
    command = [sys.executable, "-c", script, str(checkout / "src"), str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout, env={})
    assert "laws and rules are proved" in done.stdout, done.stdout + done.stderr
    words = ("stale", "proved", "equal-in-reals", "unproved", "edited", "tested")
    rows = [line for line in done.stdout.splitlines() if line.startswith("eliminate-c") and "/" in line]
    return {word for line in rows for word in line.split() if word in words}


def _edited(checkout: Path, file: str, old: str, new: str) -> set[str]:
    path = checkout / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        return _levels(checkout)
    finally:
        path.write_text(text, encoding="utf-8")


def test_list_tells_certificates_of_another_source(checkout: Path) -> None:
    plain = _levels(checkout)
    assert "stale" not in plain
    assert "proved" in plain
    helper = "def is_integral("
    assert _edited(checkout, SHAPES, helper, f"# A remark.\n{helper}") == plain
    assert _edited(checkout, SHAPES, '"""', '"""Words: ') == plain
    assert "stale" in _edited(checkout, SHAPES, helper, f"def is_integral(value):\n    return True\n\n\n{helper}")
    assert _edited(checkout, LAW_TEXT, '"""', '"""Words: ') == plain
    (checkout / "src/onnx_passes/ops/ours.py").write_text(OPERATOR, encoding="utf-8")
    builtin = "onnx_passes.ops.xnor_popcount_matmul"
    known = _edited(checkout, "src/onnx_passes/graph/traits.py", f'"{builtin}"', f'"onnx_passes.ops.ours", "{builtin}"')
    assert known == plain, "another operator"
