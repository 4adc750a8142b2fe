"""From names, text, classes and objects to passes."""

from collections.abc import Mapping

import onnx_ir as ir
import onnx_ir.passes.common as stock
import pytest

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.build import collect
from onnx_passes.core.compose import ComposePass, Fixpoint, Group
from onnx_passes.core.defaults import resolve_names
from onnx_passes.core.errors import OptionError, RegistrationError, UsageError
from onnx_passes.core.foreign import ForeignPass
from onnx_passes.core.options import named_by_user, option
from onnx_passes.core.pipeline import PipelineSyntaxError
from onnx_passes.core.registry import REGISTRY, Registry


class Nop(Transformation):
    def call(self, model):
        return PassResult(model, modified=False)


class First(Nop):
    count: int = option(1)
    max_size: int = option(10)


class Second(Nop):
    pass


class Third(Nop):
    pass


class Open(Nop):
    sizes: Mapping[str, object] = named_by_user("dimension, and its size")
    keep_it: bool = option(False)


class Around(ComposePass):
    passes = ("open",)


class Pair(ComposePass):
    passes = ("first", "second")


class Outer(ComposePass):
    passes = ("fixpoint{max=4}(pair, first{count=9})", Third, "both")


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(First, "both", aliases={"first-of-five": "count=5, max-size=7"})
    registry.register(Second, "both")
    registry.register(Third, "alone")
    registry.register(Open)
    registry.register(Around)
    registry.register(Pair)
    registry.register(Outer)
    registry.register(Fixpoint)
    return registry


def texts(what, registry, **kwargs) -> list[str]:
    return [str(p) for p in collect(what, registry=registry, **kwargs)]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("first", ["first"]),
        ("first{count=2} Second", ["first{count=2}", "second"]),
        (["first, second", "third"], ["first", "second", "third"]),
        (("first", Second, Third()), ["first", "second", "third"]),
        (Second, ["second"]),
        (First(count=3), ["first{count=3}"]),
        ("both", ["both"]),
        ("alone", ["third"]),
        ("first-of-five", ["first{count=5, max-size=7}"]),
        ("first-of-five{count=6}", ["first{count=6, max-size=7}"]),
        ("FirstOfFive{max_size=8}", ["first{count=5, max-size=8}"]),
        ("pair", ["pair"]),
        ("fixpoint{max=3}(first{count=2}, fixpoint(both))", ["fixpoint{max=3}(first{count=2}, fixpoint(both))"]),
        ("fixpoint()", ["fixpoint()"]),
        ("", []),
        ([], []),
        ((name for name in ("first", "second")), ["first", "second"]),
    ],
)
def test_names_text_classes_and_objects_are_resolved(registry, what, expected):
    assert texts(what, registry) == expected


@pytest.mark.parametrize("text", ["first{count=2}, both, pair, fixpoint{max=3}(first, alone, fixpoint(second))"])
def test_what_was_built_prints_as_text_that_builds_it_again(registry, text):
    built = ", ".join(texts(text, registry))
    assert ", ".join(texts(built, registry)) == built


def test_an_object_stays_the_same_object(registry):
    given = First()
    assert collect([given], registry=registry)[0] is given


def test_each_mention_of_a_name_is_a_pass_of_its_own(registry):
    first, second = collect("first first", registry=registry)
    assert first is not second


def test_a_group_is_one_pass_with_its_members(registry):
    (group,) = collect("both", registry=registry)
    assert isinstance(group, Group)
    assert (group.name, [type(member) for member in group.body]) == ("both", [First, Second])


def test_options_from_the_configuration_hold_unless_the_text_says_otherwise(registry):
    defaults = {"first": {"count": 7, "max-size": "8"}, "third": {}}
    assert texts("first", registry, defaults=defaults) == ["first{count=7, max-size=8}"]
    assert texts("first{count=2}", registry, defaults=defaults) == ["first{count=2, max-size=8}"]
    assert texts("first-of-five", registry, defaults=defaults) == ["first{count=5, max-size=7}"]
    assert texts("fixpoint(first)", registry, defaults=defaults) == ["fixpoint(first{count=7, max-size=8})"]
    (group,) = collect("both", registry=registry, defaults=defaults)
    assert str(group.body[0]) == "first{count=7, max-size=8}"


