import type { Layout } from "./layered";
import type { Layers } from "./layers";

const ROW_GAP = 40;
const PORT_GAP = 16;

/** Vertical places, and the points that every edge passes. */
export function routes(
  graph: Layers,
  edges: [number, number][],
  x: Float64Array,
  widths: number[],
  heights: number[],
): Layout {
  const tops: number[] = [];
  const tall: number[] = [];
  let height = 0;
  for (const layer of graph.layers) {
    tops.push(height);
    tall.push(layer.reduce((most, item) => (graph.isBend(item) ? most : Math.max(most, heights[item]!)), 0));
    height += tall.at(-1)! + ROW_GAP;
  }
  const y = widths.map((_, node) => tops[graph.ranks[node]!]! + tall[graph.ranks[node]!]! / 2);
  const ports = inputPorts(graph, edges, x, widths);
  const points = edges.map(([from, to], index) => {
    const path = [x[from]!, y[from]! + heights[from]! / 2];
    graph.bends[index]?.forEach((bend, step) => {
      const rank = graph.ranks[from]! + 1 + step;
      path.push(x[bend]!, tops[rank]!, x[bend]!, tops[rank]! + tall[rank]!);
    });
    path.push(ports[index]!, y[to]! - heights[to]! / 2);
    return path;
  });
  const width = widths.reduce((most, each, node) => Math.max(most, x[node]! + each / 2), 0);
  return { x: Array.from(x.subarray(0, widths.length)), y, routes: points, width, height: Math.max(0, height - ROW_GAP) };
}

/** Edges enter a node side by side, in the order in which they come from above. */
function inputPorts(graph: Layers, edges: [number, number][], x: Float64Array, widths: number[]): number[] {
  const entering = new Map<number, { edge: number; from: number }[]>();
  edges.forEach(([from, to], edge) => {
    const list = entering.get(to) ?? [];
    list.push({ edge, from: x[graph.bends[edge]?.at(-1) ?? from]! });
    entering.set(to, list);
  });
  const ports = new Array<number>(edges.length).fill(0);
  for (const [to, list] of entering) {
    list.sort((a, b) => a.from - b.from || a.edge - b.edge);
    const gap = list.length > 1 ? Math.min(PORT_GAP, (widths[to]! * 0.7) / (list.length - 1)) : 0;
    list.forEach(({ edge }, index) => (ports[edge] = x[to]! + (index - (list.length - 1) / 2) * gap));
  }
  return ports;
}
