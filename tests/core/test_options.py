"""Options are typed, checked with a message that helps, and print as text that sets them again."""

import dataclasses
import enum
import importlib
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onnx_passes.core.base import Transformation
from onnx_passes.core.build import collect
from onnx_passes.core.errors import OptionError, UsageError
from onnx_passes.core.options import (
    Option,
    Size,
    convert,
    describe,
    fields_of,
    format_value,
    internal,
    option,
    parse_options,
    quote,
    type_name,
)
from onnx_passes.core.pipeline import PipelineSyntaxError, parse_pipeline
from onnx_passes.core.registry import Registry

OldStyle = Optional[float]  # noqa: UP045 - users write it


class Mode(enum.Enum):
    FAST = "fast"
    SMALL = "small"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Silent(Transformation):
    def call(self, model):
        raise NotImplementedError


class AllKinds(Silent):
    flag: bool = option(False, "turn it on")
    count: int = option(3)
    ratio: float = option(0.5)
    text: str = option("plain")
    max_size: Size = option(1024, "bytes at most")
    mode: Mode = option(Mode.FAST)
    level: Level = option(Level.LOW)
    choice: Literal["left", "right", 3] = option("left")
    limit: int | None = option(None)
    old_style: OldStyle = option(None)
    many: tuple[int, ...] = option(())
    names: list[str] = option(["a", "b"])
    some: Sequence[float] = option(())
    pair: tuple[int, str] = option((1, "one"))
    plain: list = option([])
    anything: Any = option(None)
    secret: object = internal(None)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(AllKinds)
    return registry