def inside(pass_) -> list[str]:
    """List the passes in a sequence that are no sequences themselves."""
    members = getattr(pass_, "body", None)
    return [str(pass_)] if members is None else [text for member in members for text in inside(member)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pair{first.count=3}", "first{count=3} second"),
        ("pair{First.count=3, first.max_size=4}", "first{count=3, max-size=4} second"),
        ("both{first.count=3}", "first{count=3} second"),
        ("fixpoint{first.count=3}(first, pair)", "first{count=3} first{count=3} second"),
        ("outer", "first second first{count=9} third first second"),
        ("outer{first.count=3}", "first{count=3} second first{count=3} third first{count=3} second"),
        ("outer{pair.first.count=3}", "first{count=3} second first{count=9} third first second"),
        ("outer{both.first.count=3}", "first second first{count=9} third first{count=3} second"),
        (
            "outer{pair.first.count=3, first.count=2}",
            "first{count=3} second first{count=2} third first{count=2} second",
        ),
    ],
)
def test_options_reach_members(registry, text, expected):
    (made,) = collect(text, registry=registry)
    assert " ".join(inside(made)) == expected
    (again,) = collect(str(made), registry=registry)
    assert (str(again), inside(again)) == (str(made), inside(made))


def test_the_configuration_goes_before_what_a_sequence_writes_to_its_own_members(registry):
    (made,) = collect("outer", registry=registry, defaults={"first": {"count": 5}})
    assert inside(made) == ["first{count=5}", "second", "first{count=5}", "third", "first{count=5}", "second"]
    (again,) = collect(str(made), registry=registry)
    assert inside(again) == inside(made)
    (made,) = collect("outer{first.count=6}", registry=registry, defaults={"first": {"count": 5}})
    assert set(inside(made)) == {"first{count=6}", "second", "third"}


def test_a_sequence_with_a_constructor_of_its_own_passes_nothing_on(registry):
    class ByHand(ComposePass):
        passes = ("first",)

        def __init__(self):
            self.body = self.passes

    registry.register(ByHand)
    assert inside(collect("by-hand", registry=registry)[0]) == ["first"]
    with pytest.raises(PipelineSyntaxError, match="'by-hand' makes its members itself"):
        collect("by-hand{first.count=2}", registry=registry)


def test_a_class_takes_options_of_the_configuration_too(registry):
    assert texts(First, registry, defaults={"first": {"count": 5}}) == ["first{count=5}"]


@pytest.mark.parametrize("name", ["first", "First", "FIRST"])
@pytest.mark.parametrize("key", ["max-size", "max_size", "MaxSize"])
@pytest.mark.parametrize("written", ["max-size", "max_size", "MaxSize"])
def test_spelling_does_not_decide_what_wins(registry, name, key, written):
    defaults = {name: {key: 3}}
    assert texts("first", registry, defaults=defaults) == ["first{max-size=3}"]
    assert texts(f"first-of-five{{{written}=4}}", registry, defaults=defaults) == ["first{count=5, max-size=4}"]


@pytest.mark.parametrize("names", ["n=1, N=2", "a-b=1, a_b=2, A_B=3", "Keep-It=1, KeepIt=2", "m.x=1, M.X=2"])
def test_names_that_users_choose_are_taken_as_they_are_spelt(registry, names):
    wanted = dict(one.split("=") for one in names.split(", "))
    for keep in ("keep-it", "keep_it"):
        (made,) = collect(f"open{{{names}, {keep}=true}}", registry=registry)
        assert (made.sizes, made.keep_it) == (wanted, True)
    members = ", ".join(f"open.{one}" for one in names.split(", "))
    (around,) = collect(f"around{{{members}}}", registry=registry)
    assert around.body[0].sizes == wanted
    assert collect(str(around), registry=registry)[0].body[0].sizes == wanted
    (configured,) = collect("open", registry=registry, defaults={"open": wanted})
    assert configured.sizes == wanted


