"""Whether a candidate is as well formed as the model that it came from."""

from __future__ import annotations

import hashlib

import onnx_ir as ir

from onnx_passes.debug.reduce.case import Case
from onnx_passes.graph.weightless import weightless

_HASHED = 1 << 20
"""Cases with more bytes of data than this are not remembered: telling them apart would cost more than a test."""


class Validity:
    """The strictest check of onnx that a model passes, to be passed by all that is made of it."""

    def __init__(self, model: ir.Model) -> None:
        self._full = _check(model, full=True)
        self._plain = self._full or _check(model, full=False)

    def holds(self, model: ir.Model) -> bool:
        """Tell whether a model passes the check."""
        return _check(model, full=self._full) if self._plain else True

    @staticmethod
    def key(case: Case) -> bytes | None:
        """Return what tells one case from all others, or nothing if it is too big."""
        tensors = [v.const_value for g in case.model.graphs() for v in g.initializers.values() if v.const_value]
        arrays = [array for sample in case.samples for array in sample.values()]
        if sum(item.nbytes for item in (*tensors, *arrays)) > _HASHED:
            return None
        digest = hashlib.sha256(ir.to_proto(case.model).SerializeToString())
        for sample in case.samples:
            for name, array in sample.items():
                data = str(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
                digest.update(f"{name} {array.dtype} {array.shape} ".encode() + data)
        return digest.digest()


def _check(model: ir.Model, *, full: bool) -> bool:
    import onnx

    try:
        onnx.checker.check_model(weightless(model), full_check=full)  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, onnx.defs.SchemaError):
        return False
    except (ir.serde.SerdeError, ValueError):
        return False
    return True
