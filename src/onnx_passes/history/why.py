"""Why a node of the result exists: run a pipeline and return the node's history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.compose import PassLike
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, plan
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.find_node import Place
from onnx_passes.graph.load import Source, load
from onnx_passes.history.events import Ancestry
from onnx_passes.history.recording import Recording


def why(
    model: Source,
    node: Place,
    pipeline: PassLike | Iterable[PassLike] | Plan,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Ancestry:
    """Run a pipeline, unverified, and return the rewrites from which a node came, or which removed it.

    ``node`` is a node or value of the result or of any step, or its name. The model is unchanged.
    """
    planned = pipeline if isinstance(pipeline, Plan) else plan(pipeline, defaults=options)
    recording = Recording()
    Manager([recording]).run(planned, copy_model(load(model)))
    return recording.of(node)
