"""A misspelt method or declaration is an error when the pass is registered."""

import pytest

from onnx_passes.core.base import Analysis, Transformation
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.registry import Registry
from onnx_passes.rewrite.passes import RewriteRulePass, RewriteRuleSetPass


def anything(self, op, x):
    return op.Relu(x)


def register(*bases: type, **body: object) -> None:
    Registry().register(type("Misspelt", bases, {"__module__": __name__, **body}))


RULE = (Transformation, RewriteRulePass)


@pytest.mark.parametrize(
    ("bases", "body", "message"),
    [
        (RULE, {"patern": anything, "rewrite": anything}, "has no method 'pattern'; rename 'patern' to 'pattern'"),
        (RULE, {"pattern": anything, "rewirte": anything}, "has no method 'rewrite'; rename 'rewirte' to 'rewrite'"),
        (RULE, {"pattern": anything}, "has no method 'rewrite'; write 'def rewrite"),
        (RULE, {"pattern": anything, "rewrite": anything, "chek": anything}, "'chek' of .* did you mean 'check'"),
        (RULE, {"pattern": anything, "rewrite": anything, "fork": "cheap"}, "'fork' of .* did you mean 'forks'"),
        (RULE, {"pattern": anything, "rewrite": anything, "need": ("a",)}, "'need' of .* did you mean 'needs'"),
        ((Transformation, RewriteRuleSetPass), {"rule": lambda self: []}, "has no method 'rules'; rename 'rule'"),
        ((Transformation,), {"cal": lambda self, model: None}, "has no method 'call'; rename 'cal' to 'call'"),
        ((Analysis,), {"analyse": lambda self, model: None}, "has no method 'analyze'; rename 'analyse' to 'analyze'"),
        ((ComposePass,), {"passes": ("a",), "exhaustiv": True}, "'exhaustiv' of .* did you mean 'exhaustive'"),
    ],
)
def test_is_refused(bases, body, message):
    with pytest.raises(RegistrationError, match=message):
        register(*bases, **body)


@pytest.mark.parametrize(
    ("bases", "body"),
    [
        (RULE, {"pattern": anything, "rewrite": anything, "checks": lambda self, model: True}),
        (RULE, {"pattern": anything, "rewrite": anything, "check": anything, "checked": anything}),
        (RULE, {"rules": lambda self: []}),
        ((Transformation, RewriteRuleSetPass), {"rules": lambda self: []}),
        ((Analysis,), {"call": lambda self, model: None}),
        ((ComposePass,), {"passes": ("a",)}),
        ((Transformation,), {"call": lambda self, model: None, "heads": ("a",)}),
    ],
)
def test_is_taken(bases, body):
    register(*bases, **body)
