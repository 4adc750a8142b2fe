"""Write the page of all laws and rules: ``python -m onnx_passes.testing.prove.page``, from the root of the sources."""

from __future__ import annotations

from pathlib import Path

from onnx_passes.report.evidence import evidence, laws_page

PAGE = Path("docs") / "reference" / "laws.md"

if __name__ == "__main__":
    PAGE.write_text(laws_page(evidence()), encoding="utf-8")
