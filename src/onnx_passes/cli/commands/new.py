"""``onnx-passes new``: the scaffold of a pass with its test."""

from __future__ import annotations

import re
from pathlib import Path

import click

from onnx_passes.core.errors import UsageError
from onnx_passes.core.naming import kebab

_PASSES = {
    "rule": '''"""{title}."""

import onnx_ir as ir
from onnx_passes import Answer, Builder, Match, Op, RewriteRulePass, Transformation, Var, constant, no, passes, yes


@passes.verify.equality
@passes.register()
class {name}(Transformation, RewriteRulePass):
    """{title}.

    Rewrites: ``x * 1 → x``
    Refuses:  the factor is not constant, or not a scalar one.
    Exactness: bit-exact.
    """

    def pattern(self, op: Op, x: Var, factor: Var) -> Var:
        """Match a product."""
        return op.Mul(x, factor)

    def check(self, op: Match, x: ir.Value, factor: ir.Value) -> Answer:
        """Refuse any factor but one."""
        number = constant(factor)
        if number is None:
            return no("the factor is not constant", at=factor)
        if number.ndim > 0 or number.item() != 1:
            return no("the factor is not a scalar one", at=factor)
        return yes

    def rewrite(self, op: Builder, x: ir.Value, factor: ir.Value) -> ir.Value:
        """Leave out the product."""
        return x
''',
    "transformation": '''"""{title}."""

import onnx_ir as ir
from onnx_passes import Editor, EditorPass, option, passes


@passes.verify.equality
@passes.register()
class {name}(EditorPass):
    """{title}.

    Rewrites: ``Relu(Relu(x)) → Relu(x)``
    Refuses:  what the option ``keep`` names.
    Exactness: bit-exact.
    """

    keep: str = option("", "name of a value to be kept")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Rewrite every Relu that follows another one."""
        for node in tuple(model.graph):
            source = node.inputs[0] if node.op_type == "Relu" else None
            inner = None if source is None else source.producer()
            if inner is None or inner.op_type != "Relu":
                continue
            with editor.rewrite("Relu of Relu", node, matched=[inner, node]) as rewrite:
                if node.outputs[0].name == self.keep:
                    rewrite.refuse("its result is to be kept", at=node.outputs[0])
                else:
                    rewrite.replace(node.outputs[0], rewrite.op.Relu(inner.inputs[0]))
''',
    "annotation": '''"""{title}."""

import onnx_ir as ir
from onnx_passes import Annotation, PassResult, passes


@passes.register()
class {name}(Annotation):
    """{title}.

    Rewrites: nothing; nodes get metadata.
    Refuses:  nothing.
    Exactness: bit-exact.
    """

    def call(self, model: ir.Model) -> PassResult:
        """Mark every node."""
        modified = False
        for node in model.graph.all_nodes():
            if node.metadata_props.get("seen_by") != "{text}":
                node.metadata_props["seen_by"] = "{text}"
                modified = True
        return PassResult(model, modified)
''',
    "analysis": '''"""{title}."""

import onnx_ir as ir
from onnx_passes import Analysis, passes


@passes.register()
class {name}(Analysis):
    """{title}.

    Rewrites: nothing.
    Refuses:  nothing.
    Exactness: bit-exact.
    """

    def analyze(self, model: ir.Model) -> dict[str, int]:
        """Count nodes."""
        return {{"nodes": model.graph.num_nodes()}}
''',
}

_TEST = '''"""Tests of {text}."""

{imports}from onnx_passes.testing import check_pass

from {file} import {name}

BEFORE = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] x) => (float[2] y)
<float one = {{1.0}}>
{{
    scaled = Mul(x, one)
    inner = Relu(scaled)
    y = Relu(inner)
}}
"""
'''

_AFTER_RULE = '''
AFTER = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] x) => (float[2] y)
{{
    inner = Relu(x)
    y = Relu(inner)
}}
"""


def test_removes_a_factor_of_one_alone() -> None:
    """Compare with the model that is expected, and run both; a refusal says why."""
    check_pass(BEFORE, {name}(), AFTER)
    other = BEFORE.replace("1.0", "2.0")
    result = check_pass(other, {name}(), other)
    assert "the factor is not a scalar one" in result.steps[-1].rules[0].refused
'''

_AFTER_TRANSFORMATION = '''
AFTER = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] x) => (float[2] y)
<float one = {{1.0}}>
{{
    scaled = Mul(x, one)
    y = Relu(scaled)
}}
"""


def test_merges_two_relus_unless_told_otherwise() -> None:
    """Compare with the model that is expected, and run both; a refusal says why."""
    check_pass(BEFORE, {name}(), AFTER)
    result = check_pass(BEFORE, {name}(keep="y"), BEFORE)
    assert "its result is to be kept" in result.steps[-1].rules[0].refused
'''

_AFTER_ANNOTATION = '''

def test_marks_nodes_once() -> None:
    """Change nothing but metadata, and nothing the second time."""
    result = check_pass(BEFORE, {name}(), BEFORE)
    assert {{node.metadata_props["seen_by"] for node in result.model.graph}} == {{"{text}"}}
    assert not onnx_passes.apply(result.model, {name}()).modified
'''

_AFTER_ANALYSIS = '''

def test_counts_nodes() -> None:
    """Find what is there, and change nothing."""
    result = check_pass(BEFORE, {name}(), BEFORE)
    assert not result.modified
    assert result["{text}"] == {{"nodes": 3}}
'''

_TESTS = {
    "rule": _AFTER_RULE,
    "transformation": _AFTER_TRANSFORMATION,
    "annotation": _AFTER_ANNOTATION,
    "analysis": _AFTER_ANALYSIS,
}


@click.command("new", short_help="Write the scaffold of a pass and its test.")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(_PASSES)), default="rule", show_default=True, help="Kind of pass.")
@click.option("-d", "--directory", default=".", metavar="DIR", help="Folder for the files [default: the current one].")
def command(name: str, kind: str, directory: str) -> None:
    """Write a pass called NAME (as in RemoveOnes or remove-ones) and a test for it, both ready to run."""
    text = kebab(name)
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", text) is None:
        raise UsageError(f"'{name}' is not a valid name of a pass", hint="use letters and digits, as in RemoveOnes")
    words = text.split("-")
    class_name = "".join(word.capitalize() for word in words) if "-" in name or name.islower() else name
    fields = {"name": class_name, "text": text, "file": "_".join(words), "title": " ".join(words).capitalize()}
    fields["imports"] = "import onnx_passes\n" if "onnx_passes.apply" in _TESTS[kind] else ""
    folder = Path(directory)
    files = {
        folder / f"{fields['file']}.py": _PASSES[kind].format(**fields),
        folder / f"test_{fields['file']}.py": (_TEST + _TESTS[kind]).format(**fields),
    }
    for path in files:
        if path.exists():
            raise UsageError("already exists", where=str(path), hint="choose another name or directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(folder)) from error
    first = next(iter(files))
    click.echo(f"wrote {', '.join(str(path) for path in files)}", err=True)
    click.echo(f"try:  onnx-passes --import {first} model.onnx {text}", err=True)
