"""The certificates of the collection: one for each rule, of the source that it has now; a few are proved anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes.core.build import collect
from onnx_passes.proofs.rule_certificate import all_certificates, certificates_of
from onnx_passes.proofs.sources import numbered, sources_of
from onnx_passes.report.evidence import evidence, laws_page
from onnx_passes.testing.fuzz.targets import registered
from onnx_passes.testing.prove.certify import PAGE, certify, pass_of

ROOT = Path(__file__).parents[2]
CHEAP = ("eliminate-transpose", "convert-sub", "absorb-not")


def complaint() -> str:
    """Say what is wrong with the certificates of the collection, if anything is."""
    rules: dict[str, list[str]] = {}
    for target in registered():
        rules.setdefault(pass_of(target), []).append(target.rule.name)
    outdated: list[str] = []
    missing: list[str] = []
    for name, names in rules.items():
        [pass_] = collect(name)
        held = certificates_of(name)
        sources = sources_of(pass_, numbered(names))
        known = {} if held is None else {rule: each.source for rule, each in held.rules.items()}
        if any(sources.get(rule, source) != source for rule, source in known.items()) or known.keys() - sources.keys():
            outdated.append(name)
        missing += [f"{name}/{rule}" for rule in sources.keys() - known.keys()]
    if outdated:
        return f"certificates are out of date: run make prove RULES='{' '.join(outdated)}'"
    if missing:
        return f"rules have no certificates: run make prove RULES='{' '.join(sorted(missing))}'"
    gone = {held.name for held in all_certificates()} - set(rules)
    return f"there are certificates of passes that are gone: {gone}" if gone else ""


def test_every_rule_has_a_certificate_of_its_source() -> None:
    # Other tests bring operators of their own, for which some passes have more rules.
    script = "from tests.proofs.test_collection import complaint; print(complaint())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


def test_page_of_laws_is_that_of_the_certificates() -> None:
    written = (ROOT / PAGE).read_text(encoding="utf-8")
    assert written == laws_page(evidence()), "run python -m onnx_passes.testing.prove.certify"


@pytest.mark.parametrize("name", CHEAP)
def test_proved_anew(name: str) -> None:
    held = certificates_of(name)
    assert held is not None
    proved, _ = certify(name)
    assert proved.rules == held.rules
