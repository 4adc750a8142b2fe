"""The pages that are made from the package: each pass has an example that shows what it does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.text import to_text

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def generators() -> Any:
    sys.path.insert(0, str(DOCS))
    try:
        from generators import api, benchmarks, catalogue, command_line, examples, markdown, operators, pictures

        yield SimpleNamespace(
            api=api,
            benchmarks=benchmarks,
            catalogue=catalogue,
            command_line=command_line,
            examples=examples,
            markdown=markdown,
            operators=operators,
            pictures=pictures,
        )
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def examples(generators: Any) -> dict[str, list[Any]]:
    finder = generators.examples.Examples(most=1)
    return {entry.name: finder.of(entry) for entry in REGISTRY.entries() if entry.module.startswith("onnx_passes.")}


def text(model: ir.Model) -> str:
    return to_text(ir.to_proto(model))[0]


def test_every_pass_that_changes_models_has_an_example_that_changes(examples: dict[str, list[Any]]) -> None:
    changing = {entry.name for entry in REGISTRY.entries() if entry.kind != "analysis"} & examples.keys()
    missing = {name for name in changing if not examples[name]}
    assert not missing, "these passes need a model to be shown on: docs/generators/models/PASS.onnxtxt"
    same = {name for name in changing for each in examples[name] if text(each.before) == text(each.after)}
    assert same == set()


def test_examples_are_small(examples: dict[str, list[Any]]) -> None:
    assert {name for name, found in examples.items() for each in found if len(each.before.graph) > 24} == set()


def test_examples_are_the_same_every_time(generators: Any, examples: dict[str, list[Any]]) -> None:
    finder = generators.examples.Examples(most=1)
    for name in ("fuse-batchnorm", "convert-sub", "streamline"):
        again = finder.of(REGISTRY.find(name).entries[0])
        assert [text(each.after) for each in again] == [text(each.after) for each in examples[name]]


def test_models_by_hand_belong_to_passes(generators: Any) -> None:
    names = {entry.name for entry in REGISTRY.entries()}
    assert {path.stem for path in generators.examples.MODELS.glob("*.onnxtxt")} - names == set()


def test_page_of_a_pass_says_all_that_explain_says(generators: Any, examples: dict[str, list[Any]]) -> None:
    entry = REGISTRY.find("fuse-batchnorm").entries[0]
    page = "\n".join(generators.catalogue.page_of(entry, examples[entry.name], {"fuse": [entry]}))
    for word in (
        "**Rewrites.**",
        "**Refuses.**",
        "**Exactness.**",
        entry.laws[0].partition("   ")[0],
        "`tolerance`",
        "(#group-fuse)",
    ):
        assert word in page
    removed, added = (page.count(f'class="node {role}"') for role in ("removed", "added"))
    assert (removed, added) != (0, 0)


def test_pictures_are_dark_where_the_page_is(generators: Any, examples: dict[str, list[Any]]) -> None:
    picture = generators.pictures.before_after(examples["convert-sub"][0])
    assert '[data-theme="dark"]' in picture
    assert picture.count("<svg") == 2


def test_pages_of_operators_and_commands_name_what_there_is(generators: Any, tmp_path: Path) -> None:
    generators.operators.write_operators(tmp_path / "operators")
    quant = (tmp_path / "operators" / "Quant.md").read_text(encoding="utf-8")
    assert all(word in quant for word in ("`rounding_mode`", "`IntQuant`", "In standard operators", "<svg"))
    generators.command_line.write_command_line(tmp_path / "cli")
    run = (tmp_path / "cli" / "run.md").read_text(encoding="utf-8")
    assert "`-o, --output FILE`" in run
    generators.api.write_api(tmp_path / "api")
    assert "simplify(" in (tmp_path / "api" / "onnx_passes.md").read_text(encoding="utf-8")
    for page in tmp_path.rglob("*.md"):
        links = re.findall(r"\]\(([^)#]+\.md)\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == []


def test_benchmarks_show_figures_bars_and_losses(generators: Any, tmp_path: Path) -> None:
    bars = {
        "caption": "Seconds",
        "columns": ["case", "ours", "peer"],
        "rows": [["a", 1, 2.5]],
        "bars": ["ours", "peer"],
    }
    result = {
        "title": "T",
        "about": "A",
        "tables": [bars],
        "losses": ["a is slow"],
        "machine": "M",
        "versions": {"n": "1"},
    }
    (tmp_path / "results.json").write_text(json.dumps({"t": result}))
    generators.benchmarks.write_benchmarks(tmp_path / "page.md", tmp_path / "results.json")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert all(word in page for word in ("## T", "| a | 1 | 2.5 |", "- a is slow", "M; n 1"))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', page)]
    assert widths[1] == pytest.approx(2.5 * widths[0], rel=1e-2)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("``a | b`` is *one*", "`a | b` is \\*one\\*"),
        ("``f(`x`)`` < 2", "`` f(`x`) `` \\< 2"),
    ],
)
def test_text_of_docstrings_is_written_as_it_reads(generators: Any, given: str, expected: str) -> None:
    assert generators.markdown.prose(given) == expected
