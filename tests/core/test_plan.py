"""The plan: needs before, followers after, nothing twice, no cycles."""

import pytest

from onnx_passes.core.base import Analysis, Annotation, PassResult, Transformation
from onnx_passes.core.compose import ComposePass, Fixpoint
from onnx_passes.core.errors import OptionError, PlanError, UnknownPassError
from onnx_passes.core.options import option
from onnx_passes.core.pipeline import PipelineSyntaxError
from onnx_passes.core.plan import ValidPasses, Why, plan
from onnx_passes.core.registry import REGISTRY, Registry


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    for name, value in vars(Registry()).items():
        monkeypatch.setattr(REGISTRY, name, value)
    REGISTRY.register(Fixpoint)


def make(name: str, *groups: str, base: type = Transformation, **declared) -> type:
    """Register a pass with the given declarations."""
    body = {"call": lambda self, model: PassResult(model, modified=False), **declared}
    return REGISTRY.register(type(name.capitalize(), (base,), {"__module__": __name__, **body}), *groups)


def make_with_option(name: str, **declared) -> type:
    return make(name, __annotations__={"level": int}, level=option(0), **declared)


def shown(what, **kwargs) -> list[str]:
    """Return the steps as text with why each is there, members indented."""
    return ["  " * depth + f"{step.text}: {step.why}" for depth, step in plan(what, **kwargs).walk()]


def order(what, **kwargs) -> str:
    return " ".join(step.text for _, step in plan(what, **kwargs).walk())


def test_without_declarations_the_plan_is_what_was_asked_for():
    for name in "abc":
        make(name)
    assert shown("b, a, c, a") == ["b: requested", "a: requested", "c: requested", "a: requested"]


def test_what_is_needed_comes_before_recursively():
    make("c", base=Annotation)
    make("b", base=Annotation, needs=("c",))
    make("a", needs=("b",))
    assert shown("a") == ["c: needed by b", "b: needed by a", "a: requested"]


def test_needs_come_in_the_order_of_their_declaration():
    for name in "bcd":
        make(name, base=Annotation)
    make("a", needs=("d", "b", "c"))
    assert order("a") == "d b c a"


def test_what_still_holds_is_not_repeated():
    make("fact", base=Analysis)
    make("look", base=Analysis, needs=("fact",))
    make("note", base=Annotation, needs=("fact",))
    assert order("look, note, look") == "fact look note look"
    assert order("fact, look") == "fact look"


def test_a_transformation_ends_what_it_does_not_preserve():
    make("fact", base=Analysis)
    make("other", base=Analysis)
    make("change", needs=("fact",))
    make("careful", needs=("fact",), preserves=("fact",))
    make("harmless", needs=("fact", "other"), preserves=("*",))
    make("both", preserves=("fact", "*"))
    assert order("change, change") == "fact change fact change"
    assert order("careful, careful") == "fact careful careful"
    assert order("harmless, careful, harmless") == "fact other harmless careful other harmless"
    assert order("harmless, both, harmless") == "fact other harmless both harmless"


@pytest.mark.parametrize("spelling", ["my-fact", "MyFact", "my_fact", "MYFACT"])
def test_needs_and_preserves_take_any_spelling(spelling):
    REGISTRY.register(type("MyFact", (Analysis,), {"__module__": __name__}))
    make("a", needs=(spelling,), preserves=(spelling,))
    assert order("a a") == "my-fact a a"


def test_a_pass_holds_only_with_the_options_that_it_ran_with():
    make_with_option("fact", base=Analysis)
    make("low", base=Analysis, needs=("fact",))
    make("high", base=Analysis, needs=("fact{level=2}",))
    assert order("low, high, low, high") == "fact low fact{level=2} high low high"
    assert order("fact{level=2}, high, low") == "fact{level=2} high fact low"
    assert order("fact{level=0}, low") == "fact low"


def test_options_of_the_configuration_hold_for_what_is_needed_too():
    make_with_option("fact", base=Analysis)
    make("a", needs=("fact",), followed_by=("fact",))
    defaults = {"fact": {"level": 3}}
    assert order("a", defaults=defaults) == "fact{level=3} a fact{level=3}"
    assert order("fact{level=3}, a", defaults=defaults) == "fact{level=3} a fact{level=3}"
    assert order("fact{level=1}, a", defaults=defaults) == "fact{level=1} fact{level=3} a fact{level=3}"
    assert order("fixpoint(a)", defaults=defaults).startswith("fixpoint(a) fact{level=3} a")


def test_followers_come_after_recursively():
    make("c")
    make("b", followed_by=("c",))
    make("a", followed_by=("b",))
    assert shown("a") == ["a: requested", "b: follows a", "c: follows b"]


