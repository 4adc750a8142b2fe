"""What a page shows of data: metrics, blockers, ranges, thresholds."""

import json

import pytest

from onnx_passes import examples
from onnx_passes.cli.main import run_command_line
from onnx_passes.report.html import page as page_of


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("data")
    model = str(examples.path("digits-cnn"))
    assert (
        run_command_line(["-o", str(folder / "o.onnx"), "--report", str(folder / "r.json"), model, "streamline"]) == 0
    )
    return json.loads((folder / "r.json").read_text())


@pytest.fixture
def saved(data, tmp_path):
    def save(**changes: object):
        path = tmp_path / "report.html"
        path.write_text(page_of(json.dumps(data | changes)))
        return path

    return save


def test_blockers_lead_to_their_nodes(opened, saved):
    blocker = {"node": "logits", "op": "Add", "pass": "streamline", "reason": "</script> is no grid of integers"}
    page = opened(saved(blockers=[blocker]), "#page=overview")
    table = page.get_by_role("region", name="What stands in the way")
    assert "</script> is no grid of integers" in table.inner_text()
    table.get_by_role("button", name="Add").click()
    page.wait_for_selector(".node.selected")
    assert "is no grid of integers" in page.locator(".blocker").inner_text()


def test_metrics_over_steps(opened, saved, data, steps):
    last = steps["infer-thresholds"]
    accuracy = [{"step": 0, "value": 0.97}, {"step": 53, "value": "nan"}, {"step": last, "value": 0.96}]
    page = opened(saved(charts=data["charts"] | {"metrics": {"accuracy": accuracy}}), "#page=overview")
    chart = page.get_by_role("region", name="accuracy")
    assert chart.locator("circle").count() == 2
    assert chart.locator(".bad").count() == 1
    chart.locator("circle").last.click()
    assert f"step={last}" in page.url


def test_thresholds_and_ranges_are_plotted(opened, saved, steps):
    page = opened(saved(), f"#step={steps['infer-thresholds']}&node=relu1/Quant/Quant")
    page.wait_for_selector(".stairs")
    assert "accumulator 18 bits" in page.locator(".node-details").inner_text()
    first = page.locator(".stairs").get_attribute("d")
    page.get_by_role("slider").fill("3")
    assert page.locator(".stairs").get_attribute("d") != first


def test_page_without_a_report_says_so(browser, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(page_of('{"format":2}'))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.locator(".unreadable").inner_text() == "This page reads format 1 of a report, not 2."
    page.close()
