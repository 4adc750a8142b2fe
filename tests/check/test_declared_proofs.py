"""Nothing is proved by declaration: what passes, plug-ins and models say ends below a proof, or is caught.

In most attacks the new nodes compute what the old ones did but for one number that no sample hits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Annotation, EditorPass, RewriteRulePass, Transformation, passes
from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.evidence import findings_in
from onnx_passes.core.records import Application
from onnx_passes.graph.operators import INTERFACES
from onnx_passes.graph.tensor_types import set_datatype, set_declared_bounds
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.facts.signs import POSITIVE_ZEROS
from onnx_passes.ops.semantics.exact import set_exact_value
from onnx_passes.proofs.model_certificate import certify, differences
from tests.passes.tools import model_of

MAGIC = np.float32(1234.5)
FLOOR = "g (float[4] x) => (float[4] y) { y = Floor (x) }"
ODD = """<domain: "DOMAIN", opset_import: ["" : 18]> Odd (a) => (b) {
    c = Constant <value = float {1234.5}> () d = Equal (a, c) e = Constant <value = float {0.5}> () b = Where (d, e, a)
}"""


def level_of(model: ir.Model, pipeline: Iterable[object]) -> str:
    """Apply passes; what verification or the manager stops is caught."""
    try:
        return onnx_passes.apply(model, list(pipeline)).record.level
    except OnnxPassesError:
        return "caught"


def is_proved(level: str) -> bool:
    return any(finding.is_proof for finding in findings_in(level))


@passes.verify.equality
class Sneaky(Transformation, RewriteRulePass):
    """Replace Floor by another function of one number."""

    def pattern(self, op, x):
        return op.Floor(x)

    def check(self, op, x):
        return not any(use[0].op_type == "Equal" for use in x.uses())

    def rewrite(self, op, x):
        return op.Where(op.Equal(x, np.array(MAGIC)), np.array(7, np.float32), op.Floor(x))


class SneakyWithFlags(Sneaky):
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")


def test_a_wrong_rewrite_that_no_sample_shows_is_not_proved() -> None:
    assert level_of(model_of(FLOOR), [Sneaky()]) == "bits:sampled"


def test_flags_of_fast_math_prove_nothing() -> None:
    assert not is_proved(level_of(model_of(FLOOR), [SneakyWithFlags()]))


class DeclaresType(Annotation):
    def call(self, model):
        set_datatype(model.graph.inputs[0], "UINT2")
        return PassResult(model, modified=True)


class DeclaresBounds(Annotation):
    def call(self, model):
        set_declared_bounds(model.graph.inputs[0], (0.0, 3.0))
        return PassResult(model, modified=True)


class DeclaresInside(Annotation):
    def call(self, model):
        for node in model.graph:
            for value in node.outputs:
                set_datatype(value, "UINT2")
                set_declared_bounds(value, (0.0, 3.0))
        return PassResult(model, modified=True)


@pytest.mark.parametrize("lie", [DeclaresType, DeclaresBounds, DeclaresInside])
def test_what_a_pass_declares_of_inputs_or_values_proves_nothing(lie: type[Annotation]) -> None:
    assert not is_proved(level_of(model_of(FLOOR), [lie(), Sneaky()]))


def test_an_assumed_declaration_is_named() -> None:
    record = onnx_passes.apply(model_of(FLOOR), [DeclaresType(), Sneaky()]).record
    assert any(
        "x is UINT2" in proof.facts and proof.known == "tested" for step in record.leaves() for proof in step.proofs
    )


def test_what_the_original_model_declares_is_its_domain() -> None:
    model = model_of(FLOOR)
    set_datatype(model.graph.inputs[0], "UINT2")
    found = onnx_passes.apply(model, [Sneaky()]).record
    assert found.level == "bits:proved-here"
    assert any("where x is UINT2" in proof.facts for step in found.leaves() for proof in step.proofs)


def test_annotations_inside_the_model_prove_nothing() -> None:
    model = model_of("g (float[4] x) => (float[4] y) { z = Exp (x) y = Floor (z) }")
    for value in model.graph[0].outputs:
        set_datatype(value, "UINT2")
        set_declared_bounds(value, (0.0, 3.0))
        value.metadata_props["range"] = "[0, 3]"
    assert not is_proved(level_of(model, [Sneaky()]))


def clipped(domain: str) -> ir.Model:
    """Return the clipped floor of what an operator makes of its input, which is the input but for one number."""
    text = f"g (float[4] x) => (float[4] y) <float lo = {{0}}, float hi = {{3}}> {{ z = {domain}.Odd (x) "
    model = model_of(
        text + "w = Clip (z, lo, hi) y = Floor (w) }\n" + ODD.replace("DOMAIN", domain), domains=f'"{domain}" : 1'
    )
    for node in model.graph:
        node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.FLOAT, ir.Shape([4])
    return model


def dropping(domain: str) -> RewriteRulePass:
    @passes.verify.equality
    class DropsOdd(Transformation, RewriteRulePass):
        def pattern(self, op, x, lo, hi):
            return op.Floor(op.Clip(op.Odd(x, _domain=domain), lo, hi))

        def rewrite(self, op, x, lo, hi):
            return op.Floor(op.Clip(x, lo, hi))

    return DropsOdd()


def _lying_traits(domain: str) -> None:
    known = INTERFACES["traits"].table()["", "Neg"]
    lie = dataclasses.replace(known, involution=False, monotone=1, parity=0, undoes="")
    INTERFACES["traits"].attach({"Odd": lie}, domains=(domain,))


def _lying_semantics(domain: str) -> None:
    table = INTERFACES["semantics"].table()
    INTERFACES["semantics"].attach({"Odd": lambda *given: table["", "Identity"](*given)}, domains=(domain,))


def _lying_ranges(domain: str) -> None:
    table = INTERFACES["ranges"].table()
    INTERFACES["ranges"].attach({"Odd": lambda site: table["", "Sign"](site)}, domains=(domain,))


def _lying_forms(domain: str) -> None:
    INTERFACES["scaled_form"].attach({"Odd": lambda *given: given[-1]}, domains=(domain,))


LIES = {
    "traits": _lying_traits,
    "semantics": _lying_semantics,
    "ranges": _lying_ranges,
    "positive zeros": lambda domain: POSITIVE_ZEROS.attach({"Odd": lambda *_: True}, domains=(domain,)),
    "scaled forms": lambda domain: INTERFACES["scaled_form"].attach(
        {"Odd": lambda *given: given[-1]}, domains=(domain,)
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_plug_in_says_of_an_operator_proves_nothing(lie: str) -> None:
    domain = f"lies.{lie.replace(' ', '')}"
    LIES[lie](domain)
    assert not is_proved(level_of(clipped(domain), [dropping(domain)]))


def test_an_entry_of_a_plug_in_is_named_as_assumption() -> None:
    _lying_traits("lies.named")
    proofs = [
        p for s in onnx_passes.apply(clipped("lies.named"), [dropping("lies.named")]).record.leaves() for p in s.proofs
    ]
    assert any(f"'traits' of lies.named::Odd is as {__name__} says" in proof.facts for proof in proofs)


def test_a_revised_entry_of_a_standard_operator_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    traits = INTERFACES["traits"]
    for name in ("_table", "_outside"):
        monkeypatch.setattr(traits, name, dict(getattr(traits, name)))
    lie = dataclasses.replace(traits.table()["", "Neg"], involution=False, monotone=1, parity=0, undoes="")
    traits.revise("Sin", "", lambda _: lie)

    @passes.verify.equality
    class DropsSine(Transformation, RewriteRulePass):
        def pattern(self, op, x, lo, hi):
            return op.Floor(op.Clip(op.Sin(x), lo, hi))

        def rewrite(self, op, x, lo, hi):
            return op.Clip(op.Floor(op.Sin(x)), lo, hi)

    text = "g (float[4] x) => (float[4] y) <float lo = {0}, float hi = {3}> "
    text += "{ z = Sin (x) w = Clip (z, lo, hi) y = Floor (w) }"
    assert not is_proved(level_of(model_of(text), [DropsSine()]))


SCALED = "g (float[4] x) => (float[4] y) <float c = {2}> { z = Mul (x, c) y = Round (z) }"


def another_two() -> Reals:
    return Reals.of(np.array(np.nextafter(np.float32(2), np.float32(3))))


@passes.verify.tolerance
class StoresExactValue(EditorPass):
    """Store another exact value of a constant that is there, beside a rewrite that is right."""

    def edit(self, model, editor):
        set_exact_value(model.graph.initializers["c"], another_two())
        node = model.graph[0]
        if not node.name:
            with editor.rewrite("relabel", node) as r:
                new = r.op.Mul(*node.inputs)
                new.producer().name = "done"
                r.replace(node.outputs[0], new)


def test_an_exact_value_that_a_pass_stores_for_a_constant_proves_nothing() -> None:
    assert not is_proved(level_of(model_of(SCALED), [StoresExactValue()]))


class Announces(Transformation):
    """Announce a reshape to the same shape, and do something else that no sample shows."""

    claims = (Claim("equality"),)

    def __init__(self, attack: str) -> None:
        super().__init__()
        self.attack = attack

    def call(self, model: ir.Model) -> PassResult:
        raise NotImplementedError

    def run(self, model: ir.Model, context: Context) -> PassResult:
        old = next(node for node in model.graph if node.op_type == "Reshape")
        array = np.array([4, 0], np.int64)
        weight = ir.Value(name="w", const_value=ir.Tensor(array[:1]), type=ir.TensorType(ir.DataType.INT64))
        weight.shape = ir.Shape([1])
        new = ir.Node("", "Reshape", [old.inputs[0], weight])
        new.outputs[0].dtype, new.outputs[0].shape = ir.DataType.FLOAT, ir.Shape([4])
        empty = self.attack == "announces nothing"
        pairs = () if empty else ((old.outputs[0], new.outputs[0]),)
        nodes, weights = (((), ()), ()) if empty else (((old,), (new,)), (weight,))
        number, record = context.next_number(), context.record
        application = Application(number, record, "Same", "", model.graph, None, *nodes, pairs, weights)
        context.before_rewrite(application)
        if self.attack == "changes a node":
            new.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)
        if self.attack == "changes an input":
            new.replace_input_with(0, next(n for n in model.graph if n.op_type == "Relu").outputs[0])
        name = old.outputs[0].name
        model.graph.register_initializer(weight)
        model.graph.insert_before(old, new)
        model.graph.outputs[0] = new.outputs[0]
        model.graph.remove(old, safe=False)
        new.outputs[0].name = name
        context.after_rewrite(application)
        if self.attack == "changes a constant":
            array[0] = -1
        if self.attack in ("changes another node", "says that nothing changed"):
            other = next(node for node in model.graph if node.op_type == "Elu")
            other.attributes["alpha"] = ir.AttrFloat32("alpha", 0.5)
        return PassResult(model, modified=self.attack != "says that nothing changed")


class ChangesInSilence(Transformation):
    claims = (Claim("equality"),)

    def call(self, model: ir.Model) -> PassResult:
        next(node for node in model.graph if node.op_type == "Elu").attributes["alpha"] = ir.AttrFloat32("alpha", 0.5)
        return PassResult(model, modified=False)


def test_what_is_changed_in_silence_is_not_proved() -> None:
    assert not is_proved(level_of(model_of(TWO), [Announces("none"), ChangesInSilence()]))
    assert not is_proved(level_of(model_of(TWO), [ChangesInSilence(), Announces("none")]))
    assert not is_proved(level_of(model_of(TWO), [ChangesInSilence()]))


TWO = """g (float[4] x) => (float[4] y, float[4] q) <int64[1] s = {4}> {
    z = Abs (x) r = Relu (z) q = Elu (r) y = Reshape (z, s)
}"""


def test_an_honest_announcement_is_proved() -> None:
    assert level_of(model_of(TWO), [Announces("none")]) == "bits:proved-here"


@pytest.mark.parametrize(
    "attack",
    [
        "changes a node",
        "changes an input",
        "changes a constant",
        "changes another node",
        "announces nothing",
        "says that nothing changed",
    ],
)
def test_what_is_changed_beside_announced_rewrites_is_not_proved(attack: str) -> None:
    assert not is_proved(level_of(model_of(TWO), [Announces(attack)]))


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data["windows"][0].update(level="proved-here"),
        lambda data: data["windows"][0].update(assumptions=[]),
        lambda data: data["windows"][0].update(method="by decree"),
        lambda data: data.update(level="proved"),
        lambda data: data.update(facts=[]),
        lambda data: data.update(after=data["before"]),
        lambda data: data["windows"].clear(),
    ],
)
def test_an_edited_certificate_does_not_hold(edit) -> None:
    before = model_of("g (float[4] x) => (float[4] y) { y = Add (x, x) }")
    after = model_of("g (float[4] x) => (float[4] y) <float c = {2}> { y = Mul (x, c) }")
    certificate = certify(before, after, sized=(before, after), facts=("N = 2",))
    data = json.loads(json.dumps(certificate.to_json()))
    assert not differences(data, certificate)
    edit(data)
    assert differences(data, certificate)


WEIGHED = "g (float[4] x) => (float[4] y) <int64[1] s = {4}> { m = Reshape (x, s) y = Mul (m, w) }"


class WritesInPlace(EditorPass):
    """Change an element of a weight of the model in place, beside a rewrite that is right."""

    claims = (Claim("equality"),)

    def __init__(self, when: str, alias: np.ndarray | None) -> None:
        super().__init__()
        self.when, self.alias = when, alias

    def edit(self, model, editor):
        node = model.graph[0]
        if self.when == "early":
            self.write(model)
        with editor.rewrite("same shape", node) as r:
            r.replace(node.outputs[0], model.graph.inputs[0])
        if self.when == "late":
            self.write(model)

    def write(self, model: ir.Model) -> None:
        array = model.graph.initializers["w"].const_value.numpy() if self.alias is None else self.alias
        array[0] = 7


@pytest.mark.parametrize("by_alias", [False, True])
@pytest.mark.parametrize("when", ["never", "early", "late"])
def test_a_weight_of_the_model_that_is_written_in_place_proves_nothing(when: str, by_alias: bool) -> None:
    model = model_of(WEIGHED.replace("= {4}>", "= {4}, float[4] w = {1, 2, 3, 4}>"))
    array = np.array([1, 2, 3, 4], np.float32)
    alias = array[:] if by_alias else None
    model.graph.initializers["w"].const_value = ir.Tensor(array, name="w")
    assert is_proved(level_of(model, [WritesInPlace(when, alias)])) is (when == "never")