@pytest.mark.parametrize(
    ("hint", "given", "value"),
    [
        (bool, "true", True),
        (bool, "Yes", True),
        (bool, "on", True),
        (bool, "1", True),
        (bool, "false", False),
        (bool, "NO", False),
        (bool, "off", False),
        (bool, "0", False),
        (bool, True, True),
        (bool, False, False),
        (int, "42", 42),
        (int, "-7", -7),
        (int, "+7", 7),
        (int, "1_000", 1000),
        (int, " 5 ", 5),
        (int, 5, 5),
        (float, "0.5", 0.5),
        (float, "1e-5", 1e-5),
        (float, "inf", float("inf")),
        (float, "3", 3.0),
        (float, 3, 3.0),
        (str, " keeps  spaces ", " keeps  spaces "),
        (str, "", ""),
        (str, "5", "5"),
        (Size, "4096", 4096),
        (Size, "4096B", 4096),
        (Size, "1MB", 10**6),
        (Size, "1 mb", 10**6),
        (Size, "64KiB", 65536),
        (Size, "1.5GiB", 3 * 2**29),
        (Size, "1.15MB", 1_150_000),
        (Size, 4096, 4096),
        (Size, "9007199254740993", 2**53 + 1),
        (Annotated[int, "meters"], "7", 7),
        (Mode, "small", Mode.SMALL),
        (Mode, Mode.SMALL, Mode.SMALL),
        (Level, "2", Level.HIGH),
        (Level, 2, Level.HIGH),
        (Literal["left", "right", 3], "right", "right"),
        (Literal["left", "right", 3], "3", 3),
        (int | None, "none", None),
        (int | None, None, None),
        (int | None, "4", 4),
        (OldStyle, "none", None),
        (OldStyle, "4", 4.0),
        (Size | None, "1kB", 1000),
        (int | str, "four", "four"),
        (int | str, "4", 4),
        (tuple[int, ...], ["1", "2"], (1, 2)),
        (tuple[int, ...], [], ()),
        (tuple[int, ...], "1", (1,)),
        (tuple[int, ...], 1, (1,)),
        (list[float], ("1", 2), [1.0, 2.0]),
        (list[str], "ab", ["ab"]),
        (Sequence[Mode], ["small"], (Mode.SMALL,)),
        (list[list[int]], [["1"], []], [[1], []]),
        (tuple[int, str], ["1", "2"], (1, "2")),
        (list, "a", ["a"]),
        (tuple, ["a", "b"], ("a", "b")),
        (tuple[int, ...] | None, "none", None),
        (tuple[int, ...] | None, ["3"], (3,)),
        (Any, "as it is", "as it is"),
    ],
)
def test_values_become_what_the_type_says(hint, given, value):
    converted = convert(given, hint)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("hint", "given", "takes"),
    [
        (bool, "maybe", "true or false"),
        (bool, "", "true or false"),
        (bool, 2, "true or false"),
        (int, "1.5", "a whole number"),
        (int, 1.0, "a whole number"),
        (int, "", "a whole number"),
        (int, "1__0", "a whole number"),
        (int, "1_", "a whole number"),
        (int, "0x10", "a whole number"),
        (int, True, "a whole number"),
        (int, None, "a whole number"),
        (int, ["1"], "a whole number"),
        (float, "fast", "a number"),
        (float, "", "a number"),
        (float, True, "a number"),
        (str, 5, "text"),
        (str, ["a"], "text"),
        (str, None, "text"),
        (Size, "-1", "a size such as 4096, 64KiB or 1MB"),
        (Size, "1 parsec", "a size such as 4096, 64KiB or 1MB"),
        (Size, "MB", "a size such as 4096, 64KiB or 1MB"),
        (Size, True, "a size such as 4096, 64KiB or 1MB"),
        (Mode, "FAST", "one of fast, small"),
        (Level, "3", "one of 1, 2"),
        (Literal["left", 3], "up", "one of left, 3"),
        (int | None, "some", "a whole number or none"),
        (int | float, "some", "a whole number or a number"),
        (tuple[int, ...], ["1", "b"], "a whole number"),
        (tuple[int, str], ["1"], "a list of 2"),
        (tuple[int, str], ["1", "2", "3"], "a list of 2"),
        (list[Mode], ["quick"], "one of fast, small"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(hint, given, takes):
    with pytest.raises(ValueError, match=f"^{takes}$"):
        convert(given, hint)


def test_a_wrong_value_names_option_pass_value_and_type():
    with pytest.raises(OptionError) as raised:
        parse_options(AllKinds, {"max-size": "huge"}, owner="all-kinds")
    assert str(raised.value) == (
        "option 'max-size' of pass 'all-kinds' does not take 'huge'; it takes a size such as 4096, 64KiB or 1MB"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max-sise", "did you mean 'max-size'?"),
        ("maxsize", "did you mean 'max-size'?"),
        ("secret", "options of 'all-kinds': flag, count"),
        ("kind", "options of 'all-kinds': flag, count"),
    ],
)
def test_an_unknown_option_names_the_nearest_or_all(name, hint):
    with pytest.raises(OptionError, match=f"pass 'all-kinds' has no option '{name}'") as raised:
        parse_options(AllKinds, {name: "1"}, owner="all-kinds")
    assert raised.value.hint.startswith(hint)


def test_a_pass_without_options_says_so():
    with pytest.raises(OptionError) as raised:
        parse_options(Silent, {"x": "1"}, owner="silent")
    assert str(raised.value) == "pass 'silent' has no option 'x'; options of 'silent': it has none"


@pytest.mark.parametrize("spelling", ["max-size", "max_size", "MaxSize"])
def test_option_names_have_the_three_spellings_of_pass_names(spelling):
    assert parse_options(AllKinds, {spelling: "1kB"}, owner="p") == {"max_size": 1000}


def test_text_and_python_objects_are_taken_alike():
    from_text = parse_options(AllKinds, {"flag": "true", "mode": "small", "many": ["1"], "limit": "none"}, owner="p")
    from_python = parse_options(AllKinds, {"flag": True, "mode": Mode.SMALL, "many": (1,), "limit": None}, owner="p")
    assert from_text == from_python == {"flag": True, "mode": Mode.SMALL, "many": (1,), "limit": None}


def test_options_are_described_for_people():
    described = {o.name: o for o in describe(AllKinds)}
    assert "secret" not in described
    assert described["flag"] == Option("flag", "true | false", "false", "turn it on")
    assert described["max-size"] == Option("max-size", "size", "1024", "bytes at most")
    assert {name: o.type for name, o in described.items()} == {
        "flag": "true | false",
        "count": "integer",
        "ratio": "number",
        "text": "text",
        "max-size": "size",
        "mode": "fast | small",
        "level": "1 | 2",
        "choice": "left | right | 3",
        "limit": "integer or none",
        "old-style": "number or none",
        "many": "list of integer",
        "names": "list of text",
        "some": "list of number",
        "pair": "[integer, text]",
        "plain": "list of text",
        "anything": "Any",
    }
    assert (described["limit"].default, described["names"].default, described["many"].default) == (
        "none",
        "[a, b]",
        "[]",
    )


def test_a_type_by_another_name_is_named_by_it():
    assert type_name(bytes) == "bytes"
    assert type_name(Annotated[float, "metres"]) == "number"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (1, "1"),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (Mode.SMALL, "small"),
        (Level.HIGH, "2"),
        ("word", "word"),
        ("two words", '"two words"'),
        ("", '""'),
        ('"', '"\\""'),
        ("\\", "\\"),
        ("\\ ", '"\\\\ "'),
        ((1, 2), "[1, 2]"),
        (["a b", []], '["a b", []]'),
    ],
)
def test_values_print_as_pipeline_text(value, text):
    assert format_value(value) == text


