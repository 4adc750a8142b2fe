import type { Layout } from "../layout/layered";
import type { View, ViewNode } from "./view";
import type { Box } from "./viewport";

/** A view with its layout: what can be drawn, and where. */
export interface Drawing {
  view: View;
  layout: Layout;
  /** What nodes and edges cover, for the questions of every frame. */
  boxes: Box[];
  routeBoxes: Box[];
}

export function drawn(view: View, layout: Layout): Drawing {
  const boxes = view.nodes.map(({ card: { width, height } }, index) => {
    return { x: layout.x[index]! - width / 2, y: layout.y[index]! - height / 2, width, height };
  });
  return { view, layout, boxes, routeBoxes: layout.routes.map(routeBox) };
}

export function boxOf(drawing: Drawing, index: number): Box {
  return drawing.boxes[index]!;
}

export function bounds({ layout }: Drawing): Box {
  return { x: 0, y: 0, width: layout.width, height: layout.height };
}

/** What encloses all that changed. */
export function changedBounds(drawing: Drawing): Box {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  drawing.view.nodes.forEach((node, index) => {
    if (node.status === "kept" || node.status === "rewired") return;
    const box = boxOf(drawing, index);
    left = Math.min(left, box.x);
    right = Math.max(right, box.x + box.width);
    top = Math.min(top, box.y);
    bottom = Math.max(bottom, box.y + box.height);
  });
  return left < right ? { x: left, y: top, width: right - left, height: bottom - top } : bounds(drawing);
}

export function overlaps(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** Curves that leave and enter upright. */
export function path(points: number[]): string {
  let [x, y] = [points[0]!, points[1]!];
  let text = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (let index = 2; index < points.length; index += 2) {
    const [nextX, nextY] = [points[index]!, points[index + 1]!];
    const middle = (y + nextY) / 2;
    text +=
      nextX === x
        ? `V${nextY.toFixed(1)}`
        : `C${x.toFixed(1)} ${middle.toFixed(1)} ${nextX.toFixed(1)} ${middle.toFixed(1)} ${nextX.toFixed(1)} ${nextY.toFixed(1)}`;
    [x, y] = [nextX, nextY];
  }
  return text;
}

function routeBox(points: number[]): Box {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let index = 0; index < points.length; index += 2) {
    left = Math.min(left, points[index]!);
    right = Math.max(right, points[index]!);
    top = Math.min(top, points[index + 1]!);
    bottom = Math.max(bottom, points[index + 1]!);
  }
  return { x: left - 1, y: top - 1, width: right - left + 2, height: bottom - top + 2 };
}

/** The topmost node that changed, for where to look first. */
export function firstChanged({ view, layout }: Drawing): number {
  const rank = ({ status }: ViewNode): number => (status === "kept" ? 2 : status === "rewired" ? 1 : 0);
  const order = view.nodes.map((_, index) => index);
  order.sort((a, b) => rank(view.nodes[a]!) - rank(view.nodes[b]!) || layout.y[a]! - layout.y[b]! || layout.x[a]! - layout.x[b]!);
  return order[0] ?? 0;
}
