"""Names of passes: spellings, groups, aliases, clashes, the index and plugins."""

import importlib.metadata
import json
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.core.base import Analysis, Transformation
from onnx_passes.core.claims import Claim
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import RegistrationError, UnknownPassError
from onnx_passes.core.options import Option, Size, option
from onnx_passes.core.registry import PLUGINS, Entry, Registry, Resolved


def make(class_name: str, *, module: str = __name__, base: type = Transformation, **body) -> type[Transformation]:
    """Return a new pass class; its module decides whether it redefines another of its name."""
    return type(class_name, (base,), {"__module__": module, "call": lambda self, model: None, **body})


@pytest.fixture
def registry(monkeypatch) -> Registry:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    return Registry()


def names_of(found: Resolved) -> list[str]:
    return [entry.name for entry in found.entries]


@pytest.mark.parametrize(
    "spelling", ["FuseBatchNorm", "fuse-batch-norm", "fuse_batch_norm", "fuse-batchnorm", "FUSEBATCHNORM"]
)
def test_all_spellings_find_the_pass(registry, spelling):
    cls = registry.register(make("FuseBatchNorm"))
    found = registry.find(spelling)
    assert found == Resolved("fuse-batch-norm", (registry.entries()[0],))
    assert registry.load(found.entries[0]) is cls


def test_a_name_that_spells_the_class_name_is_the_own_name_and_no_group(registry):
    cls = registry.register(make("FuseBatchNorm"), "fuse-batchnorm", "fuse")
    assert cls.text_name == "fuse-batchnorm"
    assert cls().name == "fuse-batchnorm"
    (entry,) = registry.entries()
    assert (entry.name, entry.groups) == ("fuse-batchnorm", ("fuse",))


def test_a_subclass_does_not_take_the_name_of_its_parent(registry):
    parent = registry.register(make("Parent"), "PARENT")
    assert parent().name == "PARENT"
    assert make("Child", base=parent)().name == "child"


def test_an_entry_tells_what_is_known_without_importing(registry):
    class Everything(Transformation):
        """Do everything.

        At once.
        """

        needs = ("first",)
        followed_by = ("last",)
        preserves = ("facts",)
        claims = (Claim("equality"), Claim("tolerance", {"atol": 0.5}))
        max_size: Size = option(10, "bytes at most")

    registry.register(Everything, "big", tags=["a", "b"], aliases={"little": "max-size=1"})
    (entry,) = registry.entries()
    assert entry.line > 0
    assert entry.place == f"{__name__}:{entry.line}"
    assert entry.summary == "Do everything."
    assert entry == Entry(
        name="everything",
        class_name="Everything",
        module=__name__,
        line=entry.line,
        kind="transformation",
        groups=("big",),
        tags=("a", "b"),
        aliases={"little": "max-size=1"},
        options=(Option("max-size", "size", "10", "bytes at most"),),
        needs=("first",),
        followed_by=("last",),
        preserves=("facts",),
        claims=("equality", "tolerance(atol=0.5)"),
        doc="Do everything.\n\nAt once.",
    )


def test_declarations_may_be_lists(registry):
    registry.register(make("Listed", needs=["a"], followed_by=["b"], preserves=["c"]))
    entry = registry.find("listed").entries[0]
    assert (entry.needs, entry.followed_by, entry.preserves) == (("a",), ("b",), ("c",))


def test_documentation_is_not_inherited(registry):
    registry.register(make("Silent"))
    assert registry.find("silent").entries[0].doc == ""


def test_a_sequence_names_its_members(registry):
    registry.register(make("Both", base=ComposePass, passes=("first", make("Second"))))
    assert registry.find("both").entries[0].members == ("first", "Second")


def test_an_option_may_be_called_passes(registry):
    class Repeat(Transformation):
        passes: str = option("three")

    registry.register(Repeat)
    entry = registry.find("repeat").entries[0]
    assert (entry.members, [o.name for o in entry.options]) == ((), ["passes"])


def test_a_group_runs_its_members_in_registration_order(registry):
    for name in ("Zebra", "Apple", "Mango"):
        registry.register(make(name), "fruit", *(["sour"] if name != "Mango" else []))
    registry.register(make("Lonely"))
    found = registry.find("fruit")
    assert found.is_group
    assert (found.name, names_of(found)) == ("fruit", ["zebra", "apple", "mango"])
    assert names_of(registry.find("sour")) == ["zebra", "apple"]
    assert {group: [e.name for e in members] for group, members in registry.groups().items()} == {
        "fruit": ["zebra", "apple", "mango"],
        "sour": ["zebra", "apple"],
    }


