"""Names of passes and options that the pages speak of in passing exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from onnx_passes.cli.main import COMMANDS, cli
from onnx_passes.core.evidence import KNOWN
from onnx_passes.core.registry import REGISTRY
from onnx_passes.proofs.proof import LEVELS
from tests.docs.pages import PAGES, ROOT

_BLOCK = re.compile(r"^( *)(```+).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
OTHERS = {
    "finn-plus",
    "qonnx-inference-cost",
    "onnxconverter-common",
    "onnxscript-ort",
    "onnx-ir",
    "onnx-passes",
    "onnx-passes-repro",
}
OF_THE_PAGES = {"my-rules", "my-rule", "drop-relu-before-quant"}
OF_OTHERS = {"--fuzz-cases", "--no-deps", "--nthreads"}
PROPERTIES = {"static-shapes", "at-most", "none-of"}


def codes(page: Path) -> list[str]:
    """Return what stands in a page as code, within sentences and tables."""
    return _CODE.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))


def options() -> set[str]:
    """Return the options of all commands."""
    context = click.Context(cli)
    found = {"--version", "--help"}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
        found |= {
            text for each in commands for option in each.params for text in (*option.opts, *option.secondary_opts)
        }
    return found


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_options(page: Path):
    known = options()
    for code in codes(page):
        if code.startswith(("onnx-passes ", "--", "… --")):
            unknown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code)) - known - OF_OTHERS
            assert not unknown, code


@every_page
def test_names(page: Path):
    known = {*REGISTRY.names(), *COMMANDS, *KNOWN, *LEVELS, *PROPERTIES, *OTHERS, *OF_THE_PAGES}
    for code in codes(page):
        if _NAME.fullmatch(code):
            assert code in known or REGISTRY.find(code), code
