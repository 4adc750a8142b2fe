"""Decorators state what a pass promises, before or after it is registered."""

import pytest

from onnx_passes import PassResult, Transformation, passes
from onnx_passes.check import claims
from onnx_passes.core.build import collect
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.registry import REGISTRY, Registry


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    for name, value in vars(Registry()).items():
        monkeypatch.setattr(REGISTRY, name, value)


class Nop(Transformation):
    def call(self, model):
        return PassResult(model, modified=False)


def new_pass() -> type[Nop]:
    return type("Promise", (Nop,), {"__module__": __name__})


@pytest.mark.parametrize(
    ("decorator", "claim", "text"),
    [
        (claims.equality, Claim("equality"), "equality"),
        (claims.tolerance, Claim("tolerance"), "tolerance"),
        (claims.tolerance(), Claim("tolerance"), "tolerance"),
        (claims.tolerance(atol=1e-5), Claim("tolerance", {"atol": 1e-5}), "tolerance(atol=1e-05)"),
        (
            claims.tolerance(atol=0.0, rtol=0.5),
            Claim("tolerance", {"atol": 0, "rtol": 0.5}),
            "tolerance(atol=0.0, rtol=0.5)",
        ),
        (claims.metric, Claim("metric"), "metric"),
        (claims.metric(), Claim("metric"), "metric"),
        (claims.metric(accuracy=(0.9, 1.0)), Claim("metric", {"accuracy": (0.9, 1.0)}), "metric(accuracy=(0.9, 1.0))"),
    ],
)
def test_a_decorator_adds_its_claim_and_returns_the_class(decorator, claim, text):
    cls = new_pass()
    assert decorator(cls) is cls
    assert cls.claims == (claim,)
    assert str(cls.claims[0]) == text


def test_the_decorators_are_found_where_authors_look():
    assert passes.verify.equality is claims.equality
    assert passes.verify.metric is claims.metric


def test_claims_are_noted_before_and_after_registration():
    @passes.verify.equality
    @passes.register()
    class Above(Nop):
        """Claimed after it was registered."""

    @passes.register()
    @passes.verify.tolerance(atol=0.5)
    class Below(Nop):
        """Claimed before it was registered."""

    assert REGISTRY.find("above").entries[0].claims == ("equality",)
    assert REGISTRY.find("below").entries[0].claims == ("tolerance(atol=0.5)",)


def test_the_registered_class_stays_the_one_that_runs():
    @passes.verify.equality
    @passes.register()
    class Kept(Nop):
        """Stays."""

    (made,) = collect("kept")
    assert type(made) is Kept
    assert made.claims == (Claim("equality"),)


def test_several_claims_are_kept_in_the_order_of_reading():
    @passes.verify.structure("acyclic", "connected")
    @passes.verify.tolerance
    @passes.register()
    class Careful(Nop):
        """Promises a lot."""

    assert [claim.kind for claim in Careful.claims] == ["structure", "tolerance"]
    assert dict(Careful.claims[0].parameters) == {"acyclic": "acyclic", "connected": "connected"}
    assert len(REGISTRY.find("careful").entries[0].claims) == 2


def test_a_claim_of_one_class_is_not_that_of_its_siblings_or_bases():
    first, second = new_pass(), new_pass()
    claims.equality(first)
    assert second.claims == ()
    assert Nop.claims == ()


def test_a_pass_without_claims_has_none():
    passes.register()(new_pass())
    assert REGISTRY.find("promise").entries[0].claims == ()


def test_structure_without_parentheses_is_an_error():
    class Nothing(Transformation):
        def call(self, model) -> PassResult:
            return PassResult(model, modified=False)

    with pytest.raises(RegistrationError, match="in parentheses"):
        claims.structure(Nothing)
