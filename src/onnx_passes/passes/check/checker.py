"""Let the ONNX checker judge a model."""

from __future__ import annotations

import re
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.passes.check.weightless import weightless

_NODE = re.compile(r"(?:[Nn]ode(?: name)?|Name): ?(?P<name>.*?),? ?(?:OpType|op_type|type): ?(?P<type>\w+)", re.S)


class InvalidModelError(PassFailedError):
    """The ONNX checker found the model invalid."""


@passes.verify.equality
@passes.register(tags=("check",))
class Checker(Analysis):
    """Let the ONNX checker judge the model; the first fault ends the run.

    Rewrites: nothing; the model is only looked at.
    Refuses:  models that ONNX does not allow: unknown operators, wrong attributes, missing opset imports, nodes
              out of order, names defined twice; with ``full-check`` also types and shapes that do not fit.
              Operators of custom domains are taken as they are. Big weights are not looked into.
    Exactness: changes nothing.
    """

    full_check: bool = option(False, "also infer types and shapes and compare them with the declared ones")

    def analyze(self, model: ir.Model) -> dict[str, Any]:
        """Check a copy without weights."""
        import onnx

        proto = weightless(model)

        try:
            onnx.checker.check_model(proto, full_check=self.full_check)  # pyright: ignore[reportUnknownMemberType]
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, onnx.defs.SchemaError) as error:
            raise invalid(str(error)) from error
        return {"valid": True, "full_check": self.full_check}


def invalid(text: str) -> InvalidModelError:
    """Make one sentence of what the checker says, with the node that it names."""
    message, _, context = text.partition("==> Context:")
    nodes = list(_NODE.finditer(f"{message} {context}"))
    sentence = " ".join(message.split()).rstrip(".")
    where = f"{nodes[-1]['type']} '{nodes[-1]['name'].strip()}'" if nodes else None
    return InvalidModelError(
        sentence, where=where, hint="see the ONNX specification of the operator" if nodes else None
    )
