"""The public names and their signatures are those that are written down."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnx_passes.graph.linediff import unified_diff

FROZEN = Path(__file__).parent / "surface.txt"
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
