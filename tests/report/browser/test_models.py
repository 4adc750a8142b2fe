"""Reports of real and of large models, and of a run that failed: quick to open, and no larger than they need be."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import BREAK_ADDS, MODEL
from tests.helpers.small_models import named
from tests.report.browser.conftest import cpu_seconds, until


def deep_model(path: Path, nodes: int) -> Path:
    """Save a chain of blocks, each with a skip connection and an Identity that can go."""
    made: list[onnx.NodeProto] = []
    last = skip = "x"
    while len(made) < nodes:
        for kind in ("Neg", "Relu", "Identity", "Abs", "Add"):
            name = f"block_{len(made) // 5}/{kind}"
            made.append(helper.make_node(kind, [last, skip] if kind == "Add" else [last], [name], name=name))
            last = name
        skip = last
    made.append(helper.make_node("Relu", [last], ["y"], name="end"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(made, "deep", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_failed_run_opens_on_the_rewrite_that_is_blamed(opened, written, tmp_path):
    (tmp_path / "model.onnxtxt").write_text(MODEL)
    (tmp_path / "wrong_for_page.py").write_text(BREAK_ADDS.replace("BreakAdds", "BreakAddsOnAPage"))
    options = ("--import", tmp_path / "wrong_for_page.py", "--repro", tmp_path / "kept")
    page = opened(written(*options, tmp_path / "model.onnxtxt", "cleanup", "break-adds-on-a-page", code=1))
    assert page.locator("header.top .badge").inner_text() == "run failed"
    assert page.locator(".row[aria-selected=true] .event-rule").inner_text() == "BreakAddsOnAPage"
    failure = page.get_by_role("alert").inner_text()
    assert "expected" in failure
    assert "sum = Add(a, a)" in failure
    assert page.locator(".node.status-changed .title").text_content() == "Add"
    assert page.locator(".edge-removed").count() == 1
    page.keyboard.press("o")
    assert page.get_by_role("region", name="What failed").count() == 1


def test_five_thousand_nodes(opened, written, tmp_path):
    report = written(deep_model(tmp_path / "deep.onnx", 5000), "eliminate-identity")
    page = opened(report)
    assert 0 < cpu_seconds(page) <= 3
    assert page.locator(".partial").inner_text().startswith("The first changes; 880 more")
    page.locator(".row-event").nth(9).click()
    until(page, "document.querySelector('.rewrite h2')")
    assert "block_9/Identity" in page.locator(".line-row.text-removed").first.inner_text()
    page.goto(f"{report.as_uri()}#step=1&hops=all&group=none")
    page.reload()
    page.wait_for_selector(".node")
    assert page.locator(".node").count() < 100
    page.keyboard.press("f")
    page.wait_for_selector(".canvas > canvas:not([hidden])")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("block_777/abs")
    page.keyboard.press("Enter")
    page.wait_for_selector(".node.selected")
    assert page.locator(".full-name").inner_text() == "block_777/Abs"
    page.keyboard.press("Escape")
    page.locator("select").select_option("repeats")
    page.wait_for_selector(".kind-group")
    assert page.locator(".kind-group .title").first.text_content() == "5 nodes × 1000"


@pytest.mark.parametrize("path", named(("brevitas/small_cnv", "brevitas/bnnpynq_cnv_2w2a")), indirect=True)
def test_streamlined_cnv(path, opened, written):
    report = written(path, "streamline")
    assert report.stat().st_size <= 3_000_000
    page = opened(report)
    assert 0 < cpu_seconds(page) <= 2
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("infer-thresholds")
    page.keyboard.press("Enter")
    page.wait_for_selector(".node.status-added")
    assert "MultiThreshold" in page.locator(".node.status-added .title").all_text_contents()


@pytest.mark.parametrize("path", named(("float/small_encoder_stack", "float/ort_tfbert_qa_tiny")), indirect=True)
def test_simplified_bert(path, opened, written):
    page = opened(written(path, "simplify"))
    assert 0 < cpu_seconds(page) <= 3
    assert page.locator(".node.status-removed").count() > 0
    page.keyboard.press("w")
    page.wait_for_selector(".kind-group")
    page.locator(".kind-group").first.dispatch_event("click")
    page.get_by_role("button", name="Close groups").click()
    page.wait_for_selector(".kind-group")
