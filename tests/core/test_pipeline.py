"""Pipeline text: what parses prints and parses back, and a mistake is pointed at."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onnx_passes.core.errors import ExitCode, UsageError
from onnx_passes.core.pipeline import PipelineItem, PipelineSyntaxError, format_pipeline, parse_pipeline

MARKS = "{}()[],=\"'#"
words = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters=MARKS), min_size=1, max_size=8)
names = st.one_of(words, st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True))
texts = st.one_of(st.text(max_size=8), st.text(MARKS + "\\ \n\tab", max_size=8))
values = st.recursive(texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
option_names = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
options = st.dictionaries(option_names, values, max_size=3).map(lambda given: tuple(given.items()))


def items(bodies: st.SearchStrategy[tuple[PipelineItem, ...] | None]) -> st.SearchStrategy[PipelineItem]:
    return st.builds(PipelineItem, names, options, bodies)


pipelines = st.recursive(
    st.lists(items(st.none()), max_size=3).map(tuple),
    lambda inner: st.lists(items(st.one_of(st.none(), inner)), max_size=3).map(tuple),
    max_leaves=8,
)


@given(pipelines)
@example((PipelineItem("a", (("x", ""),)),))
@example((PipelineItem("a", (("x", "\\"),)),))
@example((PipelineItem("a", (("x", "\\\n"),)),))
@example((PipelineItem("a", (("x", '\\"'),)),))
@example((PipelineItem("a", (("x", "#"),)),))
@example((PipelineItem("a", (("x", []), ("y", [[], [""]]))),))
@example((PipelineItem("a", (), ()),))
@example((PipelineItem("ä", (("x", "日本"),)),))
def test_what_is_printed_parses_back(pipeline):
    assert parse_pipeline(format_pipeline(pipeline)) == pipeline


@given(st.text(string.ascii_lowercase + MARKS + " \\\n", max_size=40))
def test_any_text_parses_to_something_stable_or_is_a_mistake_that_is_pointed_at(text):
    mistake = None
    try:
        parsed = parse_pipeline(text)
    except PipelineSyntaxError as error:
        mistake = error
    if mistake is None:
        assert parse_pipeline(format_pipeline(parsed)) == parsed
    else:
        line, caret = mistake.excerpt.split("\n")
        assert caret.strip() == "^"
        assert 0 <= mistake.at <= len(text)
        assert len(caret) <= len(line) + 1


def test_reads_the_notation_of_the_documentation():
    text = "cleanup, fold-constants{max-size=1MB}, fixpoint{max=20}(algebraic, reorder), verify"
    assert parse_pipeline(text) == (
        PipelineItem("cleanup"),
        PipelineItem("fold-constants", (("max-size", "1MB"),)),
        PipelineItem("fixpoint", (("max", "20"),), (PipelineItem("algebraic"), PipelineItem("reorder"))),
        PipelineItem("verify"),
    )
    assert format_pipeline(parse_pipeline(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "a b{x=1} f(c d)",
        "a,b{x=1},f(c,d)",
        " a\n\tb { x = 1 } ,\n f ( c\n d ) ",
        "a # the first\nb{x=1} # the second, (really)\nf(c # inner\nd)",
        "a,b{x=1,},f(c d)",
        "a b{x='1'} f(c, d)",
    ],
)
def test_separators_comments_and_quotes_make_no_difference(text):
    assert format_pipeline(parse_pipeline(text)) == "a, b{x=1}, f(c, d)"


@pytest.mark.parametrize("text", ["", "  ", "# only a remark", "\n# one\n# two\n"])
def test_nothing_is_a_pipeline_of_nothing(text):
    assert parse_pipeline(text) == ()


def test_an_option_without_a_value_is_a_flag():
    assert parse_pipeline("a{fast, x=2}") == parse_pipeline("a{fast=true, x=2}")


def test_an_empty_list_of_options_is_no_option():
    assert parse_pipeline("a{}") == parse_pipeline("a")


def test_an_empty_body_is_not_no_body():
    assert parse_pipeline("f()") == (PipelineItem("f", (), ()),)
    assert parse_pipeline("f()") != parse_pipeline("f")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1MB", "1MB"),
        ("-1.5e-3", "-1.5e-3"),
        ("a/b.c:d", "a/b.c:d"),
        ("'it is'", "it is"),
        ('"say \\"no\\""', 'say "no"'),
        ("'back\\\\slash'", "back\\slash"),
        ("'two\nlines'", "two\nlines"),
        ("''", ""),
        ("[1, 2]", ["1", "2"]),
        ("[1, 2,]", ["1", "2"]),
        ("[]", []),
        ("[[a], ['b c']]", [["a"], ["b c"]]),
    ],
)
def test_values_may_be_words_quoted_text_and_lists(written, value):
    assert parse_pipeline(f"a{{x={written}}}") == (PipelineItem("a", (("x", value),)),)


def test_items_know_where_they_stand():
    outer, inner = parse_pipeline("a,\n f(b)")[1], parse_pipeline("a,\n f(b)")[1].body[0]
    assert (outer.at, inner.at) == (4, 6)


@pytest.mark.parametrize(
    ("text", "caret", "what"),
    [
        (",a", "^", "expected the name of a pass, found ','"),
        ("a,,b", "  ^", "expected the name of a pass, found ','"),
        ("a, ", "   ^", "expected a pass after the comma, found the end"),
        ("f(a,)", "    ^", "expected a pass after the comma, found ')'"),
        ("a)", " ^", "expected the name of a pass, found ')'"),
        ("f(a", "   ^", "expected ')', found the end"),
        ("f(a}", "   ^", "expected the name of a pass, found '}'"),
        ("a{", "  ^", "expected '}', found the end"),
        ("a{x", "   ^", "expected '}', found the end"),
        ("a{x=1", "     ^", "expected '}', found the end"),
        ("a{x=", "    ^", "expected a value, found the end"),
        ("a{x=}", "    ^", "expected a value, found '}'"),
        ("a{x=,y=1}", "    ^", "expected a value, found ','"),
        ("a{=1}", "  ^", "expected the name of an option, found '='"),
        ("a{,}", "  ^", "expected the name of an option, found ','"),
        ("a{x=1 y=2}", "      ^", "expected ',' or '}', found 'y'"),
        ("a{x=1, x=2}", "       ^", "option 'x' is given twice"),
        ("a{x=[1}", "      ^", "expected ',' or ']', found '}'"),
        ("a{x=[1 2]}", "       ^", "expected ',' or ']', found '2'"),
        ("a{x=[", "     ^", "expected ']', found the end"),
        ("a{x='1}", "    ^", "a quote is not closed"),
        ('a{x="1\\"}', "    ^", "a quote is not closed"),
        ("'a'", "^", "expected the name of a pass, found ''a''"),
        ("a=1", " ^", "expected the name of a pass, found '='"),
        ("[a]", "^", "expected the name of a pass, found '['"),
    ],
)
def test_a_mistake_is_pointed_at(text, caret, what):
    with pytest.raises(PipelineSyntaxError) as raised:
        parse_pipeline(text)
    assert raised.value.what == what
    assert raised.value.excerpt == f"  {text}\n  {caret}"
    assert str(raised.value) == f"pipeline: {what}\n  {text}\n  {caret}"
    assert isinstance(raised.value, UsageError)
    assert raised.value.exit_code is ExitCode.USAGE


def test_the_caret_stands_in_the_line_of_the_mistake():
    with pytest.raises(PipelineSyntaxError) as raised:
        parse_pipeline("a, # first\n  b{x=}\n, c")
    assert raised.value.excerpt == "    b{x=}\n        ^"


def test_the_caret_follows_tabs():
    with pytest.raises(PipelineSyntaxError) as raised:
        parse_pipeline("a\n\tb,,c")
    assert raised.value.excerpt == "  \tb,,c\n  \t  ^"


@pytest.mark.parametrize("text", ["f(" * 200 + "a" + ")" * 200, "f(" * 100_000, "a{x=" + "[" * 200 + "]" * 200 + "}"])
def test_too_deep_a_nesting_is_a_mistake_and_no_crash(text):
    with pytest.raises(PipelineSyntaxError, match="more than 50 levels of nesting"):
        parse_pipeline(text)


def test_nesting_in_turn_is_not_deep():
    assert len(parse_pipeline("f(g(a)) " * 200)) == 200
    assert len(parse_pipeline("a{x=[[1], [2]]} " * 200)) == 200
    with pytest.raises(PipelineSyntaxError, match="levels of nesting"):
        parse_pipeline("a{x=[[1], [2]]} f(g(a)) " * 200 + "f(" * 51)


def test_brackets_in_quotes_and_comments_do_not_nest():
    assert parse_pipeline("a{x='" + "(" * 200 + "'} # " + "(" * 200)[0].name == "a"
