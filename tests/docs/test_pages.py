"""What the documentation shows is executed as it stands there, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.installation import EXTRAS
from tests.docs.pages import LANGUAGES, PAGES, REASONS, ROOT, WIDTH, Block, Runner, blocks, prepare, shows
from tests.helpers.registry import forgetting

MOST_NOT_RUN = 12

ALL = [block for page in PAGES for block in blocks(page)]
EXECUTED = sorted({block.page for block in ALL if block.language in ("sh", "python", "yaml")})


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", WIDTH)
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    runner = Runner()
    with forgetting():
        for block in blocks(page):
            if "output" in block.words:
                assert shows(block.text, runner.printed), f"{block} shows\n{block.text}\n\nprinted\n{runner.printed}"
            runner.run(block)


def test_every_block_says_what_it_is():
    for block in ALL:
        assert block.language in LANGUAGES, f"{block}: a block of '{block.language}'"
        if block.language == "text" and "output" not in block.words:
            assert "onnx-passes " not in block.text, f"{block}: a command in a block that is not executed"
        if "output" in block.words:
            assert block.text.strip("… \n"), f"{block}: an output that shows nothing"


@pytest.mark.parametrize("block", [block for block in ALL if block.needs], ids=str)
def test_blocks_that_need_an_extra_are_below_its_name(block: Block):
    assert set(block.needs) <= EXTRAS.keys(), f"{block}: there is no such extra"
    above = "\n".join(block.page.read_text(encoding="utf-8").splitlines()[: block.line]) + block.text
    named = {name for names in re.findall(r"pip install '?onnx-passes\[([\w,]+)\]", above) for name in names.split(",")}
    assert set(block.needs) <= named, f"{block}: nothing above it says how to install what it needs"


def test_few_blocks_are_not_run_and_for_known_reasons():
    not_run = [block for block in ALL if block.word("not-run") is not None]
    assert all(block.word("not-run") in REASONS for block in not_run), [str(block) for block in not_run]
    assert len(not_run) <= MOST_NOT_RUN, f"{len(not_run)} blocks of {len(ALL)} are not run"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("34 → 17 nodes, 0.2 s", "34 → 17 nodes, 0.3 s", True),
        ("34 → 17 nodes", "34 → 18 nodes", False),
        ("accuracy 99.17%", "accuracy 98.17%", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("a … c", "a b c", True),
        ("a", "a\nb", False),
    ],
)
def test_outputs_are_compared(expected: str, printed: str, same: bool):
    assert shows(expected, printed) is same