@given(st.text(max_size=12))
@example("a=b")
@example("{}")
@example("#")
@example("\u2003")
def test_quoted_text_is_read_as_one_value(text):
    assert parse_pipeline(f"p{{x={quote(text)}}}")[0].options == (("x", text),)


def test_only_what_differs_from_the_default_is_printed():
    assert str(AllKinds()) == "all-kinds"
    assert str(AllKinds(count=3, names=["a", "b"], many=())) == "all-kinds"
    assert str(AllKinds(count=4, max_size=2048)) == "all-kinds{count=4, max-size=2048}"
    assert repr(AllKinds(flag=True)) == "all-kinds{flag=true}"


numbers = st.integers(-(10**20), 10**20)
floats = st.floats(allow_nan=False)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "flag": st.booleans(),
            "count": numbers,
            "ratio": floats,
            "text": st.text(max_size=8),
            "max_size": st.integers(0, 10**20),
            "mode": st.sampled_from(Mode),
            "level": st.sampled_from(Level),
            "choice": st.sampled_from(["left", "right", 3]),
            "limit": st.none() | numbers,
            "old_style": st.none() | floats,
            "many": st.lists(numbers, max_size=3).map(tuple),
            "names": st.lists(st.text(max_size=5), max_size=3),
            "some": st.lists(floats, max_size=3).map(tuple),
            "pair": st.tuples(numbers, st.text(max_size=3)),
        },
    )
)
def test_a_pass_prints_as_text_that_builds_it_again(values):
    registry = Registry()
    registry.register(AllKinds)
    made = AllKinds(**values)
    (again,) = collect(str(made), registry=registry)
    assert dataclasses.asdict(again) == dataclasses.asdict(made)
    assert str(again) == str(made)


def test_a_mutable_default_is_not_shared(registry):
    first, second = AllKinds(), AllKinds()
    first.names.append("c")
    assert second.names == ["a", "b"] == AllKinds().names


def test_options_are_inherited_and_may_be_changed(registry):
    class Base(Silent):
        first: int = option(1)
        second: str = option("base")

    class Derived(Base):
        second: int = option(2)
        third: bool = option(False)

    assert list(fields_of(Derived)) == ["first", "second", "third"]
    assert parse_options(Derived, {"first": "5", "second": "6", "third": "on"}, owner="d") == {
        "first": 5,
        "second": 6,
        "third": True,
    }
    assert parse_options(Base, {"second": "six"}, owner="b") == {"second": "six"}
    assert str(Derived(first=5)) == "derived{first=5}"


