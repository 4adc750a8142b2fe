"""Links from page to page lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, GENERATED, PAGES, ROOT

WRITTEN = sorted([*PAGES, *ROOT.glob("*.md"), ROOT / "examples" / "README.md"])
_LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
_CONTENTS = re.compile(r"^```\{toctree\}\n(?::[^\n]*\n)*(.*?)^```", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^( *)(```+).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as GitHub and MyST do, and the targets ``(name)=``."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@pytest.mark.parametrize("page", dict.fromkeys(WRITTEN), ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path):
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in (found[0] or found[1] for found in _LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if GENERATED in file.parents:
            continue
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}, which has no such heading"


def test_every_page_is_in_the_contents():
    listed = {
        (page.parent / f"{entry}.md").resolve()
        for page in PAGES
        for contents in _CONTENTS.findall(page.read_text(encoding="utf-8"))
        for entry in contents.split()
        if not entry.startswith(":")
    }
    pages = {page for page in PAGES if page.is_relative_to(DOCS)} - {DOCS / "index.md"}
    assert not pages - listed, "a page is in no toctree: name it in docs/index.md"
    assert not {page for page in listed - pages if GENERATED not in page.parents}, "a toctree names what is not there"
