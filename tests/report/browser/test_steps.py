"""The list of steps: what changed, what did not, and every rewrite within reach."""


def names(page) -> list[str]:
    return page.locator("[role=treeitem] .row-name").all_inner_texts()


def test_opens_on_the_first_change(opened, demo):
    page = opened(demo)
    assert page.title() == "digits_cnn.onnx · streamline · onnx-passes"
    assert "extract-quant-scale-zeropoint" in page.locator(".row[aria-selected=true]").inner_text()
    assert page.locator(".node.status-removed").count() > 0
    assert page.locator(".node.status-added").count() > 0


def test_unchanged_steps_are_folded(opened, demo):
    page = opened(demo)
    assert "import-qonnx" not in names(page)
    page.locator(".row-fold").filter(has_text="skipped").first.click()
    assert "import-qonnx" in names(page)
    page.locator(".row-fold").filter(has_text="skipped").first.click()
    assert "import-qonnx" not in names(page)


def test_says_how_well_each_step_is_known(opened, demo):
    page = opened(demo)
    assert page.locator("header.top .badge").inner_text().startswith(("tolerance:", "levels:", "reals:"))
    signs = page.locator("[role=treeitem] [role=img]").evaluate_all("all => all.map(each => each.ariaLabel)")
    assert any("within" in sign for sign in signs)
    assert any(sign.startswith("bits:proved") for sign in signs)


def test_every_rewrite_is_within_reach(opened, demo):
    page = opened(demo)
    rewrites = page.locator(".row-event")
    assert rewrites.count() == 8
    rewrites.nth(2).click()
    assert "rewrite=3" in page.url
    assert page.locator(".rewrite h2").inner_text() == "Quant"
    assert "extract_quant_scale_zeropoint.py:" in page.locator(".rewrite .source").inner_text()
    assert page.locator(".legend .mark-added").inner_text().startswith("+ 3")
    assert page.locator(".legend .mark-removed").inner_text().startswith("− 1")


def test_keys_walk_through_steps_and_rewrites(opened, demo):
    page = opened(demo)

    def chosen() -> str:
        return page.locator(".row[aria-selected=true]").inner_text().split("\n")[0]

    page.keyboard.press("j")
    assert chosen() == "aggregate-scales"
    page.keyboard.press("k")
    assert chosen() == "extract-quant-scale-zeropoint"
    page.keyboard.press("J")
    assert page.url.endswith("rewrite=1")
    page.keyboard.press("J")
    assert page.url.endswith("rewrite=2")
    page.keyboard.press("K")
    assert page.url.endswith("rewrite=1")
    page.keyboard.press("Escape")
    assert "rewrite" not in page.url


def test_text_below_shows_what_changed(opened, demo):
    page = opened(demo, "#rewrite=1")
    lines = page.locator(".line-row").all_inner_texts()
    assert [line[0] for line in lines if line[0] in "+−"] == ["−", "+", "+", "+"]
    assert any("Div (image, 0.008" in line for line in lines)
    page.keyboard.press("t")
    assert page.locator(".line-row").count() == 0


def test_tree_is_walked_by_arrows(opened, demo):
    page = opened(demo)
    page.locator("[role=tree]").focus()
    page.keyboard.press("ArrowDown")
    assert page.url.endswith("rewrite=1")
    page.keyboard.press("ArrowLeft")
    assert "rewrite" not in page.url
    page.keyboard.press("ArrowLeft")
    assert page.locator(".row-event").count() == 0
