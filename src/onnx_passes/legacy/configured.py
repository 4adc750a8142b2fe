"""Passes made as in version 0.4, ``cls(config, state)``: verified by the configuration, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, TypeGuard

import onnx_ir as ir

from onnx_passes.core import build
from onnx_passes.core.base import Pass, PassResult
from onnx_passes.core.compose import PassLike
from onnx_passes.core.config import Config, VerifySettings, parse_config
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, plan
from onnx_passes.legacy.config import modern
from onnx_passes.legacy.names import written

Dict = dict[str, Any]


class ConfiguredPass(ir.passes.PassBase):
    """A pass of the collection with a configuration and a state; subclasses name the pass.

    Unlike other passes it includes its required passes, so that ``onnx_ir.passes.PassManager`` can run it, and is
    verified only if the configuration has a non-empty section ``verify``.
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
        """Return the property of the pass."""
        return self.made.in_place

    @property
    def changes_input(self) -> bool:
        """Return the property of the pass."""
        return self.made.changes_input

    def call(self, model: ir.Model) -> PassResult:
        """Run the pass with all passes that it needs."""
        text = written(self.made.name, str(self.made), {node.op_type for node in model.graph})
        return run_configured(text, self.config, self.state_dict, model)


def collect(names: PassLike | Sequence[PassLike]) -> list[type[ir.passes.PassBase]]:
    """Return a class for each name, pipeline text or class; ``cls(config, state)`` constructs the pass."""
    given = [names] if isinstance(names, str | type | ir.passes.PassBase) else names
    return [cls for item in given for cls in ([item] if _takes_both(item) else map(_class_of, build.collect(item)))]


def _takes_both(item: PassLike) -> TypeGuard[type[ir.passes.PassBase]]:
    """Return whether an object is a class that is made with configuration and state."""
    return isinstance(item, type) and hasattr(item, "state_dict")


def _class_of(made: Pass) -> type[ir.passes.PassBase]:
    cls = type(made)
    if hasattr(cls, "state_dict"):
        return cls
    body = {"made": made, "__doc__": cls.__doc__, "__module__": cls.__module__}
    return type(cls.__name__, (ConfiguredPass,), body)


def run_configured(what: PassLike, config: Dict | None, state: Dict | None, model: ir.Model) -> PassResult:
    """Run a pass with its required passes, and options and verification of a configuration of version 0.4.

    Functions of ``inject_custom_ops`` are removed, as passes know the operators, not their bodies.
    """
    given = config or {}
    chosen = _read(given)
    options = chosen.pass_options()
    planned = plan(["eject-ops", what], defaults=options, optional=options)
    hand_over(planned, given, {} if state is None else state)
    checks = _checks(chosen, chosen.verify) if given.get("verify") and chosen.verify is not None else []
    outcome = Manager(checks).run(planned, model)
    return PassResult(outcome.model, outcome.record.modified)


def _read(config: Dict) -> Config:
    """Read the known sections; others belong to user passes."""
    known = {field.name for field in dataclasses.fields(Config)}
    sections, _ = modern({key: value for key, value in config.items() if key in known})
    return parse_config(sections)


def hand_over(planned: Plan, config: Dict, state: Dict) -> None:
    """Set configuration and state of all passes of a plan that need them and have none yet."""
    for _, step in planned.walk():
        pass_: Any = step.pass_
        if hasattr(pass_, "state_dict") and pass_.config is None:
            pass_.config, pass_.state_dict = config, state


def _checks(config: Config, asked: VerifySettings) -> list[Instrument]:
    from onnx_passes.check.measuring import Measuring
    from onnx_passes.check.verification import Limits, Verification
    from onnx_passes.verify.metrics.metrics import parse_ranges
    from onnx_passes.verify.run.execute import Executor, Profile

    runtime, inputs, expect = config.onnxruntime, config.reference.inp, config.reference.out
    executor = Executor(Profile(runtime.providers or Profile.providers, runtime.provider_options))
    atol, rtol = asked.tolerance.atol, asked.tolerance.rtol
    limits = Limits(Limits.atol if atol is None else atol, Limits.rtol if rtol is None else rtol)
    checks: list[Instrument] = [Verification(inputs=inputs, expect=expect, limits=limits, executor=executor)]
    if asked.metrics:
        ranges = parse_ranges(asked.metrics)
        checks.append(Measuring(ranges, dataset=inputs, expect=expect if inputs else (), executor=executor))
    return checks
