"""Passes made as version 0.4 made them, ``cls(config, state)``: verified as the configuration says, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import onnx_ir as ir

from onnx_passes.core import build
from onnx_passes.core.base import Pass, PassResult
from onnx_passes.core.compose import PassLike
from onnx_passes.core.config import parse_config
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, plan
from onnx_passes.legacy.names import WRITTEN

if TYPE_CHECKING:
    from onnx_passes.verify.execute import Profile

Dict = dict[str, Any]
_OF_PASSES = ("model_checker", "shape_inference", "fold_constants", "layouts", "options")
"""The sections of a configuration that set options of passes."""


class ConfiguredPass(ir.passes.PassBase):
    """A pass of the collection with a configuration and a state; subclasses say which pass.

    Other than a pass of our own it brings along what it needs, so that ``onnx_ir.passes.PassManager`` can run it, and
    is verified only if the configuration has a section ``verify`` that is not empty.
    """

    made: ClassVar[Pass]

    def __init__(self, config: Dict | None = None, state: Dict | None = None) -> None:
        self.config = config
        self.state_dict = state

    @property
    def name(self) -> str:
        """Return the name in pipeline text."""
        return self.made.name

    @property
    def in_place(self) -> bool:
        """Return what the pass says."""
        return self.made.in_place

    @property
    def changes_input(self) -> bool:
        """Return what the pass says."""
        return self.made.changes_input

    def call(self, model: ir.Model) -> PassResult:
        """Run the pass with all that it needs."""
        return run_configured(WRITTEN.get(self.made.name, str(self.made)), self.config, self.state_dict, model)


def collect(names: PassLike | Sequence[PassLike]) -> list[type[ir.passes.PassBase]]:
    """Return a class for each name, pipeline text or class; ``cls(config, state)`` makes a pass of it."""
    given = [names] if isinstance(names, str | type | ir.passes.PassBase) else names
    return [
        cls for item in given for cls in ([item] if isinstance(item, type) else map(_class_of, build.collect(item)))
    ]


def _class_of(made: Pass) -> type[ir.passes.PassBase]:
    cls = type(made)
    if hasattr(cls, "state_dict"):
        return cls
    body = {"made": made, "__doc__": cls.__doc__, "__module__": cls.__module__}
    return type(cls.__name__, (ConfiguredPass,), body)


def run_configured(what: PassLike, config: Dict | None, state: Dict | None, model: ir.Model) -> PassResult:
    """Run a pass with what it needs, options and verification as a configuration of version 0.4 says.

    Functions that ``inject_custom_ops`` put in are taken out: passes know the operators, not their insides.
    """
    config = config or {}
    options = parse_config({key: config[key] for key in _OF_PASSES if config.get(key)}).pass_options()
    planned = plan(["eject-ops", what], defaults=options, optional=options)
    hand_over(planned, config, state if state is not None else {})
    outcome = Manager(list(_checks(config))).run(planned, model)
    return PassResult(outcome.model, outcome.record.modified)


def hand_over(planned: Plan, config: Dict, state: Dict) -> None:
    """Give configuration and state to all passes of a plan that are written for them and have none yet."""
    for _, step in planned.walk():
        pass_: Any = step.pass_
        if hasattr(pass_, "state_dict") and pass_.config is None:
            pass_.config, pass_.state_dict = config, state


def _checks(config: Mapping[str, Any]) -> Iterator[Instrument]:
    asked = config.get("verify")
    if not asked:
        return
    from onnx_passes.verify.execute import Executor
    from onnx_passes.verify.measuring import Measuring
    from onnx_passes.verify.ranges import parse_ranges
    from onnx_passes.verify.verification import Limits, Verification

    inputs, expect = (_files(config, key) for key in ("inp", "out"))
    executor = Executor(_profile(config.get("onnxruntime") or {}))
    tolerance: Mapping[str, float] = asked.get("tolerance") or {}
    limits = Limits(tolerance.get("atol", Limits.atol), tolerance.get("rtol", Limits.rtol))
    yield Verification(inputs=inputs, expect=expect, limits=limits, executor=executor)
    if asked.get("metrics"):
        yield Measuring(
            parse_ranges(asked["metrics"]), dataset=inputs, expect=expect if inputs else (), executor=executor
        )


def _files(config: Mapping[str, Any], key: str) -> list[Any]:
    reference: Mapping[str, Any] = config.get("reference") or {}
    found: Sequence[Any] = reference.get(key) or ()
    return [file for file in found if file is not None]


def _profile(runtime: Mapping[str, Any]) -> Profile:
    """Read providers as names, or as pairs of a name and its options."""
    from onnx_passes.verify.execute import Profile

    given: Sequence[Any] = runtime.get("providers") or ()
    if not given:
        return Profile()
    pairs: list[Sequence[Any]] = [(item, Dict()) if isinstance(item, str) else item for item in given]
    return Profile(tuple(str(pair[0]) for pair in pairs), [Dict(pair[1]) for pair in pairs])
