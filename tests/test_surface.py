"""The public names and their signatures are those that are written down; names of passes stay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnx_passes.core.errors import UnknownPassError
from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.diff import unified_diff

FROZEN = Path(__file__).parent / "surface.txt"
PASS_NAMES = Path(__file__).parent / "pass_names.txt"
DOCS = Path(__file__).parent.parent / "docs"


def test_public_names_and_signatures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    sys.modules.pop("generators.surface", None)
    from generators.surface import surface

    frozen, now = FROZEN.read_text(encoding="utf-8").splitlines(), surface().splitlines()
    if frozen != now:
        pytest.fail(
            "the public surface has changed: 'make surface' writes tests/surface.txt anew.\n"
            "CHANGELOG.md must say so; what goes away or changes its meaning warns for one minor version before, as "
            "CONTRIBUTING.md says under 'Public names'.\n\n" + unified_diff(frozen, now, "tests/surface.txt", "now"),
            pytrace=False,
        )


def test_names_and_options_of_passes_stay() -> None:
    lost: list[str] = []
    for line in PASS_NAMES.read_text(encoding="utf-8").splitlines():
        name, _, options = line.partition("{")
        try:
            known = {option.name for option in REGISTRY.find(name).entries[0].options}
        except UnknownPassError:
            lost.append(name)
            continue
        lost += [f"{name}{{{option}}}" for option in options.rstrip("}").split(", ") if option and option not in known]
    assert not lost, "a pass that gets another name keeps the old one as an alias; CONTRIBUTING.md, 'Public names'"
