"""The reference of the Python interface: a page for each public module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from generators.markdown import code, fenced, prose, toctree, write_page
from generators.surface import Name, modules, names_of


def write_api(folder: Path) -> None:
    """Write a page for each public module, and an index of them."""
    pages = modules()
    for name, module in pages.items():
        found = names_of(module)
        write_page(folder / f"{name}.md", f"# {name}", *_paragraphs(module.__doc__ or ""), *_entries(found))
    lines = [f"- [{code(name)}]({name}.md): {prose(_summary(module.__doc__ or ''))}" for name, module in pages.items()]
    write_page(
        folder / "index.md",
        "# Python interface",
        "These names are public: changes are announced in the changelog, and a removed name warns for one "
        "minor version before. Everything else may change at any time.",
        "\n".join(lines),
        toctree(pages),
    )


def _entries(found: Iterable[Name]) -> Iterable[str]:
    for name in found:
        yield f"## {name.name}"
        yield fenced(f"{name.name}{name.signature}", "python")
        yield from _paragraphs(name.doc)
        for member in name.members:
            yield f"{code(f'{name.name}.{member.name}{member.signature}')}\n: {prose(_summary(member.doc)) or '—'}"


def _paragraphs(doc: str) -> Iterable[str]:
    """Yield paragraphs; indented text after two colons is code."""
    for paragraph in doc.split("\n\n"):
        if paragraph.startswith("    "):
            yield fenced(paragraph, "python")
        else:
            yield prose(paragraph.removesuffix(":") if paragraph.endswith("::") else paragraph)


def _summary(doc: str) -> str:
    return doc.strip().split("\n\n", 1)[0]
