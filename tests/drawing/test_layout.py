from __future__ import annotations

import random
import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.drawing.layers import Net, layered
from onnx_passes.drawing.layout import Placed, lay_out, order_layers
from onnx_passes.drawing.scene import Box, Scene, Wire


def scene(count: int, edges: list[tuple[int, int]]) -> Scene:
    boxes = tuple(Box(f"n{number}", "node", f"Op{number}", name=f"node_{number}") for number in range(count))
    return Scene("test", boxes, tuple(Wire(f"n{a}", f"n{b}", f"{a}", "1×8") for a, b in dict.fromkeys(edges)))


def middle(placed: Placed, number: int) -> float:
    box = placed.boxes[number]
    return box.x + box.width / 2


def random_edges(seed: int, count: int) -> list[tuple[int, int]]:
    source = random.Random(seed)
    return [(source.randrange(max(0, b - 8), b), b) for b in range(1, count) for _ in range(source.choice((1, 1, 2)))]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_boxes_never_overlap_and_wires_go_down(seed: int, count: int):
    placed = lay_out(scene(count, random_edges(seed, count)))
    rows: dict[float, list] = {}
    for box in placed.boxes:
        rows.setdefault(box.y, []).append(box)
    for row in rows.values():
        for a, b in pairwise(sorted(row, key=lambda box: box.x)):
            assert a.x + a.width < b.x
    for wire in placed.wires:
        heights = [y for (_, top), (_, bottom) in [(p[0], p[1]) for p in wire.points] for y in (top, bottom)]
        assert heights == sorted(heights)
    for box in placed.boxes:
        assert box.x >= 0
        assert box.x + box.width <= placed.width
        assert box.y + box.height <= placed.height


def test_wires_pass_beside_boxes():
    placed = lay_out(scene(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]))
    long = next(wire for wire in placed.wires if (wire.wire.source, wire.wire.target) == ("n0", "n4"))
    for ((x, top), (_, bottom)), box in zip(long.points[1:-1], placed.boxes[1:4], strict=True):
        assert top <= box.y
        assert bottom >= box.y + box.height
        assert not box.x <= x <= box.x + box.width


def test_a_chain_is_straight():
    placed = lay_out(scene(6, [(n, n + 1) for n in range(5)]))
    assert len({middle(placed, number) for number in range(6)}) == 1


def test_the_trunk_is_straight_whatever_joins_it():
    trunk, side = range(8), range(8, 16)
    edges = [*((n, n + 1) for n in range(7)), *((8 + n, n + 1) for n in range(7)), (0, 5)]
    placed = lay_out(scene(16, edges))
    assert len({round(middle(placed, number), 3) for number in trunk}) == 1
    assert all(abs(middle(placed, number) - middle(placed, 0)) > 1 for number in side[:7])


def test_side_inputs_stand_close_to_what_reads_them():
    placed = lay_out(scene(7, [(0, 1), (1, 2), (2, 3), (3, 4), (5, 6), (6, 4)]))
    assert placed.boxes[6].y == placed.boxes[3].y
    assert placed.boxes[5].y == placed.boxes[2].y


def test_cycles_are_laid_out():
    placed = lay_out(scene(3, [(0, 1), (1, 2), (2, 0)]))
    assert len({box.y for box in placed.boxes}) == 3


def test_order_of_layers_avoids_crossings():
    nets = [Net(0, (1, 2)), Net(1, (4,)), Net(2, (3,)), Net(3, (5,)), Net(4, (5,))]
    graph = layered(6, nets)
    order_layers(graph)
    upper, lower = graph.layers[1], graph.layers[2]
    assert [graph.down[item][0] for item in upper] == lower


def test_a_thousand_nodes_take_less_than_a_second():
    picture = scene(1000, random_edges(3, 1000))
    started = time.process_time()
    lay_out(picture)
    assert time.process_time() - started < 1


def test_wires_that_are_too_long_for_bends_do_not_cost_more():
    deep = 3000
    edges = [(n, n + 1) for n in range(deep - 1)] + [(n, deep - 1) for n in range(0, deep - 2, 7)]
    started = time.process_time()
    placed = lay_out(scene(deep, edges))
    assert time.process_time() - started < 8
    assert len(placed.wires) == len(set(edges))


def test_an_empty_graph_has_a_size():
    assert lay_out(scene(0, [])).width > 0


def test_names_of_boxes_stay_distinct():
    names = [f"/encoder/layer.{number}/attention/output/dense/MatMul" for number in range(20)]
    boxes = tuple(Box(str(number), "node", "MatMul", name) for number, name in enumerate(names))
    placed = lay_out(Scene("g", boxes, ()))
    shown = [each.box.name for each in placed.boxes]
    assert len(set(shown)) == 20
    assert all(f"layer.{number}…" in text for number, text in enumerate(shown))
    assert [box.name for box in placed.scene.boxes] == names
