"""Applications made of two graphs in ONNX text: what one computes is replaced by what the other computes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes import api
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.facts import Budget, Facts
from onnx_passes.verify.proving.here import prove_here

Q = "qonnx.custom_op.general"
OPSET = 20
HEAD = f'<ir_version: 10, opset_import: ["" : {OPSET}, "{Q}" : 1]>'


def prove(
    signature: str,
    before: str,
    after: str,
    *,
    constants: str = "",
    inside: str = "",
    ignores: tuple[str, ...] = (),
    budget: Budget | None = None,
    opset: int = OPSET,
    outputs: str = "y",
    **held,
) -> Proof | Unproved:
    """Prove that ``outputs`` are the same in both texts; ``inside`` is what the model computes before either.

    Both read the inputs in the signature, what ``inside`` computes, and constants: those in the text, and arrays.
    """
    head = HEAD.replace(f": {OPSET},", f": {opset},")
    texts = (f"{head} g ({signature}) => ({outputs}) <{constants}> {{ {inside} {body} }}" for body in (before, after))
    old, new = (ir.from_onnx_text(text) for text in texts)
    for model in (old, new):
        hold(model, held)
    old, new = (api.apply(model, "shape-inference", verify=False).model for model in (old, new))
    application = _application(old, new, len(ir.from_onnx_text(f"{head} g ({signature}) => () {{ {inside} }}").graph))
    return prove_here(application, Facts(old, budget=budget), ignores)


def hold(model: ir.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Put arrays in the place of values that no text defines."""
    for name, array in arrays.items():
        values = {value for node in model.graph for value in node.inputs if value is not None and value.name == name}
        for value in values:
            made = ir.Value(name=name, const_value=ir.tensor(array), shape=ir.Shape(array.shape))
            made.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
            model.graph.initializers.add(made)
            value.replace_all_uses_with(made)


def _application(old: ir.Model, new: ir.Model, shared: int) -> Application:
    known = {value.name: value for value in (*old.graph.inputs, *old.graph.initializers.values())}
    known |= {value.name: value for node in list(old.graph)[:shared] for value in node.outputs}
    added = list(new.graph)[shared:]
    for node in added:
        for place, value in enumerate(node.inputs):
            if value is not None and value.name in known:
                node.replace_input_with(place, known[value.name])
    pairs = tuple(zip(old.graph.outputs, new.graph.outputs, strict=True))
    matched = tuple(list(old.graph)[shared:])
    step = StepRecord(1, "planted", "planted", "")
    return Application(
        1, step, "planted", "", old.graph, matched[-1] if matched else None, matched, tuple(added), pairs, ()
    )


def is_exact(found: Proof | Unproved) -> bool:
    """Tell whether bits are proved to be the same."""
    return isinstance(found, Proof) and found.level == "proved-here"
