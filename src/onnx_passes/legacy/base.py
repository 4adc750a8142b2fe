"""Base classes of passes with the conventions of version 0.4.

A pass is constructed with ``cls(config, state)`` and has both in ``self.config`` and ``self.state_dict``; rules match
inputs in the written order unless ``commute`` is set.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes.core import base
from onnx_passes.core.base import PassResult
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.options import internal
from onnx_passes.legacy.configured import Dict, run_configured
from onnx_passes.rewrite import passes
from onnx_passes.rewrite.rule import Rule

Functions = Sequence[Callable[..., Any]]


class Pass(base.Pass):
    """Pass with a configuration and a state."""

    config: Dict | None = internal(None, positional=True)
    state: Dict | None = internal(None, positional=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Annotated dunder names are declarations, which a dataclass would take for fields.
        for name in [name for name in inspect.get_annotations(cls) if name.startswith("__")]:
            del cls.__annotations__[name]
        if "__init__" in cls.__dict__:
            cls.__init__ = _with_defaults(cls.__init__)
        super().__init_subclass__(**kwargs)

    @property
    def state_dict(self) -> Dict | None:
        """Return the state that all passes of a run share."""
        return self.state

    @state_dict.setter
    def state_dict(self, state: Dict | None) -> None:
        self.state = state

    def __call__(self, model_or_result: ir.Model | PassResult, /) -> PassResult:
        """Run with all required passes; verified by the configuration, if there is one."""
        if self.config is None:
            return super().__call__(model_or_result)
        model = model_or_result.model if isinstance(model_or_result, PassResult) else model_or_result
        return run_configured(self, self.config, self.state, model)


class Analysis(Pass, base.Analysis):
    """Pass that reads the model and never changes it: implement ``call``, or ``analyze``."""


class Annotation(Pass, base.Annotation):
    """Pass that changes types, shapes and metadata, never the structure and never a value."""


class Transformation(Pass, base.Transformation):
    """Pass that may change everything."""


class RewriteRulePass(Pass, passes.RewriteRulePass):
    """Pass of one rule: methods ``pattern``, ``check`` (optional) and ``rewrite``."""

    commute = False


class RewriteRuleSetPass(Pass, passes.RewriteRuleSetPass):
    """Pass of several rules: ``pattern()``, ``check()`` and ``rewrite()`` each return a list of functions."""

    commute = False

    def pattern(self) -> Functions:
        """Return the pattern of each rule."""
        raise NotImplementedError(f"pass '{self.name}' has no patterns")

    def check(self) -> Functions:
        """Return the conditions of the rules; an empty list if there are none."""
        return []

    def rewrite(self) -> Functions:
        """Return the replacement of each rule."""
        raise NotImplementedError(f"pass '{self.name}' has no rewrites")

    def rules(self) -> Sequence[Rule]:
        """Make a rule of each pattern with the check and the rewrite at the same index."""
        patterns, rewrites = list(self.pattern()), list(self.rewrite())
        checks = list(self.check()) or [None] * len(patterns)
        if not len(patterns) == len(rewrites) == len(checks):
            raise RegistrationError(
                f"pass '{self.name}' has {len(patterns)} patterns, {len(checks)} checks and {len(rewrites)} rewrites",
                hint="return one of each for every rule",
            )
        name = type(self).__name__
        return [
            Rule(pattern, rewrite, check, name=f"{name}{number}", commute=self.commute)
            for number, (pattern, check, rewrite) in enumerate(zip(patterns, checks, rewrites, strict=True), start=1)
        ]


def _with_defaults(init: Callable[..., None]) -> Callable[..., None]:
    """Allow a pass to be made without configuration and state, as the command line sets them later."""

    @functools.wraps(init)
    def made(self: Any, config: Dict | None = None, state: Dict | None = None, *args: Any, **kwargs: Any) -> None:
        init(self, config, state, *args, **kwargs)

    return made
