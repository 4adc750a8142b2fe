"""Tables keep their columns in any width."""

import io

import pytest
from rich.console import Console

from onnx_passes.report.columns import Column, pass_cell, reflowed, table_lines, width_of, wrapped
from onnx_passes.report.tables import fitted_table

COLUMNS = (
    Column("name", shorten="front", least=6),
    Column("n", right=True),
    Column("share", right=True, spare=2),
    Column("why", shorten="wrap", least=10, spare=1),
)
ROWS = [["first/of/all", "12,345", "99.0", "because it is so and not otherwise"], ["b", "1", "", ""]]


def laid_out(width: int) -> list[str]:
    return list(table_lines(COLUMNS, ROWS, width))


def test_what_fits_is_laid_out_in_full():
    assert laid_out(80) == [
        "name               n  share  why",
        "first/of/all  12,345   99.0  because it is so and not otherwise",
        "b                  1",
    ]


def test_texts_break_between_words_and_are_cut():
    assert laid_out(40) == [
        "name              n  share  why",
        "…rst/of/all  12,345   99.0  because it",
        "                            is so and",
        "                            not",
        "                            otherwise",
        "b                 1",
    ]


def test_what_matters_least_is_left_out():
    assert laid_out(26) == [
        "name         n  why",
        "…f/all  12,345  because it",
        "                is so and",
        "                not",
        "                otherwise",
        "b            1",
    ]
    assert laid_out(14) == ["name         n", "…f/all  12,345", "b            1"]


@pytest.mark.parametrize("width", range(14, 90))
def test_no_line_is_too_long_and_no_number_is_cut(width):
    lines = laid_out(width)
    assert all(len(line) <= width for line in lines)
    assert "12,345" in lines[1]


def test_names_in_a_column_stay_distinct():
    rows = [[f"/layer.{number}/attention/MatMul", "1", "", ""] for number in range(10)]
    lines = list(table_lines(COLUMNS, rows, 26))[1:]
    assert len(set(lines)) == 10
    assert all(f".{number}…" in line for number, line in enumerate(lines))


@pytest.mark.parametrize("width", range(12, 90, 7))
def test_the_first_columns_are_never_lost(width):
    columns = [Column("n", right=True), Column("operator", shorten="front", least=8), Column("sum", right=True)]
    out = io.StringIO()
    Console(file=out, width=width).print(fitted_table(columns, [(["12", "MatMul", "x" * 70], "")], width))
    [title, row] = out.getvalue().splitlines()
    assert title.split()[:2] == ["n", "operator"]
    assert row.split()[:2] == ["12", "MatMul"]
    assert len(row) <= width


def test_a_word_that_is_too_long_stays_whole():
    assert wrapped("a very-long-word-with-hyphens b", 10) == ["a", "very-long-word-with-hyphens", "b"]


def test_long_options_have_a_line_of_their_own():
    assert pass_cell("fixpoint{max=3}(a, b)", 1) == "  fixpoint{max=3}(…)"
    text = "streamline{infer-thresholds.max-bits=3, fold-constants.max-size=1MB}"
    assert pass_cell(text, 1) == "  streamline\n    {infer-thresholds.max-bits=3, fold-constants.max-size=1MB}"


def test_text_with_labels_is_broken_anew():
    full = (
        "Rewrites: " + "word " * 19 + "word\n          goes on\nRefuses:  nothing\n\nOptions:\n  a=1  the first\n  b=2"
    )
    assert reflowed(full, 200) == full
    assert reflowed(full, 60).split("\n") == [
        "Rewrites: word word word word word word word word word word",
        "          word word word word word word word word word word",
        "          goes on",
        "Refuses:  nothing",
        "",
        "Options:",
        "  a=1  the first",
        "  b=2",
    ]


def test_a_file_has_no_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width_of(io.StringIO(), 240) == 240
    monkeypatch.setenv("COLUMNS", "80")
    assert width_of(io.StringIO(), 240) == 80
