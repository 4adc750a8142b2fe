"""Graphs inside of nodes: changes are shown where they are, and one can walk in and out."""

MODEL = """
<ir_version: 10, opset_import: ["": 18]>
outer (bool c, float[2] x) => (float[2] y)
{
    [negated] n = Neg(x)
    [choice] y = If(c) <
        then_branch = inner_then () => (float[2] t) { [twice] i = Identity(n)  [kept] t = Abs(i) },
        else_branch = inner_else () => (float[2] e) { [other] e = Relu(x) }
    >
}
"""


def titles(page) -> list[str]:
    return page.locator(".node .title").all_text_contents()


def test_changes_in_a_subgraph(opened, written, tmp_path):
    path = tmp_path / "outer.onnxtxt"
    path.write_text(MODEL)
    page = opened(written(path, "eliminate-identity"))
    assert page.locator(".crumbs button").all_inner_texts() == ["main", "then_branch"]
    assert page.locator(".status-removed .title").text_content() == "Identity"
    assert page.locator(".line-row.text-removed").count() >= 1
    page.get_by_role("button", name="main", exact=True).click()
    page.wait_for_selector("text=▸ then_branch")
    assert {"Neg", "If", "c", "x", "y"} <= set(titles(page))
    # What a branch takes from outside is drawn as an input of the node that holds it.
    assert page.locator(".edge").count() == 5
    page.locator(".node", has_text="▸ then_branch").dblclick()
    page.wait_for_selector(".status-removed")
    page.go_back()
    page.wait_for_selector("text=▸ then_branch")
    page.locator(".node", has_text="▸ then_branch").click()
    page.get_by_role("button", name="open else_branch").click()
    page.wait_for_selector("text=Relu")
    assert "Neg" not in titles(page)
