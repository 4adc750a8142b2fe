import importlib.metadata
import sys
import warnings
from collections.abc import Iterator

import onnx_ir as ir
import pytest

from onnx_passes.core.errors import RegistrationError
from onnx_passes.graph import operators
from onnx_passes.graph.operators import INTERFACES, Interface, Operator, interfaces_of
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.graph.traits import operators as with_traits


@pytest.fixture
def colour() -> Iterator[Interface[str]]:
    yield Interface("colour", "what it looks like")
    del INTERFACES["colour"]


def node(name: str, domain: str = "") -> ir.Node:
    return ir.Node(domain, name, [])


def test_answers_for_the_operator_of_a_node(colour: Interface[str]):
    colour.attach({"Relu": "red"})
    colour.attach({"Relu": "blue"}, domains=("mine", "yours"))
    assert colour.get(node("Relu")) == "red"
    assert colour.get(node("Relu", "ai.onnx")) == "red"
    assert colour.get(node("Relu", "yours")) == "blue"
    assert colour.get(node("Relu", "theirs")) is None
    assert colour.standard() == {"Relu": "red"}


def test_decorates(colour: Interface[str]):
    shades: Interface[object] = colour  # pyright: ignore[reportAssignmentType]

    @shades.of("Elu", "Celu")
    def shade() -> None: ...

    assert colour.named("Elu") is colour.named("Celu") is shade


def test_takes_names_and_domains_of_a_definition(colour: Interface[str]):
    class Mine(Operator):
        name, aliases, domains = "Mine", ("OldMine",), ("a", "b")

    colour.of(Mine)("green")
    assert set(colour.table()) == {("a", "Mine"), ("a", "OldMine"), ("b", "Mine"), ("b", "OldMine")}
    assert [interface.name for interface in interfaces_of(Mine)] == ["colour"]


def test_refuses_two_answers(colour: Interface[str]):
    colour.attach({"Relu": "red"})
    with pytest.raises(RegistrationError, match=r"'colour' of ai.onnx::Relu is attached twice: 'red' and 'blue'"):
        colour.attach({"Relu": "blue"})
    colour.attach({"Relu": "red"})


def test_a_function_that_is_defined_again_takes_the_place_of_the_old_one(colour: Interface[str]):
    functions: Interface[object] = colour  # pyright: ignore[reportAssignmentType]

    def make() -> object:
        def rule() -> None: ...

        return rule

    functions.attach({"Relu": make()})
    again = make()
    functions.attach({"Relu": again})
    assert functions.named("Relu") is again


def test_built_in_answers_are_imported_when_somebody_asks(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "home_of_colours.py").write_text(
        "from onnx_passes.graph.operators import INTERFACES\nINTERFACES['colour'].attach({'Relu': 'red'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    colour: Interface[str] = Interface("colour", "what it looks like", "home_of_colours")
    assert "home_of_colours" not in sys.modules
    assert colour.get(node("Relu")) == "red"
    del INTERFACES["colour"], sys.modules["home_of_colours"]


def plugins(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    found = importlib.metadata.EntryPoint("mine", value, operators.PLUGINS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [found] if group == operators.PLUGINS else [])
    monkeypatch.setattr(operators, "_waiting", [operators.PLUGINS])


def test_operators_of_installed_packages_are_found(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "package_of_mine.py").write_text(
        "from onnx_passes.graph.operators import INTERFACES\nINTERFACES['colour'].of('Mine', domains=['mine'])('red')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins(monkeypatch, "package_of_mine")
    colour: Interface[str] = Interface("colour", "what it looks like")
    assert colour.get(node("Mine", "mine")) == "red"
    del INTERFACES["colour"], sys.modules["package_of_mine"]


def test_a_package_that_fails_is_left_out_with_a_warning(colour: Interface[str], monkeypatch: pytest.MonkeyPatch):
    plugins(monkeypatch, "there_is_no_such_module")
    with pytest.warns(UserWarning, match="operators of 'mine' .* are left out: No module named"):
        assert colour.get(node("Relu")) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert colour.get(node("Relu")) is None


def test_traits_are_an_interface():
    assert INTERFACES["traits"] is TRAITS
    assert traits_of("Add").commutative
    assert not traits_of(node("Add", "mine")).commutative
    assert with_traits("elementwise", arity=1, involution=True) == ("Neg", "Not", "BitwiseNot", "Reciprocal")