def test_a_follower_that_is_asked_for_anyway_is_not_repeated():
    make("clean")
    make("a", followed_by=("clean",))
    make("b", followed_by=("clean",))
    assert shown("a, clean") == ["a: requested", "clean: requested"]
    assert order("a, b, clean") == "a clean b clean"
    assert order("a, clean, clean") == "a clean clean"
    assert order("clean, a") == "clean a clean"
    assert order("a, CLEAN") == "a clean"


def test_a_follower_may_need_something():
    make("fact", base=Analysis)
    make("clean", needs=("fact",))
    make("a", followed_by=("clean",))
    assert shown("a") == ["a: requested", "fact: needed by clean", "clean: follows a"]


def test_a_follower_is_no_certainty_for_later_passes():
    make("clean", preserves=("*",))
    make("a", followed_by=("clean",))
    make("b", base=Analysis, needs=("clean",))
    assert shown("a, b") == ["a: requested", "clean: follows a", "clean: needed by b", "b: requested"]
    assert order("clean, a, b") == "clean a clean clean b"


def test_what_held_before_and_is_preserved_still_holds_after_a_follower():
    make("fact", base=Analysis)
    make("clean", preserves=("*",))
    make("a", followed_by=("clean",), preserves=("fact",))
    make("b", base=Analysis, needs=("fact",))
    assert order("fact, a, b") == "fact a clean b"


def test_groups_and_sequences_have_the_plan_of_their_members():
    make("fact", base=Analysis)
    make("a", "both", needs=("fact",))
    make("b", "both")
    make("frame", base=ComposePass, passes=("b", "both"))
    assert shown("frame") == [
        "frame: requested",
        "  b: member of frame",
        "  both: member of frame",
        "    fact: needed by a",
        "    a: member of both",
        "    b: member of both",
    ]


def test_sequences_have_needs_and_followers_of_their_own():
    make("fact", base=Analysis)
    make("clean")
    make("a")
    make("frame", base=ComposePass, passes=("a",), needs=("fact",), followed_by=("clean",))
    assert shown("frame") == [
        "fact: needed by frame",
        "frame: requested",
        "  a: member of frame",
        "clean: follows frame",
    ]


def test_a_sequence_may_be_needed_and_holds_afterwards():
    make("x", base=Annotation)
    make("frame", base=ComposePass, passes=("x",))
    make("a", base=Analysis, needs=("frame",))
    make("b", base=Analysis, needs=("x",))
    assert shown("a, a, b") == [
        "frame: needed by a",
        "  x: member of frame",
        "a: requested",
        "a: requested",
        "b: requested",
    ]


def test_a_group_may_be_needed():
    make("x", "facts", base=Annotation)
    make("y", "facts", base=Annotation)
    make("a", needs=("facts",), preserves=("facts",))
    assert order("a a") == "facts x y a a"


def test_each_round_of_a_fixpoint_has_what_it_needs():
    make("fact", base=Analysis)
    make("a", needs=("fact",))
    make("once", base=ComposePass, passes=("a",))
    assert order("fact, once") == "fact once a"
    assert order("fact, fixpoint(a)") == "fact fixpoint(a) fact a"
    assert order("fact, fixpoint{max=1}(a)") == "fact fixpoint{max=1}(a) a"


def test_a_fixpoint_may_stand_in_a_fixpoint():
    make("a")
    assert shown("fixpoint(a, fixpoint{max=2}(a))") == [
        "fixpoint(a, fixpoint{max=2}(a)): requested",
        "  a: member of fixpoint",
        "  fixpoint{max=2}(a): member of fixpoint",
        "    a: member of fixpoint",
    ]


def test_the_plan_is_stable():
    make("fact", base=Analysis)
    for name in "abcdef":
        make(name, needs=("fact",), followed_by=("fact",))
    text = "c, a, fixpoint(f, b), d, e"
    assert {order(text) for _ in range(20)} == {order(text)}
    assert plan(text).pipeline == text


def test_the_pipeline_is_what_was_asked_for_not_what_was_added():
    make("fact", base=Analysis)
    make_with_option("a", needs=("fact",))
    made = plan(["a{level=1}", "A"])
    assert made.pipeline == "a{level=1}, a"
    assert len(made.steps) == 4


def test_reasons_are_words():
    assert [str(Why(reason, "x")) for reason in ("requested", "needed", "follows", "member")] == [
        "requested",
        "needed by x",
        "follows x",
        "member of x",
    ]


