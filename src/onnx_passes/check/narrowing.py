"""Inputs as the passes of a plan will restrict them: samples are such from the beginning of a run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plan import Plan
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.comparison.declarations import RestrictsInputs
from onnx_passes.verify.samples.reference import Sample


class Narrowing:
    """Inputs of a model as restricted by all passes of a plan.

    Data are read and drawn for ``model``, which has the restricted interface, and given to the model as it came in its
    own form. What cannot be applied to the model as it came is left to the pass itself.
    """

    def __init__(self, model: ir.Model, plan: Plan | None = None) -> None:
        self.model = model
        self._restrictions: list[RestrictsInputs] = []
        found = [] if plan is None else [step.pass_ for _, step in plan.walk()]
        wanted = [copy.copy(one) for one in found if isinstance(one, RestrictsInputs)]
        if wanted:
            self.model = copy_model(model)
            for restriction in wanted:
                self._apply(restriction)

    def _apply(self, restriction: RestrictsInputs) -> None:
        try:
            restriction.run(self.model, Context())
        except OnnxPassesError:
            return
        self._restrictions.append(restriction)

    def drawn(self, sample: Mapping[str, np.ndarray]) -> Sample:
        """Return data drawn for the restricted model in the form that the original model accepts."""
        return reduce(lambda data, one: one.inputs_before(data), reversed(self._restrictions), dict(sample))

    def read(self, sample: Mapping[str, np.ndarray]) -> Sample:
        """Return data that were given, without what rounding made of them. Raises UsageError if they do not fit."""
        return self.drawn(reduce(lambda data, one: one.inputs_after(data), self._restrictions, dict(sample)))
