"""The page itself: links, the way back, light and dark, help, the overview, and who can use it."""

import pytest

from tests.report.browser.conftest import until


def test_links_lead_back_to_what_was_shown(opened, demo, steps):
    page = opened(demo, f"#step={steps['infer-thresholds']}&rewrite=18&view=after&hops=1")
    page.locator(".node.status-added").first.click()
    page.wait_for_selector(".node.selected")
    name = page.locator(".full-name").inner_text()
    again = opened(demo, page.url[page.url.index("#") :])
    again.wait_for_selector(".node.selected")
    assert again.locator(".full-name").inner_text() == name
    assert again.get_by_role("radio", name="After").get_attribute("aria-checked") == "true"
    assert again.locator(".hops").inner_text() == "1 hop"


def test_the_way_back(opened, demo, steps):
    last = steps["infer-thresholds"]
    page = opened(demo)
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert f"step={last}" in page.url
    page.go_back()
    until(page, "document.querySelector('.row[aria-selected=true]').innerText.includes('aggregate-scales')")
    page.keyboard.press("]")
    until(page, f"location.hash.includes('step={last}')")


def test_links_that_lead_nowhere_open_the_first_change(opened, demo):
    page = opened(demo, "#step=4711&rewrite=99&node=nobody&graph=9")
    assert "extract-quant-scale-zeropoint" in page.locator(".row[aria-selected=true]").inner_text()


def test_light_and_dark(opened, demo):
    page = opened(demo, scheme="dark")
    theme = "document.documentElement.dataset.theme"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(theme) == "dark"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the light theme").click()
    assert page.evaluate(theme) == "light"
    assert page.evaluate(ground) != dark
    page.reload()
    page.wait_for_selector(".node")
    assert page.evaluate(theme) == "light"


def test_help(opened, demo):
    page = opened(demo)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Help")
    assert "next, previous rewrite" in help_.inner_text()
    help_.locator("summary").click()
    assert "preact" in help_.locator("pre").inner_text()
    page.keyboard.press("Escape")
    assert help_.count() == 0


def test_overview(opened, demo, steps):
    page = opened(demo)
    page.get_by_role("tab", name="Overview").click()
    sizes = page.get_by_role("region", name="Before and after").inner_text()
    assert "33" in sizes
    assert "20" in sizes
    stacks = page.locator(".operators-chart .stack")
    assert stacks.count() == 4
    assert page.get_by_role("region", name="CPU time of passes").locator("li").count() > 5
    stacks.nth(2).click()
    assert f"step={steps['aggregate-scales']}" in page.url


CONTRAST = """
() => {
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const numbers = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.getClientRects().length || element.closest("[disabled], script, style")) continue;
    const svg = element instanceof SVGElement;
    const beneath = svg ? element.closest(".node")?.querySelector(".body") : null;
    if (svg && (!beneath || element.classList.contains("carries") || element.closest(".more"))) continue;
    const style = getComputedStyle(element);
    const back = svg ? numbers(getComputedStyle(beneath).fill) : ground(element);
    const [a, b] = [light(numbers(svg ? style.fill : style.color)), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const text = element.textContent.slice(0, 20);
    if (ratio < 4.5) poor.push(`${element.getAttribute("class")} "${text}" ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(opened, demo, steps, scheme):
    page = opened(demo, f"#step={steps['infer-thresholds']}&node=relu1/Quant/Quant", scheme=scheme)
    page.wait_for_selector(".node-details")
    assert page.evaluate(CONTRAST) == []
    page.keyboard.press("o")
    assert page.evaluate(CONTRAST) == []


def test_parts_have_roles(opened, demo):
    page = opened(demo)
    for role in ("tree", "tablist", "toolbar", "radiogroup", "application", "complementary", "navigation"):
        assert page.get_by_role(role).count() >= 1, role
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button')].filter(b => !b.innerText.trim() && !b.ariaLabel).length"
    )
    assert unnamed == 0


def test_fits_1000_pixels(opened, demo, steps):
    page = opened(demo, f"#step={steps['infer-thresholds']}", width=1000, height=700)
    assert page.evaluate("document.documentElement.scrollWidth") == 1000
    view = page.locator(".view").bounding_box()
    assert view["width"] >= 450
    assert view["height"] >= 300
