"""Definition of an operator: its interface, computation and lowering, and the table of all definitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError, did_you_mean
from onnx_passes.graph.attribute_kinds import ATTRIBUTES
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface, Operator
from onnx_passes.graph.wording import name_of
from onnx_passes.ops import DOMAIN

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


OUR_DOMAIN = DOMAIN
QONNX_DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn")
GENERAL_DOMAINS = (*QONNX_DOMAINS, OUR_DOMAIN)
"""Where quantizers and their like are found: QONNX, Brevitas, FINN, FINN long ago, and here."""
CONTRIBUTED_DOMAIN = "com.microsoft"
CHANNELS_LAST_DOMAIN = "qonnx.custom_op.channels_last"
FINN_DOMAIN = "finn.custom_op.fpgadataflow"
"""Where FINN has layers of hardware that are not yet bound to one way of building them."""

Kind = Literal["int", "float", "string", "ints"]
_TYPES: dict[ir.AttributeType, Kind] = {
    ir.AttributeType.INT: "int",
    ir.AttributeType.FLOAT: "float",
    ir.AttributeType.STRING: "string",
    ir.AttributeType.INTS: "ints",
}
_KINDS = {kind: number for number, kind in _TYPES.items()}


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; one without a default has to be given, one with choices has to be among them."""

    name: str
    kind: Kind
    doc: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    """Compared without regard to case, as QONNX does."""


@dataclass(frozen=True)
class Input:
    """An input of an operator."""

    name: str
    doc: str
    optional: bool = False


class Call:
    """One use of an operator: its inputs, and its attributes with defaults filled in and checked."""

    def __init__(self, node: ir.Node, attributes: Mapping[str, Any]) -> None:
        self.node = node
        self.attributes = attributes

    @property
    def x(self) -> ir.Value:
        """Return the first input."""
        value = self.input(0)
        assert value is not None
        return value

    def input(self, index: int) -> ir.Value | None:
        """Return an input, or None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def constant(self, index: int) -> np.ndarray | None:
        """Return the elements of an input, if it is constant."""
        return constant(self.input(index))

    def number(self, number: float) -> np.ndarray:
        """Return a number in the element type of the first input; where that is unknown it is float32."""
        dtype = self.x.dtype
        return np.array(number, np.float32 if dtype is None else dtype.numpy())

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]


class Definition(Operator, ABC):
    """Definition of one operator. The docstring of a subclass is the text of its documentation.

    ``compute`` is its semantics in numpy, ``lower`` the same in standard operators, for any version from 9
    on; ``fast`` may say it in a way that runs faster but reads worse. All three agree bit by bit.
    """

    domains: ClassVar[tuple[str, ...]] = GENERAL_DOMAINS
    inputs: ClassVar[tuple[Input, ...]]
    attributes: ClassVar[tuple[Attribute, ...]] = ()

    @abstractmethod
    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""

    @abstractmethod
    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""

    def fast(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of the operators that are fastest in ONNX Runtime."""
        return self.lower(op, call)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer type and shape of the result: those of the first input, unless said otherwise."""
        first = node.inputs[0] if node.inputs else None
        if first is not None:
            ctx.set_shape_and_dtype(node.outputs[0], first.shape, first.dtype)

    def takes(self, node: ir.Node) -> bool:
        """Return whether a node is of this version of the operator, if several versions share its name."""
        return True

    def call(self, node: ir.Node) -> Call:
        """Check the inputs and attributes of a node."""
        return Call(node, self.checked(node))

    def checked(self, node: ir.Node) -> dict[str, Any]:
        """Return all attributes of a node, given or default. Raises ModelError, naming the node, for wrong ones."""
        where = name_of(node)
        known = {attribute.name: attribute for attribute in self.attributes}
        for index, given in enumerate(self.inputs):
            missing = index >= len(node.inputs) or node.inputs[index] is None
            if missing and not given.optional:
                raise ModelError(f"{self.name} needs its input '{given.name}'", where=where)
        if len(node.inputs) > len(self.inputs):
            raise ModelError(
                f"{self.name} takes {len(self.inputs)} inputs, but has {len(node.inputs)}",
                where=where,
                hint="its inputs are " + ", ".join(given.name for given in self.inputs),
            )
        found = {name: _value(attribute, known.get(name), where) for name, attribute in node.attributes.items()}
        for attribute in self.attributes:
            if attribute.name not in found:
                if attribute.required:
                    raise ModelError(f"{self.name} needs the attribute '{attribute.name}'", where=where)
                found[attribute.name] = attribute.default
        return found


D = TypeVar("D", bound=Definition)
DEFINITIONS: Interface[tuple[Definition, ...]] = Interface(
    "definition",
    "its inputs and attributes, and what it computes; several where versions share a name",
    "onnx_passes.ops.builtin",
)


def define(cls: type[D]) -> type[D]:
    """Register an operator by its names in its domains; the class is instantiated once, without arguments."""
    made = cls()

    def revision(versions: tuple[Definition, ...] | None) -> tuple[Definition, ...]:
        return (*(version for version in versions or () if not _is_same(type(version), cls)), made)

    for domain in made.domains:
        for name in (made.name, *made.aliases):
            versions = DEFINITIONS.revise(name, domain, revision)
            kinds = {given.name: int(_KINDS[given.kind]) for version in versions for given in version.attributes}
            if kinds:
                ATTRIBUTES.revise(name, domain, lambda _, kinds=kinds: kinds)
    return cls


def _is_same(old: type, new: type) -> bool:
    """Return whether two classes are the same definition, as in a file that is imported again."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _value(given: ir.Attr, wanted: Attribute | None, where: str) -> Any:
    """Return the value of an attribute in the wanted type; attributes unknown to the operator are kept as they are."""
    if given.is_ref():
        raise ModelError(f"the attribute '{given.name}' is only known where the function is called", where=where)
    value = given.value
    if wanted is None:
        return value
    kind = _TYPES.get(given.type)
    if wanted.kind == "float" and kind == "int":
        return float(given.as_int())
    if kind != wanted.kind:
        raise ModelError(f"the attribute '{given.name}' has to be of kind {wanted.kind}", where=where)
    if kind == "ints":
        return tuple(given.as_ints())
    if wanted.choices:
        text = given.as_string().upper()
        if text not in wanted.choices:
            hint = did_you_mean(text, wanted.choices) or f"it may be {', '.join(wanted.choices)}"
            raise ModelError(f"the attribute '{given.name}' cannot be '{given.as_string()}'", where=where, hint=hint)
        return text
    return given.as_string() if kind == "string" else value


def definition_of(node: ir.Node) -> Definition | None:
    """Return the definition of the operator of a node, or None for standard and unknown ones."""
    if not node.domain:
        return None
    return next((definition for definition in DEFINITIONS.get(node) or () if definition.takes(node)), None)


def definitions() -> list[Definition]:
    """List all definitions by name, each once."""
    found = {definition: None for versions in DEFINITIONS.table().values() for definition in versions}
    return sorted(found, key=lambda definition: (definition.name, type(definition).__name__))