def test_names_that_users_choose_stay_as_they_are_in_nested_configuration(registry):
    given = {"around": {"open": {"n": 1, "N": 2}}, "First": {"max_size": 3}}
    assert resolve_names(given, registry) == {"around": {"open.n": 1, "open.N": 2}, "first": {"max-size": 3}}
    with pytest.raises(OptionError, match="'MaxSize' of 'first' is given twice"):
        resolve_names({"first": {"max-size": 3, "MaxSize": 3}}, registry)


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        ("first, secund", "       ^", "there is no pass or group named 'secund'; did you mean 'second'?"),
        ("fixpoint(first, secund)", "                ^", "there is no pass or group named 'secund'"),
        ("both{count=1}", "^", "'both' has no option 'count', but a member has; write both{first.count=1}"),
        ("both{speed=1}", "^", "group 'both' has no options; give them to its members"),
        (
            "third, pair{count=1}",
            "       ^",
            "'pair' has no option 'count', but a member has; write pair{first.count=1}",
        ),
        ("pair{speed=1}", "^", "pass 'pair' has no option 'speed'; options of 'pair': it has none"),
        ("pair{frist.count=1}", "^", "'pair' has no member 'frist'; did you mean 'first'?"),
        ("first{max-size=1, max_size=2}", "^", "option 'max_size' of 'first' is given twice; '-', '_' and case do not"),
        ("pair{first.max-size=1, First.MaxSize=2}", "^", "option 'First.MaxSize' of 'pair' is given twice"),
        ("open{keep-it=1, keep_it=1}", "^", "option 'keep_it' of 'open' is given twice"),
        ("pair{first.cuont=1}", "^", "pass 'first' has no option 'cuont'; did you mean 'count'?"),
        ("pair{first.count=x}", "^", "option 'count' of pass 'first' does not take 'x'; it takes a whole number"),
        ("third{first.count=1}", "^", "pass 'third' has no option 'first.count'"),
        ("fixpoint{first.count=1}(second)", "^", "'fixpoint' has no member 'first'"),
        ("outer{pair.second.count=1}", "^", "pass 'second' has no option 'count'"),
        ("first, both(third)", "       ^", "group 'both' takes no nested pipeline; write a comma between passes"),
        ("third(first)", "^", "pass 'third' takes no nested pipeline; write a comma between passes"),
        ("third, pair(first)", "       ^", "pass 'pair' takes no nested pipeline; write a comma between passes"),
        ("third fixpoint", "      ^", "pass 'fixpoint' needs a nested pipeline; as in fixpoint(cleanup)"),
        ("fixpoint{max=0}(first)", "^", "option 'max' of pass 'fixpoint' does not take 0; it takes 1 or more"),
        ("fixpoint{max=x}(first)", "^", "option 'max' of pass 'fixpoint' does not take 'x'; it takes a whole number"),
    ],
)
def test_mistakes_are_pointed_at(registry, text, caret, message):
    with pytest.raises(PipelineSyntaxError) as raised:
        collect(text, registry=registry)
    assert message in str(raised.value)
    assert str(raised.value).endswith(f"\n  {text}\n  {caret}")


@pytest.mark.parametrize("what", [[42], [None], [int], [object()], ["first", ir.Model]])
def test_what_is_no_pass_is_refused(registry, what):
    with pytest.raises(UsageError, match="is not a pass; give a name, pipeline text, or a pass as class or object"):
        collect(what, registry=registry)


def test_passes_of_onnx_ir_are_taken_as_classes_and_objects(registry):
    by_class, by_object = collect([stock.NameFixPass, stock.TopologicalSortPass()], registry=registry)
    assert isinstance(by_class, ForeignPass)
    assert [p.name for p in (by_class, by_object)] == ["name-fix", "topological-sort"]


class TestGlobalRegistry:
    """What authors use."""

    @pytest.fixture(autouse=True)
    def empty_registry(self, monkeypatch):
        for name, value in vars(Registry()).items():
            monkeypatch.setattr(REGISTRY, name, value)

    def test_registered_by_decorator(self):
        @passes.register("group-of-two", tags=("t",), aliases={"other-name": ""})
        class Made(Nop):
            """Made here."""

        @passes.register("group-of-two")
        class MadeToo(Nop):
            """Made here, too."""

        assert Made.text_name == "made"
        assert [str(p) for p in collect("other-name, group-of-two, MadeToo")] == [
            "made",
            "group-of-two",
            "made-too",
        ]

    def test_the_parentheses_may_not_be_forgotten(self):
        with pytest.raises(RegistrationError, match=r"register takes names, not a pass; write '@passes.register\(\)'"):
            passes.register(Nop)

    def test_what_is_no_pass_is_refused(self):
        with pytest.raises(RegistrationError, match="'dict' is no pass"):
            passes.register("name")(dict)
        with pytest.raises(RegistrationError, match="'int' is no pass"):
            passes.register("name")(3)

    def test_passes_of_onnx_ir_are_registered_as_they_are(self):
        assert passes.register("fixed-names")(stock.NameFixPass) is stock.NameFixPass
        passes.register("SortPass")(stock.TopologicalSortPass())
        passes.register()(stock.CheckerPass)
        fixed, sort, sort_too, checker = collect("fixed-names, SortPass, sort, checker")
        assert [str(p) for p in (fixed, sort, sort_too, checker)] == ["fixed-names", "sort", "sort", "checker"]
        assert isinstance(fixed.inner, stock.NameFixPass)
        assert isinstance(sort.inner, stock.TopologicalSortPass)
