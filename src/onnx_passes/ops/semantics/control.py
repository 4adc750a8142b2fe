"""Branches and loops: which way they go, and how often they run, has to be known, or both ways have to fit."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView

_MOST_ROUNDS = 64


def _body(call: OperatorView, name: str) -> ir.Graph:
    found = call.attributes[name].value
    if not isinstance(found, ir.Graph):
        raise UnsupportedError(f"{name} is no graph")
    return found


@SEMANTICS.of("If")
def _if(call: OperatorView) -> list[Tensor]:
    condition = call.tensor(0)
    branches = [_body(call, name) for name in ("then_branch", "else_branch")]
    if condition.known is not None:
        chosen = branches[0] if condition.known.reshape(-1)[0] else branches[1]
        return call.evaluation.graph(chosen, [], call.attributes)
    results = [call.evaluation.graph(branch, [], call.attributes) for branch in branches]
    if any(a.shape != b.shape or a.dtype is not b.dtype for a, b in zip(*results, strict=True)):
        raise UnsupportedError("branches with results of different sizes")
    decision = condition.elements(call.algebra).reshape(())
    found: list[Tensor] = []
    for a, b in zip(*results, strict=True):
        symbol = Symbol("Where", a.dtype, (ir.DataType.BOOL, a.dtype, a.dtype))
        arrays = [decision, a.elements(call.algebra), b.elements(call.algebra)]
        found.append(Tensor(a.dtype, None, call.algebra.scalar(symbol, arrays)))
    return found


@SEMANTICS.of("Loop")
def _loop(call: OperatorView) -> list[Tensor]:
    trips, going = call.known(0), call.known(1)
    if trips is None:
        raise UnsupportedError("a Loop without a number of rounds")
    rounds = int(trips.reshape(())) if going is None or going.reshape(-1)[0] else 0
    if rounds > _MOST_ROUNDS:
        raise UnsupportedError(f"a Loop of more than {_MOST_ROUNDS} rounds")
    body = _body(call, "body")
    carried = [tensor for tensor in call.inputs[2:] if tensor is not None]
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[1 + len(carried) :]]
    for number in range(rounds):
        counted = Tensor(ir.DataType.INT64, np.array(number, np.int64))
        condition = Tensor(ir.DataType.BOOL, np.array(True))
        results = call.evaluation.graph(body, [counted, condition, *carried], call.attributes)
        if results[0].known is None:
            raise UnsupportedError("a Loop whose end depends on data")
        carried = results[1 : 1 + len(carried)]
        for rows, tensor in zip(scanned, results[1 + len(carried) :], strict=True):
            rows.append(tensor)
        if not results[0].known.reshape(-1)[0]:
            break
    return [*carried, *(_stacked(call, rows) for rows in scanned)]


@SEMANTICS.of("Scan")
def _scan(call: OperatorView) -> list[Tensor]:
    if call.version < 9:
        raise UnsupportedError("a Scan over batches")
    body, amount = _body(call, "body"), call.get("num_scan_inputs")
    if any(any(call.get(name, None) or ()) for name in ("scan_input_axes", "scan_output_axes")) or any(
        any(call.get(name, None) or ()) for name in ("scan_input_directions", "scan_output_directions")
    ):
        raise UnsupportedError("a Scan along other axes or backwards")
    tensors = [tensor for tensor in call.inputs if tensor is not None]
    carried, inputs = tensors[: len(tensors) - amount], tensors[len(tensors) - amount :]
    rounds = inputs[0].shape[0]
    if rounds > _MOST_ROUNDS:
        raise UnsupportedError(f"a Scan of more than {_MOST_ROUNDS} rounds")
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[len(carried) :]]
    for number in range(rounds):
        rows = [Tensor(tensor.dtype, None, tensor.elements(call.algebra)[number]) for tensor in inputs]
        results = call.evaluation.graph(body, [*carried, *rows], call.attributes)
        carried = results[: len(carried)]
        for found, tensor in zip(scanned, results[len(carried) :], strict=True):
            found.append(tensor)
    return [*carried, *(_stacked(call, rows) for rows in scanned)]


def _stacked(call: OperatorView, rows: list[Tensor]) -> Tensor:
    if not rows:
        raise UnsupportedError("a loop that makes nothing")
    return Tensor(rows[0].dtype, None, np.stack([row.elements(call.algebra) for row in rows]))
