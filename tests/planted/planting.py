"""What a planted pass is: a wrong one that must be caught, or a right one that must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import Pass, PassResult, Transformation, constant, passes

Sample = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fault:
    """A wrong pass with a model that shows it.

    ``samples`` are given only where generated inputs cannot show the fault; ``culprit`` is the number of the one wrong
    rule application among right ones; ``times`` is how often the pass runs; ``seen_by`` what must see it: the
    verification, or only the contracts of ``--paranoid``.
    """

    name: str
    pass_class: type[Pass]
    model_text: str
    kind: str
    culprit: int | None = None
    rule: str = ""
    samples: tuple[Sample, ...] = ()
    times: int = 1
    seen_by: str = "verification"

    def model(self) -> ir.Model:
        """Return the host, anew."""
        return ir.from_onnx_text(self.model_text)


@dataclass(frozen=True)
class Tricky:
    """A right pass with a model on which a careless check raises a false alarm."""

    name: str
    pass_class: type[Pass] | str
    model_text: str
    kind: str
    samples: tuple[Sample, ...] = ()
    levels: frozenset[str] = frozenset({"bits:sampled"})

    def model(self) -> ir.Model:
        """Return the host, anew."""
        return ir.from_onnx_text(self.model_text)


def text(
    inputs: str,
    outputs: str,
    body: str,
    *,
    initializers: str = "",
    functions: str = "",
    opset: int = 20,
    domains: str = "",
) -> str:
    """Write a model in ONNX text."""
    constants = f"<{initializers}>" if initializers else ""
    imports = f'"": {opset}' + (f", {domains}" if domains else "")
    header = f"<ir_version: 10, opset_import: [{imports}]>"
    return f"{header}\ng ({inputs}) => ({outputs}) {constants}\n{{\n{body}\n}}\n{functions}"


def repeated(block: str, count: int, odd: Mapping[int, str] | None = None) -> str:
    """Repeat a block with ``@`` as its number; blocks with an odd number are their own."""
    return "\n".join((odd or {}).get(i, block).replace("@", str(i)) for i in range(1, count + 1))


def rows(
    inputs: str,
    block: str,
    *,
    count: int = 8,
    odd: Mapping[int, str] | None = None,
    before: str = "",
    result: str = "float[] y@",
    initializers: str = "",
    opset: int = 20,
) -> str:
    """Write a model of numbered blocks side by side, each with a result ``y@`` of its own."""
    outputs = ", ".join(result.replace("@", str(i)) for i in range(1, count + 1))
    return text(inputs, outputs, before + "\n" + repeated(block, count, odd), initializers=initializers, opset=opset)


def perm_of(value: ir.Value) -> tuple[int, ...] | None:
    """Return the permutation of the Transpose that makes a value, if it is written there."""
    attributes = value.producer().attributes
    return tuple(attributes.get_ints("perm")) if "perm" in attributes else None


def sizes(value):
    return None if value.shape is None or not value.shape.is_static() else tuple(value.shape.numpy())


def vector(value):
    number = constant(value)
    return None if number is None or number.ndim != 1 else number.tolist()


def node(model: ir.Model, op_type: str) -> ir.Node:
    return next(node for node in model.graph if node.op_type == op_type)


class Edit(Transformation):
    """A pass that edits in one go and promises equality."""

    def edit(self, model: ir.Model) -> None:
        raise NotImplementedError

    def call(self, model: ir.Model) -> PassResult:
        self.edit(model)
        return PassResult(model, modified=True)


def edit(function, base: type[Edit] = Edit) -> type[Edit]:
    """Make a pass of a function."""
    name = "".join(word.capitalize() for word in function.__name__.split("_"))
    return passes.verify.equality(type(name, (base,), {"edit": lambda self, model: function(model)}))


def swap_inputs(node: ir.Node) -> None:
    """Exchange the two inputs of a node."""
    first, second = node.inputs
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