def test_a_group_has_all_members_however_each_spells_it(registry):
    registry.register(make("First"), "my-group")
    registry.register(make("Second"), "my_group")
    registry.register(make("Third"), "MyGroup", "my-group")
    assert names_of(registry.find("my-group")) == ["first", "second", "third"]
    assert list(registry.groups()) == ["my-group"]


def test_a_group_of_one_is_just_another_name(registry):
    registry.register(make("Only"), "sole")
    found = registry.find("sole")
    assert not found.is_group
    assert names_of(found) == ["only"]


def test_an_alias_presets_options(registry):
    registry.register(make("ConvertOpset"), aliases={"convert-opset18": "version=18", "convert": ""})
    assert registry.find("ConvertOpset18") == Resolved(
        "convert-opset18", tuple(registry.entries()), preset="version=18"
    )
    assert registry.find("convert").preset == ""


def test_tags_are_no_names(registry):
    registry.register(make("Tagged"), tags=("label",))
    assert registry.find("tagged").entries[0].tags == ("label",)
    with pytest.raises(UnknownPassError):
        registry.find("label")


def test_all_names_are_listed_once_and_sorted(registry):
    registry.register(make("Banana"), "fruit", aliases={"yellow": ""})
    registry.register(make("Apple"), "fruit", tags=("red",))
    assert registry.names() == ["apple", "banana", "fruit", "yellow"]
    assert [entry.name for entry in registry.entries()] == ["apple", "banana"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fold-constant", "did you mean 'fold-constants'?"),
        ("FoldConstant", "did you mean 'fold-constants'?"),
        ("clean", "did you mean 'cleanup'?"),
        ("qqqq", "'onnx-passes list' shows all names"),
        ("", "'onnx-passes list' shows all names"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(registry, name, hint):
    registry.register(make("FoldConstants"), "cleanup")
    with pytest.raises(UnknownPassError) as raised:
        registry.find(name)
    assert str(raised.value) == f"there is no pass or group named '{name}'; {hint}"


def test_two_passes_of_one_name_are_an_error_that_names_both_places(registry):
    registry.register(make("FuseBatchNorm", module="first.module"))
    with pytest.raises(RegistrationError) as raised:
        registry.register(make("FuseBatchnorm", module="second.module"))
    message = str(raised.value)
    assert message == (
        "two passes are named 'fuse-batchnorm': first.module and second.module; rename one of the classes"
    )
    assert registry.find("fuse-batchnorm").entries[0].module == "first.module"


def test_places_have_line_numbers(registry):
    class Twice(Transformation):
        """The first."""

    registry.register(Twice)
    line = registry.find("twice").entries[0].line
    assert Path(__file__).read_text().splitlines()[line - 1] == "    class Twice(Transformation):"
    with pytest.raises(RegistrationError, match=f"two passes are named 'twice': {__name__}:{line} and elsewhere"):
        registry.register(make("Twice", module="elsewhere"))


def test_the_same_module_may_define_its_pass_again(registry):
    registry.register(make("First"), "group")
    registry.register(make("Again", doc="old"), "group", aliases={"more": ""})
    registry.register(make("Last"), "group")
    new = registry.register(make("Again"), "group", aliases={"more": "x=1"})
    assert registry.load(registry.find("again").entries[0]) is new
    assert registry.find("more").preset == "x=1"
    assert names_of(registry.find("group")) == ["first", "again", "last"]


def test_redefinition_may_leave_a_group(registry):
    registry.register(make("Again"), "group")
    registry.register(make("Again"))
    with pytest.raises(UnknownPassError):
        registry.find("group")


CLASHES = [
    ((("First",), {}), (("Second", "first"), {}), "'first' of pass 'second'"),
    ((("First", "second"), {}), (("Second",), {}), "'second' of pass 'second'"),
    ((("First",), {}), (("Second",), {"aliases": {"FIRST": ""}}), "'FIRST' of pass 'second'"),
    ((("First",), {"aliases": {"second": ""}}), (("Second",), {}), "'second' of pass 'second'"),
    ((("First",), {"aliases": {"short": ""}}), (("Second",), {"aliases": {"Short": ""}}), "'Short' of pass 'second'"),
    ((("First",), {"aliases": {"my-group": ""}}), (("Second", "my_group"), {}), "'my_group' of pass 'second'"),
    ((("First", "my-group"), {}), (("Second",), {"aliases": {"my_group": ""}}), "'my_group' of pass 'second'"),
]


@pytest.mark.parametrize(("first", "second", "clash"), CLASHES)
def test_a_name_may_not_stand_for_two_things(registry, first, second, clash):
    (class_name, *groups), options = first
    registry.register(make(class_name, module="one"), *groups, **options)
    before = registry.names()
    (class_name, *groups), options = second
    with pytest.raises(RegistrationError) as raised:
        registry.register(make(class_name, module="two"), *groups, **options)
    assert str(raised.value) == f"{clash} (two) already names 'first' (one); choose another name"
    assert registry.names() == before


def test_the_own_name_may_be_repeated_as_alias_and_group(registry):
    registry.register(make("Own"), "own", "OWN", aliases={"own": ""})
    assert names_of(registry.find("own")) == ["own"]


def test_claims_of_later_decorators_are_noted(registry):
    cls = registry.register(make("Late"))
    cls.claims = (Claim("equality"),)
    registry.refresh(cls)
    assert registry.find("late").entries[0].claims == ("equality",)


def test_claims_of_a_class_that_is_not_registered_are_not_noted(registry):
    registry.register(make("Late"))
    other = make("Late")
    other.claims = (Claim("equality"),)
    registry.refresh(other)
    registry.refresh(make("Unknown"))
    assert registry.find("late").entries[0].claims == ()


texts = st.text(max_size=6)
tuples = st.lists(texts, max_size=2).map(tuple)


@given(
    st.builds(
        Entry,
        name=texts,
        class_name=texts,
        module=texts,
        line=st.integers(0, 9),
        kind=st.sampled_from(["analysis", "annotation", "transformation", "sequence"]),
        groups=tuples,
        tags=tuples,
        aliases=st.dictionaries(texts, texts, max_size=2),
        options=st.lists(st.builds(Option, texts, texts, texts, texts), max_size=2).map(tuple),
        needs=tuples,
        followed_by=tuples,
        preserves=tuples,
        members=tuples,
        claims=tuples,
        doc=texts,
    ).filter(lambda entry: entry.name and entry.class_name and entry.module)
)
def test_an_entry_survives_json(entry):
    assert Entry.from_json(json.loads(json.dumps(entry.to_json()))) == entry


def test_what_is_empty_is_not_written():
    assert Entry("a", "A", "m").to_json() == {
        "name": "a",
        "class_name": "A",
        "module": "m",
        "kind": "transformation",
    }


PACKAGED = """
from registry_under_test import registry
from onnx_passes import Transformation

class {cls}(Transformation):
    def call(self, model):
        raise NotImplementedError

registry.register({cls}, {groups})
"""


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Return a function that makes a module, and the registry with an index of such modules."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    folder = tmp_path / "packaged"
    folder.mkdir()
    (folder / "__init__.py").write_text("")

    def module(name: str, cls: str, groups: str = "") -> str:
        (folder / f"{name}.py").write_text(PACKAGED.format(cls=cls, groups=groups))
        return f"packaged.{name}"

    def indexed(*entries: Entry) -> Registry:
        index = tmp_path / "index.json"
        index.write_text(json.dumps([entry.to_json() for entry in entries]))
        registry = Registry(index)
        holder = types.ModuleType("registry_under_test")
        holder.registry = registry
        monkeypatch.setitem(sys.modules, "registry_under_test", holder)
        return registry

    yield types.SimpleNamespace(module=module, indexed=indexed)
    for name in set(sys.modules) - before:
        if name.startswith("packaged"):
            del sys.modules[name]


def test_the_index_answers_without_importing_and_the_pass_is_imported_when_needed(package):
    module = package.module("lazy", "LazyPass", "'sluggish'")
    registry = package.indexed(Entry("lazy-pass", "LazyPass", module, groups=("sluggish",), doc="Be lazy."))
    assert registry.names() == ["lazy-pass", "sluggish"]
    entry = registry.find("sluggish").entries[0]
    assert entry.summary == "Be lazy."
    assert module not in sys.modules
    assert registry.load(entry).__name__ == "LazyPass"
    assert module in sys.modules


def test_groups_are_known_from_the_index_at_once(package):
    registry = package.indexed(Entry("a", "A", "m", groups=("g",)), Entry("b", "B", "m", groups=("g",)))
    assert [entry.name for entry in registry.groups()["g"]] == ["a", "b"]


def test_order_in_a_group_is_that_of_the_index_whatever_is_imported_first(package):
    first, second = package.module("first", "First", "'both'"), package.module("second", "Second", "'both'")
    registry = package.indexed(
        Entry("first", "First", first, groups=("both",)), Entry("second", "Second", second, groups=("both",))
    )
    registry.load(registry.find("second").entries[0])
    assert names_of(registry.find("both")) == ["first", "second"]


def test_a_users_pass_may_not_take_the_name_of_an_indexed_one(package):
    registry = package.indexed(Entry("taken", "Taken", "packaged.taken", line=7))
    with pytest.raises(RegistrationError, match=r"two passes are named 'taken': packaged.taken:7 and users"):
        registry.register(make("Taken", module="users"))


def test_an_index_entry_that_its_module_does_not_know_is_an_error(package):
    module = package.module("renamed", "NewName")
    registry = package.indexed(Entry("old-name", "OldName", module))
    with pytest.raises(RegistrationError) as raised:
        registry.load(registry.find("old-name").entries[0])
    assert str(raised.value) == (
        f"module '{module}' does not register the pass 'old-name' of the index; recreate the index with 'make index'"
    )


def test_an_index_entry_whose_module_is_gone_is_an_error(package):
    registry = package.indexed(Entry("gone", "Gone", "packaged.gone"))
    with pytest.raises(RegistrationError, match=r"module 'packaged.gone' of pass 'gone' cannot be imported") as raised:
        registry.load(registry.find("gone").entries[0])
    assert isinstance(raised.value.__cause__, ImportError)


def test_a_missing_index_is_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    assert Registry(tmp_path / "none.json").names() == []


class Plugin:
    """An installed entry point."""

    def __init__(self, load):
        self.name, self.value, self.load = "extra", "extra.passes", load


def offer(monkeypatch, *loaders) -> list[str]:
    asked: list[str] = []

    def entry_points(group):
        asked.append(group)
        return [Plugin(loader) for loader in loaders]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return asked


def test_plugins_are_loaded_once_when_a_name_is_not_known(monkeypatch):
    registry = Registry()
    asked = offer(monkeypatch, lambda: registry.register(make("FromPlugin", module="extra.passes")))
    registry.register(make("Known"))
    registry.find("known")
    assert asked == []
    assert registry.find("from-plugin").entries[0].module == "extra.passes"
    with pytest.raises(UnknownPassError):
        registry.find("nobody")
    registry.names()
    assert asked == [PLUGINS]


@pytest.mark.parametrize("question", [Registry.entries, Registry.names, Registry.groups])
def test_lists_include_plugins(monkeypatch, question):
    registry = Registry()
    offer(monkeypatch, lambda: registry.register(make("FromPlugin", module="extra.passes"), "grouped"))
    assert len(question(registry)) == {Registry.names: 2}.get(question, 1)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'extra'"), AttributeError("no attribute 'x'"), SyntaxError("odd")]
)
def test_a_broken_plugin_is_named(monkeypatch, error):
    def load():
        raise error

    offer(monkeypatch, load)
    with pytest.raises(RegistrationError) as raised:
        Registry().entries()
    assert str(raised.value) == (
        f"plugin 'extra' (extra.passes) cannot be imported: {error}; repair or uninstall the package that offers it"
    )
    assert raised.value.__cause__ is error


def test_a_plugin_that_takes_a_known_name_is_an_error_that_names_both(monkeypatch):
    registry = Registry()
    registry.register(make("Known", module="ours"))
    offer(monkeypatch, lambda: registry.register(make("Known", module="extra.passes")))
    with pytest.raises(RegistrationError, match=r"two passes are named 'known': ours and extra.passes"):
        registry.names()


def test_kinds_are_noted(registry):
    registry.register(make("Look", base=Analysis))
    assert registry.find("look").entries[0].kind == "analysis"
