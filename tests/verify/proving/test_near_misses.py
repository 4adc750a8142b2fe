"""What a method proves it no longer proves after a small change that ONNX Runtime tells from what was there."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from onnx_passes.core.records import Application, NodeUpdate, StepRecord
from onnx_passes.proofs.proof import Proof
from onnx_passes.verify import proving
from onnx_passes.verify.proving import here
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.here import prove_here
from onnx_passes.verify.proving.same_definition import prove_same_definition
from tests.verify.proving.near_misses import finite, labelled, same_definition, scaled, shapes, steps
from tests.verify.proving.near_misses.pairs import Pair, differs


@pytest.fixture(autouse=True)
def foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let errors of methods fail tests, but for those that unforeseen numbers and shapes raise."""
    monkeypatch.setattr(here, "_UNFORESEEN", (ArithmeticError, LookupError, ValueError))


METHODS = (
    "coefficients",
    "congruence",
    "constants",
    "finite",
    "labelled",
    "real_steps",
    "reshaped",
    "scaled",
    "shapes",
    "steps",
)
LEAST = 20


def _module(method: str) -> ModuleType:
    return importlib.import_module(f"tests.verify.proving.near_misses.{method}")


def pairs(method: str) -> tuple[Pair, ...]:
    return _module(method).PAIRS


def beyond(method: str) -> float:
    """Return what rounding may do, where a method leaves out rounding."""
    return getattr(_module(method), "BEYOND", 0.0)


def method_of(method: str) -> str:
    return importlib.import_module(f"onnx_passes.verify.proving.{method}").METHOD


def _require_refused(pair: Pair) -> None:
    found = pair.proof()
    assert not isinstance(found, Proof), found


def _require_different(pair: Pair, least: float) -> None:
    results = list(pair.results())
    assert any(each is None or differs(*each, beyond=least) for each in results), "ONNX Runtime sees no difference"


PAIRS = [
    pytest.param(method, pair, id=f"{method}-{place}") for method in METHODS for place, pair in enumerate(pairs(method))
]
MISSES = [
    pytest.param(changed, beyond(method), id=f"{method}-{place}-{name}")
    for method in METHODS
    for place, pair in enumerate(pairs(method))
    for name, changed in pair.near_misses()
]


@pytest.mark.parametrize(("method", "pair"), PAIRS)
def test_a_pair_is_proved(method: str, pair: Pair):
    found = pair.proof()
    assert isinstance(found, Proof), found
    assert found.method == method_of(method)


@pytest.mark.parametrize(("changed", "least"), MISSES)
def test_a_near_miss_is_refused(changed: Pair, least: float):
    _require_refused(changed)
    _require_different(changed, least)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_its_near_misses(method: str):
    assert sum(1 for pair in pairs(method) for _ in pair.near_misses()) >= LEAST


LOOKALIKES = [
    pytest.param(pair, beyond(method), id=f"{method}-{place}")
    for method in METHODS
    for place, pair in enumerate(getattr(_module(method), "LOOKALIKES", ()))
]


@pytest.mark.parametrize(("pair", "least"), LOOKALIKES)
def test_what_looks_like_a_pair_is_refused(pair: Pair, least: float):
    _require_refused(pair)
    _require_different(pair, least)


@pytest.mark.parametrize(
    "pair", [finite.SIGNED, finite.PLACED, labelled.FILLED, *scaled.INEXACT, *steps.DIPS, steps.STACKED]
)
def test_what_only_looks_like_a_pair_is_refused(pair: Pair):
    _require_refused(pair)


@pytest.mark.parametrize(("signature", "before", "after"), shapes.SIZES_NOT_KNOWN)
def test_what_a_type_makes_of_sizes_is_refused(signature: str, before: str, after: str):
    _require_refused(Pair(signature, before, after, constants=shapes.CONSTANTS))


RENAMED = [
    pytest.param(renaming, update, update is renaming.right, id=f"{place}-{number}")
    for place, renaming in enumerate(same_definition.RENAMINGS)
    for number, update in enumerate((renaming.right, *renaming.wrong))
]


@pytest.mark.parametrize(("renaming", "update", "right"), RENAMED)
def test_a_renaming_keeps_the_definition_or_is_refused(
    renaming: same_definition.Renaming, update: same_definition.Update, *, right: bool
):
    model = renaming.model()
    node = model.graph[0]
    step = StepRecord(1, "planted", "planted", "")
    application = Application(1, step, "planted", "", model.graph, node, (node,), (node,), (), ())
    application.update = NodeUpdate(update.fields, update.attributes)
    found = prove_here(application, Facts(model))
    assert isinstance(found, Proof) == right, found


@pytest.mark.parametrize(
    ("node", "op_type", "domain"),
    [
        ("some.where.Foo(x)", "Bar", "some.where"),
        (f"{same_definition.QONNX}.BipolarQuant(x, m)", "XnorPopcountMatMul", same_definition.QONNX),
    ],
)
def test_operators_that_look_alike_are_not_renamed(node: str, op_type: str, domain: str):
    model = same_definition.Renaming(node, same_definition.Update(), ()).model()
    found = prove_same_definition(model.graph[0], NodeUpdate({"op_type": op_type, "domain": domain}, {}))
    assert not isinstance(found, Proof)


def test_renamings_have_their_near_misses():
    assert sum(len(renaming.wrong) for renaming in same_definition.RENAMINGS) >= LEAST


def test_no_method_is_without_near_misses():
    folder = Path(proving.__file__).parent
    named = {path.stem for path in folder.glob("*.py") if "\nMETHOD = " in path.read_text()}
    # Accounts prove that nothing is computed otherwise, of whole steps.
    assert named - {"accounts"} == {*METHODS, "same_definition"}
