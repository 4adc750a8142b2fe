"""Run the ONNX checker on a model."""

from __future__ import annotations

import re
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.graph.weightless import weightless

_NODE = re.compile(r"[Nn]ame: ?(?P<name>[^\n]*?) OpType: ?(?P<type>\w+)")
_NODE_OF_INFERENCE = re.compile(r"\(op_type: ?(?P<type>\w+)(?:, node name: ?(?P<name>[^)]*))?\): ?")
_TAGS = re.compile(r"\[\w+Error\] ?|Inference error\(s\): ?")
_ELEMENT_TYPES = re.compile(r"(?<=elem type: )\((\d+)\) vs \((\d+)\)")
_HINTS = {
    "topologically sorted": "run topological-sort first",
    "No opset import": "import the domain in the model",
    "No Op registered": "the operator set of the model has no such operator",
}


class InvalidModelError(PassFailedError):
    """The ONNX checker found the model invalid."""


@passes.verify.equality
@passes.register(tags=("check",))
class Checker(Analysis):
    """Run the ONNX checker; the first fault ends the run.

    Rewrites: nothing; the model is only read.
    Refuses:  models that ONNX does not allow: unknown operators, wrong attributes, missing opset imports, nodes
              out of order, names defined twice; with ``full-check`` also types and shapes that do not fit.
              Operators of custom domains are not checked. Large weights are not read.
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
        except ir.serde.SerdeError as error:
            raise InvalidModelError(f"the model cannot be written: {error.__cause__ or error}") from error
        return {"valid": True, "full_check": self.full_check}


def invalid(text: str) -> InvalidModelError:
    """Return an error with the checker's message as one sentence, located at its node."""
    message, _, context = text.partition("==> Context:")
    first, *more = [line for line in message.strip().splitlines() if line.strip()] or ["the model is invalid"]
    node = _NODE.search(context) or _NODE_OF_INFERENCE.search(first) or _NODE.search(message)
    if _NODE_OF_INFERENCE.search(first):
        sentence = _NODE_OF_INFERENCE.sub("", first) + (f" (and {len(more)} more)" if more else "")
    else:
        sentence = _NODE.sub(_label, " ".join((first, *more)))
    sentence = _ELEMENT_TYPES.sub(_type_names, _TAGS.sub("", sentence))
    hint = next((hint for sign, hint in _HINTS.items() if sign in sentence), None)
    return InvalidModelError(" ".join(sentence.split()).rstrip("."), where=_label(node) if node else None, hint=hint)


def _label(node: re.Match[str]) -> str:
    name = (node["name"] or "").strip()
    return f"{node['type']} '{name}'" if name else f"{node['type']} without a name"


def _type_names(found: re.Match[str]) -> str:
    return " vs ".join(ir.DataType(int(number)).name for number in found.groups())
