import { colour } from "../state/theme";
import { boxOf, type Drawing, overlaps } from "./drawing";
import type { Box } from "./viewport";

/** Nodes as blocks of colour on a canvas: for maps, and for so many nodes that none could be read. */
export function paint(
  canvas: HTMLCanvasElement,
  drawing: Drawing,
  place: { x: number; y: number; kx: number; ky: number },
  options: { edges: boolean; seen?: Box; selected?: number },
): void {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const { view, layout } = drawing;
  const { x, y, kx, ky } = place;
  if (options.edges) {
    pen.lineWidth = 1;
    for (const status of ["kept", "removed", "added"]) {
      pen.strokeStyle = colour(status === "kept" ? "edge" : status);
      pen.beginPath();
      view.edges.forEach((edge, index) => {
        const points = layout.routes[index]!;
        if (edge.status !== status || (options.seen && !overlaps(options.seen, drawing.routeBoxes[index]!))) return;
        pen.moveTo(points[0]! * kx + x, points[1]! * ky + y);
        for (let at = 2; at < points.length; at += 2) pen.lineTo(points[at]! * kx + x, points[at + 1]! * ky + y);
      });
      pen.stroke();
    }
  }
  const colours = new Map<string, string>();
  const fill = (name: string): string => {
    const known = colours.get(name) ?? colour(name);
    colours.set(name, known);
    return known;
  };
  const block = (index: number, least: number): void => {
    const box = boxOf(drawing, index);
    if (options.seen && !overlaps(options.seen, box)) return;
    const node = view.nodes[index]!;
    pen.fillStyle = fill(node.status === "kept" ? `family-${node.card.family}` : node.status);
    const [w, h] = [Math.max(least, box.width * kx), Math.max(least, box.height * ky)];
    pen.fillRect(box.x * kx + x, box.y * ky + y, w, h);
    if (index !== options.selected) return;
    pen.strokeStyle = fill("accent");
    pen.lineWidth = 2;
    pen.strokeRect(box.x * kx + x - 2, box.y * ky + y - 2, w + 4, h + 4);
  };
  pen.globalAlpha = 0.55;
  view.nodes.forEach((node, index) => {
    if (node.status === "kept") block(index, 1);
  });
  pen.globalAlpha = 1;
  // What changed stays visible however small everything is.
  view.nodes.forEach((node, index) => {
    if (node.status !== "kept") block(index, 2.5);
  });
  if (options.selected !== undefined) block(options.selected, 3);
}
