"""A page for each operator that is defined here: its semantics, and the equivalent standard operators."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from generators.examples import smallest
from generators.markdown import code, escaped, fenced, prose, raw, table, toctree, write_page
from generators.pictures import before_after
from onnx_passes import operators
from onnx_passes.graph.operators import interfaces_of
from onnx_passes.ops.definition import Definition, definitions
from onnx_passes.ops.describe import definitions_named
from onnx_passes.testing.fuzz.targets import targets_of


def write_operators(folder: Path) -> None:
    """Write the pages of all operators, those of one name on one page."""
    operators.interfaces()
    pages: dict[str, list[Definition]] = {}
    for definition in definitions():
        pages.setdefault(definition.name, []).append(definition)
    for name, versions in pages.items():
        write_page(folder / f"{name}.md", f"# {name}", *(part for each in versions for part in _about(each)))
    lines = [f"- [{code(name)}]({name}.md): {prose(_summary(versions[0]))}" for name, versions in pages.items()]
    write_page(
        folder / "index.md",
        "# Operators",
        "Operators of quantized networks. One definition of each is used for execution, folding, verification and "
        "lowering. `onnx-passes explain NAME` shows one, and `onnx_passes.operators` adds others.",
        "\n".join(lines),
        "## Interfaces",
        "Interfaces of an operator:",
        table(("interface", "answers"), ((code(each.name), escaped(each.doc)) for each in operators.interfaces())),
        toctree(pages),
    )


def _summary(definition: Definition) -> str:
    return (inspect.getdoc(type(definition)) or "").split("\n", 1)[0]


def _about(definition: Definition) -> Iterable[str]:
    yield f"## {definition.domains[0]}::{definition.name}"
    for paragraph in (inspect.getdoc(type(definition)) or "(no documentation)").split("\n\n"):
        yield prose(paragraph)
    yield table(
        ("input", "meaning"),
        ((code(each.name), escaped(each.doc) + (" (optional)" if each.optional else "")) for each in definition.inputs),
    )
    if definition.attributes:
        yield table(
            ("attribute", "type", "default", "meaning"),
            (
                (
                    code(each.name),
                    each.kind,
                    "required" if each.required else code(repr(each.default)) if each.default is not None else "",
                    escaped(each.doc),
                )
                for each in definition.attributes
            ),
        )
    facts = (
        ("Also known as", definition.aliases),
        ("Domains", definition.domains),
        ("Interfaces", tuple(interface.name for interface in interfaces_of(type(definition)))),
        ("Defined in", (type(definition).__module__,)),
    )
    yield table(("", ""), ((label, ", ".join(map(code, values))) for label, values in facts if values))
    target = targets_of(definition.name)[definitions_named(definition.name).index(definition)]
    # The fuzzer folds an operator of constants, and lowers one of inputs.
    example = smallest(target, lambda model: len(model.graph.input) > 0)
    if example is not None:
        yield "In standard operators:"
        yield raw(before_after(example))
    yield fenced(f"onnx-passes explain {definition.name}", "sh")
