from __future__ import annotations

import io

import pytest

import onnx_passes
from onnx_passes import examples
from onnx_passes.report.changes import PrintChanged
from onnx_passes.report.coloured import coloured

DIFFERENCE = """--- before 001 a
+++ after 001 a
@@ -1,4 +1,4 @@
 input x: float[4]
-constant w: float[40] #12345678
+constant w: float[40] #87654321
-a = Mul(x, w)  # first
+a = Mul(x, v)  # first
-b = Conv<strides=[1,1]>(a, k)
+c = Neg(a)
 output c: float[4]
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def printed(stream: io.StringIO) -> str:
    passes = "extract-quant-scale-zeropoint, aggregate-scales"
    onnx_passes.apply(examples.path("digits-mlp"), passes, verify=False, instruments=[PrintChanged(stream)])
    return stream.getvalue()


def test_colours_say_the_same_as_the_text():
    text = coloured(DIFFERENCE, lambda sign, name: "")
    assert text.plain == DIFFERENCE


def test_what_differs_within_a_line_is_emphasised():
    text = coloured(DIFFERENCE, lambda sign, name: "")
    strong = {text.plain[span.start : span.end] for span in text.spans if "reverse" in str(span.style)}
    assert strong == {"12345678", "87654321", "w", "v"}


def test_large_constants_are_summarised():
    text = coloured(DIFFERENCE, lambda sign, name: f"{sign}{name}")
    assert "#12345678  -w\n" in text.plain
    assert "#87654321  +w\n" in text.plain


def test_a_terminal_has_colours_and_summaries():
    shown = printed(Terminal())
    assert "\x1b[" in shown
    assert "% zeros" in shown


def test_files_have_neither():
    shown = printed(io.StringIO())
    assert "\x1b" not in shown
    assert "zeros" not in shown
    assert shown.startswith("--- before 0")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_terminals_without_colours_get_what_files_get(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert printed(Terminal()) == printed(io.StringIO())