@pytest.mark.parametrize(
    ("declared", "text", "chain"),
    [
        ({"a": {"needs": ("a",)}}, "a", "a → a"),
        ({"a": {"needs": ("b",)}, "b": {"needs": ("a",)}}, "a", "a → b → a"),
        ({"a": {"needs": ("b",)}, "b": {"needs": ("a",)}}, "b", "b → a → b"),
        ({"x": {"needs": ("a",)}, "a": {"needs": ("b",)}, "b": {"needs": ("a",)}}, "x", "a → b → a"),
        ({"a": {"followed_by": ("b",)}, "b": {"followed_by": ("a",)}}, "a", "a → b → a"),
        ({"a": {"followed_by": ("a",)}}, "a", "a → a"),
        ({"a": {"needs": ("b",)}, "b": {"followed_by": ("a",)}}, "a", "a → b → a"),
        ({"a": {"base": ComposePass, "passes": ("a",)}}, "a", "a → a"),
        (
            {"a": {"base": ComposePass, "passes": ("b",)}, "b": {"base": ComposePass, "passes": ("a",)}},
            "b",
            "b → a → b",
        ),
        ({"a": {"base": ComposePass, "passes": ("b",)}, "b": {"needs": ("a",)}}, "a", "a → b → a"),
        ({"a": {"base": ComposePass, "passes": ("fixpoint(a)",)}}, "a", "a → fixpoint → a"),
        ({"a": {"needs": ("fixpoint(a)",)}}, "fixpoint(a)", "a → fixpoint → a"),
    ],
)
def test_a_cycle_is_refused_and_the_chain_named(declared, text, chain):
    for name, declarations in declared.items():
        make(name, **declarations)
    with pytest.raises(PlanError) as raised:
        plan(text)
    assert str(raised.value) == (
        f"passes depend on each other in a cycle: {chain}; "
        "remove one of the 'needs', 'followed_by' or 'passes' declarations"
    )


def test_a_cycle_through_a_group_is_refused():
    make("a", "facts", needs=("facts",))
    make("b", "facts")
    with pytest.raises(PlanError, match="a → facts → a"):
        plan("a")
    with pytest.raises(PlanError, match="a → facts → a"):
        plan("facts")


def test_a_pass_that_follows_what_it_needs_is_no_cycle_where_it_holds():
    make("a", followed_by=("b",))
    make("b", needs=("a",))
    assert order("a") == "a b"


def test_the_same_pass_in_turn_is_no_cycle():
    make("fact", base=Analysis)
    make("a", needs=("fact",), followed_by=("fact",))
    assert order("a, a") == "fact a fact fact a fact"


def test_an_unknown_need_names_the_nearest():
    make("cleanup")
    make("a", needs=("cleanpu",))
    with pytest.raises(PipelineSyntaxError, match="there is no pass or group named 'cleanpu'; did you mean 'cleanup'"):
        plan("a")


def test_a_long_chain_of_needs_is_planned():
    make("p0", base=Annotation)
    for index in range(1, 100):
        make(f"p{index}", base=Annotation, needs=(f"p{index - 1}",))
    assert order("p99") == " ".join(f"p{index}" for index in range(100))


def test_facts_end_with_a_change_and_not_without():
    make("fact", base=Analysis)
    change = make("change")()
    fact = REGISTRY.load(REGISTRY.find("fact").entries[0])()
    facts = ValidPasses()
    facts.after(fact, modified=False)
    facts.after(change, modified=False)
    assert fact in facts
    assert change in facts
    facts.after(change, modified=True)
    assert fact not in facts
    assert change in facts


def test_options_that_nothing_takes_are_an_error():
    make_with_option("fact", base=Analysis)
    make("a", needs=("fact",))
    make("b")
    assert order("a", defaults={"Fact": {"level": 3}}) == "fact{level=3} a"
    with pytest.raises(OptionError, match="options: no pass takes the options of 'fact': it is not in the pipeline"):
        plan("b", defaults={"fact": {"level": 3}})
    with pytest.raises(OptionError, match="options: pass 'a' has no option 'level'; options of 'a': it has none"):
        plan("b", defaults={"a": {"level": 3}})
    with pytest.raises(OptionError, match="options: pass 'fact' has no option 'levle'; did you mean 'level'"):
        plan("b", defaults={"fact": {"levle": 3}}, optional=["fact"])
    with pytest.raises(UnknownPassError, match="options: there is no pass or group named 'fcat'; did you mean 'fact'"):
        plan("b", defaults={"fcat": {"level": 3}})
    with pytest.raises(OptionError, match="or was given as an object"):
        plan(REGISTRY.load(REGISTRY.find("fact").entries[0])(), defaults={"fact": {"level": 3}})
    assert order("b", defaults={"fact": {"level": 3}}, optional=["Fact"]) == "b"
    assert order("b", defaults={"fact": {}}) == "b"


def test_options_of_members_may_be_nested():
    make_with_option("fact", base=Analysis)
    REGISTRY.register(type("Both", (ComposePass,), {"passes": ("fact",), "__module__": __name__}))
    assert order("both", defaults={"both": {"fact": {"level": 3}}}) == "both{fact.level=3} fact{level=3}"
    assert order("both", defaults={"both": {"fact.level": 3}}) == "both{fact.level=3} fact{level=3}"
    with pytest.raises(OptionError, match=r"'both' has no option 'level', but a member has; write both{fact\.level=3}"):
        plan("both", defaults={"both": {"level": 3}})
