"""The graph: sides of a difference, neighbourhoods, search, groups, and nodes through all steps."""

import re

from tests.report.browser.conftest import until


def operators(page) -> list[str]:
    return page.locator(".node:not(.kind-input):not(.kind-output) .title").all_text_contents()


def test_sides_of_a_difference(opened, demo):
    page = opened(demo, "#rewrite=1")
    assert sorted(operators(page)).count("Quant") >= 2
    assert {"Div", "Mul"} <= set(operators(page))
    page.keyboard.press("b")
    until(page, "!document.querySelector('.status-added')")
    assert "Div" not in operators(page)
    page.keyboard.press("a")
    until(page, "!document.querySelector('.status-removed')")
    assert {"Div", "Mul"} <= set(operators(page))
    page.keyboard.press("s")
    page.wait_for_selector(".view:nth-child(2)")
    assert page.locator(".side-name").all_inner_texts() == ["Before", "After"]


def test_selection_is_the_same_on_both_sides(opened, demo):
    page = opened(demo, "#rewrite=1&view=both")
    page.wait_for_selector(".view:nth-child(2) .node")
    page.locator(".view").nth(1).locator(".node.status-kept:not(.kind-input)").first.click()
    until(page, "document.querySelectorAll('.node.selected').length === 2")


def test_neighbourhood_grows_to_the_whole_graph(opened, demo):
    page = opened(demo, "#rewrite=1")
    page.keyboard.press("f")
    few = len(operators(page))
    page.get_by_role("button", name="More neighbours").click()
    until(page, f"document.querySelectorAll('.node').length > {few}")
    page.keyboard.press("w")
    until(page, "document.querySelector('.hops').innerText === 'all'")
    assert "hops=all" in page.url
    page.keyboard.press("w")
    page.locator("[data-more]").first.click()
    until(page, f"document.querySelectorAll('.node').length > {few}")


def test_search_jumps_to_a_node(opened, demo, steps):
    page = opened(demo, f"#step={steps['extract-quant-scale-zeropoint']}")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("gemm")
    assert page.get_by_role("option").first.inner_text().startswith("Gemm")
    page.keyboard.press("Enter")
    page.wait_for_selector(".node.selected")
    assert page.locator(".node.selected .title").text_content() == "Gemm"
    assert page.locator(".node-details h2").inner_text() == "Gemm"
    box = page.locator(".node.selected").bounding_box()
    view = page.locator(".view").bounding_box()
    assert view["x"] <= box["x"]
    assert box["y"] + box["height"] <= view["y"] + view["height"] + 1


def test_search_finds_what_lived_in_other_steps(opened, demo, steps):
    page = opened(demo, f"#step={steps['extract-quant-scale-zeropoint']}")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill("MultiThreshold")
    assert "in another step" in page.get_by_role("option").first.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(".node.selected.status-added")
    assert page.locator(".step-details h2").last.inner_text() == "infer-thresholds"


def test_lineage_leads_to_other_steps(opened, demo, steps):
    page = opened(demo, f"#step={steps['infer-thresholds']}")
    origin = steps["extract-quant-scale-zeropoint"]
    page.locator(".node.status-added").first.click()
    page.wait_for_selector(".lineage")
    assert page.locator(".lineage .self").inner_text() == "MultiThreshold"
    first = page.locator(".lineage li").first
    assert re.match(rf"from step {origin}\s+extract-quant-scale-zeropoint", first.inner_text())
    first.locator(".chip").first.click()
    assert f"step={origin}" in page.url
    page.wait_for_selector(".node.selected")
    later = page.locator(".lineage li").last
    assert re.match(r"to step \d+", later.inner_text())


def test_details_show_types_and_constants(opened, demo, steps):
    page = opened(demo, f"#step={steps['infer-thresholds']}&node=conv1/Conv_output_0_q")
    page.wait_for_selector(".node-details")
    details = page.locator(".node-details").inner_text()
    assert "kernel_shape" in details
    assert re.search(r"float32\[16,1,3,3\] as INT\d", details)
    assert page.locator(".node-details .plot svg").count() >= 1


def test_edges_tell_what_they_carry(opened, demo):
    page = opened(demo, "#rewrite=1")
    edge = page.locator("[data-edge]").first
    edge.dispatch_event("pointermove", {"bubbles": True})
    assert "float32[" in page.locator(".tip").inner_text()


def test_wheel_zooms_and_drag_moves(opened, demo):
    page = opened(demo, "#rewrite=1")
    at = "document.querySelector('.drawing > g').getAttribute('transform')"
    before = page.evaluate(at)
    page.mouse.move(700, 300)
    page.mouse.wheel(0, -300)
    until(page, f"{at} !== {before!r}")
    zoomed = page.evaluate(at)
    assert float(zoomed.split("scale(")[1][:-1]) > float(before.split("scale(")[1][:-1])
    page.mouse.move(420, 600)
    page.mouse.down()
    page.mouse.move(480, 560)
    page.mouse.up()
    assert page.evaluate(at) != zoomed
    assert page.locator(".node-details").count() == 0
