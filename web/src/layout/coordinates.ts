/**
 * Horizontal places by the method of Brandes and Köpf: four layouts, each aligned with the median neighbours from one
 * corner and compacted, and the mean of the middle two for every node. Compaction is a longest path over blocks.
 */
import type { Layers } from "./layers";
import { topological } from "./ranks";

const GAP = 22;
const BEND_GAP = 12;

export function coordinates(graph: Layers, widths: number[]): Float64Array {
  const width = (item: number): number => (graph.isBend(item) ? 4 : widths[item]!);
  const apart = (left: number, right: number): number =>
    (width(left) + width(right)) / 2 + (graph.isBend(left) || graph.isBend(right) ? BEND_GAP : GAP);
  const conflicts = crossedInner(graph);
  const results: Float64Array[] = [];
  for (const downwards of [true, false]) {
    for (const leftwards of [true, false]) {
      const rows = downwards ? graph.layers : [...graph.layers].reverse();
      const layers = leftwards ? rows : rows.map((layer) => [...layer].reverse());
      const roots = aligned(layers, downwards ? graph.up : graph.down, conflicts);
      const x = compacted(layers, roots, leftwards ? apart : (a, b) => apart(b, a));
      results.push(leftwards ? x : x.map((at) => -at));
    }
  }
  return balanced(results, width);
}

/** Segments that cross an inner segment of a long edge; they give way, so that long edges are straight. */
function crossedInner(graph: Layers): Set<string> {
  const conflicts = new Set<string>();
  for (let index = 1; index + 1 < graph.layers.length; index++) {
    const upper = graph.layers[index]!;
    const lower = graph.layers[index + 1]!;
    let left = -1;
    let scanned = 0;
    lower.forEach((item, at) => {
      const inner = graph.isBend(item) ? graph.up[item]!.find((other) => graph.isBend(other)) : undefined;
      if (inner === undefined && at < lower.length - 1) return;
      const right = inner === undefined ? upper.length : graph.position[inner]!;
      for (; scanned <= at; scanned++) {
        const each = lower[scanned]!;
        for (const other of graph.up[each]!) {
          const place = graph.position[other]!;
          if ((place < left || place > right) && !(graph.isBend(each) && graph.isBend(other))) {
            conflicts.add(`${other} ${each}`);
          }
        }
      }
      left = right;
    });
  }
  return conflicts;
}

/** Chain nodes to their median neighbours in the layer before; the first of a chain is its root. */
function aligned(layers: number[][], near: number[][], conflicts: Set<string>): Int32Array {
  const count = near.length;
  const root = Int32Array.from({ length: count }, (_, item) => item);
  const taken = new Uint8Array(count);
  const place = new Int32Array(count);
  for (const layer of layers) layer.forEach((item, index) => (place[item] = index));
  for (const layer of layers) {
    let last = -1;
    for (const item of layer) {
      const others = [...near[item]!].sort((a, b) => place[a]! - place[b]!);
      if (!others.length) continue;
      const middle = (others.length - 1) / 2;
      for (let index = Math.floor(middle); index <= Math.ceil(middle); index++) {
        const other = others[index]!;
        if (root[item] !== item || taken[other] || place[other]! <= last) continue;
        if (conflicts.has(`${other} ${item}`) || conflicts.has(`${item} ${other}`)) continue;
        taken[other] = 1;
        root[item] = root[other]!;
        last = place[other]!;
      }
    }
  }
  return root;
}

/** Blocks as far left as their left neighbours allow, then as far right as their right ones do. */
function compacted(layers: number[][], root: Int32Array, apart: (a: number, b: number) => number): Float64Array {
  const count = root.length;
  const ins: number[][] = Array.from({ length: count }, () => []);
  const outs: number[][] = Array.from({ length: count }, () => []);
  const gaps: number[][] = Array.from({ length: count }, () => []);
  for (const layer of layers) {
    for (let index = 1; index < layer.length; index++) {
      const [a, b] = [layer[index - 1]!, layer[index]!];
      outs[root[a]!]!.push(root[b]!);
      gaps[root[a]!]!.push(apart(a, b));
      ins[root[b]!]!.push(root[a]!);
    }
  }
  const x = new Float64Array(count);
  const order = topological(ins, outs);
  for (const block of order) {
    outs[block]!.forEach((to, index) => (x[to] = Math.max(x[to]!, x[block]! + gaps[block]![index]!)));
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const block = order[at]!;
    if (!outs[block]!.length || !ins[block]!.length) continue;
    let free = Infinity;
    outs[block]!.forEach((to, index) => (free = Math.min(free, x[to]! - gaps[block]![index]!)));
    x[block] = Math.max(x[block]!, free);
  }
  return x.map((_, item) => x[root[item]!]!);
}

function balanced(results: Float64Array[], width: (item: number) => number): Float64Array {
  const spans = results.map((x) => {
    let low = Infinity;
    let high = -Infinity;
    x.forEach((at, item) => {
      low = Math.min(low, at - width(item) / 2);
      high = Math.max(high, at + width(item) / 2);
    });
    return { low, high };
  });
  const narrow = spans.reduce((best, span) => (span.high - span.low < best.high - best.low ? span : best));
  // Layouts from the left meet the narrowest one at its left edge, those from the right at its right edge.
  const shifts = spans.map((span, index) => (index % 2 === 0 ? narrow.low - span.low : narrow.high - span.high));
  const x = new Float64Array(results[0]!.length);
  let least = Infinity;
  for (let item = 0; item < x.length; item++) {
    const four = results.map((each, index) => each[item]! + shifts[index]!).sort((a, b) => a - b);
    x[item] = (four[1]! + four[2]!) / 2;
    least = Math.min(least, x[item]! - width(item) / 2);
  }
  return x.map((at) => at - least);
}
