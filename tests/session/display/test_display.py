from __future__ import annotations

import html.parser
import subprocess
import sys

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, examples
from onnx_passes.core.errors import UsageError
from onnx_passes.session.display import PAGES
from onnx_passes.session.display.html import Html, element, joined, table
from onnx_passes.verify.failure import PostconditionError

EVIL = "<script>alert('x')</script>"
VOID = {"br", "path", "rect", "line", "img"}


class Reader(html.parser.HTMLParser):
    """Reads a page: its tags must nest, and nothing in it may run or fetch anything."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object")
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += f"{data}\n"


class Wrong(Transformation, RewriteRulePass):
    def pattern(self, op, x, c):
        return op.Mul(x, c)

    def rewrite(self, op, x, c):
        return op.Add(x, c)


def shown(thing) -> str:
    bundle = thing._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert {type(text) for text in bundle.values()} == {str}
    assert len(bundle["text/plain"].splitlines()) <= 25
    return Reader(bundle["text/html"]).text


@pytest.fixture(scope="module")
def session() -> onnx_passes.Session:
    digits = examples.digits()
    session = onnx_passes.open(examples.path("digits-mlp"), inputs={"image": digits.image[:2]})
    session.apply("streamline")
    return session


def test_a_result_shows_its_steps_with_evidence(session):
    text = shown(session.steps[1].result)
    assert "streamline" in text
    assert "infer-thresholds" in text
    assert "within" in text
    assert "operators" in text


def test_a_session_shows_where_it_is(session):
    text = shown(session)
    assert "digits_mlp.onnx" in text
    assert "← now" in text


def test_undone_steps_stay_visible(session):
    session.undo()
    try:
        assert "undone" in shown(session.steps)
    finally:
        session.redo()


def test_a_step_shows_its_rules(session):
    step = next(step for step in session.steps[1].result.steps if step.applications and step.rules)
    text = shown(step)
    assert step.name in text
    assert "applied" in text


def test_a_diff_counts_and_lists(session):
    diff = session.diff()
    text = shown(diff)
    assert diff.summary() in text
    assert "more lines" in text


def test_matches_and_misses_are_listed(session):
    text = shown(session.find("MatMul > Mul"))
    assert "1 match of MatMul > Mul" in text
    session.undo()
    try:
        matches = session.matches("fuse-batchnorm")
        assert matches.missed
        assert matches.missed[0].reasons[0] in shown(matches)
    finally:
        session.redo()


def test_ranges_show_bounds_bits_and_channels(session):
    found = onnx_passes.ranges(session, {"image": (0, 1)})
    text = shown(found)
    assert "bits" in text
    assert "constants" in text
    assert "channels between" in text


def test_an_inspection_shows_interface_and_ranges(session):
    text = shown(onnx_passes.inspect(session, ranges={"image": (0, 1)}))
    assert "logits: float" in text
    assert "stuck channels" in text


def test_stories_and_reasons_are_told(session):
    name = session.find("MatMul")[0].root.outputs[0].name
    assert "came from" in shown(session.why(name))
    assert "FuseBatchnorm" in shown(session.why_not("fuse-batchnorm"))


def test_comparisons_show_the_worst_element(session):
    text = shown(session.verify())
    assert "within tolerance" in text
    assert "logits[" in text


def test_a_failure_shows_the_rewrite_and_what_it_would_have_changed(session):
    with pytest.raises(PostconditionError) as caught:
        session.apply(Wrong)
    for thing in (caught.value, caught.value.failure, session.failure):
        text = shown(thing)
        assert "logits" in text
        assert "Mul(" in text
    assert "what the step would have changed" in shown(session.failure)


def test_errors_of_use_show_what_to_do(session):
    with pytest.raises(UsageError) as caught:
        session.apply("streamlin")
    assert "did you mean 'streamline'" in shown(caught.value)


def test_models_nodes_and_changes_are_drawn(session):
    node = session.find("MatMul")[0].root
    for thing in (session.model, session.model.graph, node, session.find("MatMul"), session.diff()):
        tags = Reader(onnx_passes.session.display.html_of(thing)).tags
        assert "svg" in tags


def test_a_node_that_belongs_to_no_graph_is_shown():
    node = ir.Node("", "Relu", [ir.Value(name="x")])
    assert "Relu" in onnx_passes.session.display.html_of(node)


def test_pipelines_are_text(session):
    assert shown(session.pipeline).strip() == "streamline"


def test_names_of_models_are_escaped():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }'
    )
    model.graph.name = EVIL
    model.graph[0].name = EVIL
    model.graph[0].outputs[0].name = f'{EVIL}"&'
    session = onnx_passes.open(model)
    page = onnx_passes.session.display
    for thing in (model, model.graph, model.graph[0], session, session.find("Relu"), session.diff(), session.steps):
        text = page.html_of(thing)
        assert "<script" not in text
        Reader(text)
    assert "&lt;script" in page.html_of(model.graph[0])


def test_every_class_that_is_shown_has_a_page_and_asks_for_it():
    for cls in PAGES:
        assert cls.__module__.startswith("onnx_ir") or hasattr(cls, "_repr_mimebundle_"), cls


def test_markup_is_escaped_unless_it_is_markup():
    assert element("p", "a < b", Html("<i>c</i>"), of='"x') == '<p class="&quot;x">a &lt; b<i>c</i></p>'
    assert joined([1, Html("&amp;")]) == "1&amp;"
    assert table(("a",), [("<",)]).count("&lt;") == 1


def test_large_diffs_stay_small():
    nodes = "\n".join(f"v{i} = Relu({'x' if i == 0 else f'v{i - 1}'})" for i in range(3000))
    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) {{ {nodes} y = Neg(v2999) }}'
    session = onnx_passes.open(ir.from_onnx_text(text), verify=False)
    session.apply("eliminate-idempotence")
    assert len(session.model.graph) < 3000
    assert len(onnx_passes.session.display.html_of(session.diff())) < 300_000


def test_values_without_bounds_are_shown():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { a = Relu(x) y = Exp(a) }'
    )
    assert "inf" in shown(onnx_passes.ranges(model))
    assert np.isinf(onnx_passes.ranges(model)["y"].high).all()


def test_ipython_shows_models_after_a_session_was_opened():
    program = """
import IPython.core.interactiveshell as shells, onnx_ir as ir
shell = shells.InteractiveShell.instance()
import onnx_passes
model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
onnx_passes.open(model)
for thing in (model, model.graph, model.graph[0]):
    data, _ = shell.display_formatter.format(thing)
    assert "onnx-passes" in data["text/html"], data
from IPython.core.completer import provisionalcompleter
onnx_passes.session.notebooks.install()
assert len(shell.Completer.custom_matchers) == 1
with provisionalcompleter():
    for line in ('s.apply("eliminate-id', "s.matches('cleanup, eliminate-id"):
        found = [each.text for each in shell.Completer.completions(line, len(line))]
        assert "eliminate-identity" in found, (line, found)
try:
    onnx_passes.open(model).apply("simplfy")
except onnx_passes.core.errors.UsageError:
    shell.showtraceback()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "did you mean 'simplify'" in done.stdout
    assert len(done.stdout.splitlines()) <= 4


def test_nothing_of_notebooks_is_imported_without_one():
    program = (
        "import sys, onnx_passes; onnx_passes.apply; "
        "assert not [m for m in sys.modules if m.startswith(('IPython', 'marimo', 'onnx_passes.session'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_drawings_are_as_light_or_dark_as_the_notebook(session):
    page = onnx_passes.session.display.html_of(session.model)
    assert '[data-jp-theme-light="false"]' in page
    assert ".vscode-dark" in page