def test_annotations_that_are_no_options_are_left_alone():
    class Pass(Silent):
        table: ClassVar[dict[str, int]] = {}
        shown: int = 3
        hidden: object = internal(default_factory=list)

    assert list(fields_of(Pass)) == ["shown"]
    assert Pass(hidden=[1]).hidden == [1]
    assert str(Pass(hidden=[1])) == "pass"


USERS_MODULE = """
from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Literal

from onnx_passes import Size, Transformation, option

if TYPE_CHECKING:
    from nowhere import Unknown


class Colour(enum.Enum):
    RED = "red"


class Paint(Transformation):
    class Tone(enum.Enum):
        DARK = "dark"

    colour: Colour = option(Colour.RED)
    tone: Tone = option(Tone.DARK)
    max_size: Size = option(5)
    side: Literal["left"] = option("left")
    count: int | None = option(None)
    table: ClassVar[Unknown] = None
    odd: Unknown = option("odd")
"""


def test_types_are_found_in_the_module_of_the_class_that_declares_them(monkeypatch, tmp_path):
    (tmp_path / "paint_of_a_user.py").write_text(USERS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("paint_of_a_user")

    class Here(module.Paint):
        mode: Mode = option(Mode.FAST)

    given = {"colour": "red", "tone": "dark", "max-size": "1kB", "count": "4", "mode": "small", "odd": "any text"}
    assert parse_options(Here, given, owner="here") == {
        "colour": module.Colour.RED,
        "tone": module.Paint.Tone.DARK,
        "max_size": 1000,
        "count": 4,
        "mode": Mode.SMALL,
        "odd": "any text",
    }
    assert [o.type for o in describe(Here)] == [
        "red",
        "dark",
        "size",
        "left",
        "integer or none",
        "text",
        "fast | small",
    ]


def test_a_class_may_write_its_own_init():
    class Own(Silent):
        def __init__(self, number, *, word="w"):
            self.number, self.word = number, word

    class Inherits(Own):
        """Nothing new."""

    assert (Own(3).number, Own(3).word) == (3, "w")
    assert (Inherits(4, word="v").number, Inherits(4, word="v").word) == (4, "v")
    assert str(Inherits(4)) == "inherits"


def test_a_class_with_its_own_init_may_have_options_too(registry):
    class Own(Silent):
        count: int = option(1)

        def __init__(self, count=1):
            self.count = count * 2

    registry.register(Own)
    (made,) = collect("own{count=3}", registry=registry)
    assert made.count == 6
    assert str(made) == "own{count=6}"


def test_a_value_that_the_class_refuses_is_a_usage_error(registry):
    class Picky(Silent):
        count: int = option(1)

        def __post_init__(self):
            if self.count > 10:
                raise ValueError("count is too large")

    class Demanding(Silent):
        count: int

    registry.register(Picky)
    registry.register(Demanding)
    with pytest.raises(UsageError, match="pass 'picky' cannot be set up: count is too large"):
        collect("picky{count=11}", registry=registry)
    with pytest.raises(UsageError, match=r"pass 'demanding' cannot be set up: .*count"):
        collect("demanding", registry=registry)
    assert collect("demanding{count=2}", registry=registry)[0].count == 2


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        ("all-kinds{cout=1}", "^", "pass 'all-kinds' has no option 'cout'; did you mean 'count'?"),
        ("all-kinds, all-kinds{count=x}", "           ^", "option 'count' of pass 'all-kinds' does not take 'x'"),
    ],
)
def test_an_option_that_does_not_fit_is_pointed_at(registry, text, caret, message):
    with pytest.raises(PipelineSyntaxError) as raised:
        collect(text, registry=registry)
    assert message in str(raised.value)
    assert str(raised.value).endswith(f"\n  {text}\n  {caret}")
