"""``onnx-passes new``: the scaffold of a pass with its test."""

from __future__ import annotations

import re
from pathlib import Path

import click

from onnx_passes.core.errors import UsageError
from onnx_passes.core.naming import kebab

_PASSES = {
    "rule": '''"""{title}."""

from onnx_passes import RewriteRulePass, Transformation, constant, no, passes, yes


@passes.verify.equality
@passes.register()
class {name}(Transformation, RewriteRulePass):
    """{title}.

    Rewrites: ``x * 1 → x``
    Refuses:  the factor is not constant, or not all ones.
    Exactness: bit-exact.
    """

    def pattern(self, op, x, factor):
        return op.Mul(x, factor)

    def check(self, op, x, factor):
        ones = constant(factor)
        if ones is None:
            return no("the factor is not constant", at=factor)
        if ones.size != 1 or ones.ndim > 0 or ones.item() != 1:
            return no("the factor is not a scalar one", at=factor)
        return yes

    def rewrite(self, op, x, factor):
        return x
''',
    "transformation": '''"""{title}."""

from onnx_passes import PassResult, Transformation, option, passes


@passes.verify.equality
@passes.register()
class {name}(Transformation):
    """{title}.

    Rewrites: documentation of nodes → none
    Refuses:  nothing.
    Exactness: bit-exact.
    """

    keep: bool = option(False, "keep what there is")

    def call(self, model):
        modified = False
        for node in model.graph.all_nodes():
            if node.doc_string and not self.keep:
                node.doc_string = None
                modified = True
        return PassResult(model, modified)
''',
    "annotation": '''"""{title}."""

from onnx_passes import Annotation, PassResult, passes


@passes.register()
class {name}(Annotation):
    """{title}.

    Rewrites: nothing; nodes get metadata.
    Refuses:  nothing.
    Exactness: bit-exact.
    """

    def call(self, model):
        modified = False
        for node in model.graph.all_nodes():
            if node.metadata_props.get("seen_by") != "{text}":
                node.metadata_props["seen_by"] = "{text}"
                modified = True
        return PassResult(model, modified)
''',
    "analysis": '''"""{title}."""

from onnx_passes import Analysis, passes


@passes.register()
class {name}(Analysis):
    """{title}.

    Rewrites: nothing.
    Refuses:  nothing.
    Exactness: bit-exact.
    """

    def analyze(self, model):
        return {{"nodes": model.graph.num_nodes()}}
''',
}

_CHECKS = {
    "rule": """    assert result.modified
    assert [node.op_type for node in result.model.graph] == ["Relu"]
""",
    "transformation": """    assert result.modified
    assert not onnx_passes.apply(result.model, {name}()).modified
""",
    "annotation": """    assert result.modified
    assert not onnx_passes.apply(result.model, {name}()).modified
""",
    "analysis": """    assert not result.modified
    assert result["{text}"] == {{"nodes": 2}}
""",
}

_TEST = '''import onnx_ir as ir

import onnx_passes
from {file} import {name}

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] x) => (float[2] y)
<float one = {{1.0}}>
{{
    scaled = Mul(x, one)
    y = Relu(scaled)
}}
"""


def test_{file}():
    model = ir.from_onnx_text(MODEL)
    for node in model.graph:
        node.doc_string = "an example"
    result = onnx_passes.apply(model, {name}(), paranoid=True)
'''


@click.command("new", short_help="Write the scaffold of a pass and its test.")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(_PASSES)), default="rule", show_default=True, help="Kind of pass.")
@click.option("-d", "--directory", default=".", metavar="DIR", help="Where the files go [default: here].")
def command(name: str, kind: str, directory: str) -> None:
    """Write a pass called NAME (as in RemoveOnes or remove-ones) and a test for it, both ready to run."""
    text = kebab(name)
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", text) is None:
        raise UsageError(f"'{name}' is no name for a pass", hint="use letters and digits, as in RemoveOnes")
    words = text.split("-")
    class_name = "".join(word.capitalize() for word in words) if "-" in name or name.islower() else name
    fields = {"name": class_name, "text": text, "file": "_".join(words), "title": " ".join(words).capitalize()}
    folder = Path(directory)
    files = {
        folder / f"{fields['file']}.py": _PASSES[kind].format(**fields),
        folder / f"test_{fields['file']}.py": (_TEST + _CHECKS[kind]).format(**fields),
    }
    for path in files:
        if path.exists():
            raise UsageError("is already there", where=str(path), hint="choose another name or directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(folder)) from error
    first = next(iter(files))
    click.echo(f"wrote {', '.join(str(path) for path in files)}", err=True)
    click.echo(f"try:  onnx-passes --import {first} model.onnx {text}", err=True)
