"""Real models and hostile files beside the repository, for tests that use them where they are."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared"
