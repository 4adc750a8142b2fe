import type { Cell, Diff } from "./diff";
import type { Moment } from "./history";
import { constantText, fullType, typeText } from "./words";

export interface Line {
  mark: " " | "+" | "−" | "⋯";
  text: string;
  /** The node that the line is about. */
  id?: number;
}

const MOST = 400;

/** What changed as lines of ONNX text, each with what stands next to it; constants are summarised. */
export function textDiff(diff: Diff): { lines: Line[]; left: number } {
  const changed = diff.changed.filter((cell) => cell.status !== "rewired" || diff.changed.length <= 40);
  const shown = ordered(diff, changed.slice(0, MOST));
  const lines: Line[] = [];
  let last: number | undefined;
  for (const { cell, context } of shown) {
    const graph = diff.history.graphOf(cell.key);
    if (graph !== last && (last !== undefined || graph !== 0)) {
      lines.push({ mark: "⋯", text: `in ${diff.history.report.graphs[graph]?.name ?? "graph"}` });
    }
    last = graph;
    if (context) lines.push({ mark: " ", text: nodeText(diff, cell.key, cell.after === undefined ? diff.from : diff.to), id: cell.key });
    else lines.push(...changedLines(diff, cell));
  }
  return { lines, left: Math.max(0, changed.length - MOST) };
}

function changedLines(diff: Diff, cell: Cell): Line[] {
  if (cell.status === "annotated") {
    return diff.history.node(cell.key).outputs.flatMap((name): Line[] => {
      const graph = diff.history.graphOf(cell.key);
      const [before, after] = [diff.from, diff.to].map((moment) => fullType(diff.history.value(graph, name, moment)));
      if (before === after) return [];
      return [
        { mark: "−", text: `${name}: ${before}`, id: cell.key },
        { mark: "+", text: `${name}: ${after}`, id: cell.key },
      ];
    });
  }
  const lines: Line[] = [];
  if (cell.before !== undefined) lines.push({ mark: "−", text: nodeText(diff, cell.before, diff.from), id: cell.before });
  if (cell.after !== undefined) lines.push({ mark: "+", text: nodeText(diff, cell.after, diff.to), id: cell.after });
  return lines;
}

export function nodeText(diff: Diff, id: number, moment: Moment): string {
  const node = diff.history.node(id);
  const attributes = Object.entries(node.attributes ?? {}).map(([key, text]) => `${key}=${text}`);
  const inputs = node.inputs.map((name) => {
    if (!name) return "–";
    const value = diff.history.value(node.graph ?? 0, name, moment);
    if (!value?.constant) return name;
    const { values } = value.constant;
    return values && values.length <= 4 ? constantText(value.constant) : `${name} {${typeText(value)}, ${constantText(value.constant, 8)}}`;
  });
  const operator = node.domain ? `${node.domain}.${node.op}` : node.op;
  return `${node.outputs.join(", ")} = ${operator}${attributes.length ? ` <${attributes.join(", ")}>` : ""} (${inputs.join(", ")})`;
}

/** Changed cells and their neighbours, in the order of the graph as far as both sides allow one. */
function ordered(diff: Diff, changed: Cell[]): { cell: Cell; context: boolean }[] {
  const own = new Set(changed);
  const cells: Cell[] = [...changed];
  const seen = new Set(changed);
  const sourcesOf = (cell: Cell): Cell[] => neighbours(diff, cell, "sources");
  if (changed.length <= 60) {
    for (const cell of changed) {
      for (const near of [...sourcesOf(cell), ...neighbours(diff, cell, "targets").slice(0, 3)]) {
        if (!seen.has(near)) cells.push(near);
        seen.add(near);
      }
    }
  }
  const place = new Map(cells.map((cell, index) => [cell, index]));
  const ins = cells.map((cell) => [...new Set(sourcesOf(cell))].flatMap((near) => place.get(near) ?? []));
  const places = cells.map((cell) => diff.history.placeOf(cell.before ?? cell.key));
  return sourcesFirst(ins, places).map((index) => ({ cell: cells[index]!, context: !own.has(cells[index]!) }));
}

/** Each node right behind what it is made from, so that what belongs together stands together. */
function sourcesFirst(ins: number[][], places: number[]): number[] {
  const starts = ins.map((_, index) => index).sort((a, b) => places[a]! - places[b]! || a - b);
  const seen = new Set<number>();
  const order: number[] = [];
  for (const start of starts) {
    const stack: [number, number][] = seen.has(start) ? [] : [[start, 0]];
    seen.add(start);
    while (stack.length) {
      const top = stack.at(-1)!;
      const next = ins[top[0]]![top[1]++];
      if (next === undefined) order.push(stack.pop()![0]);
      else if (!seen.has(next)) {
        seen.add(next);
        stack.push([next, 0]);
      }
    }
  }
  return order;
}

function neighbours(diff: Diff, cell: Cell, which: "sources" | "targets"): Cell[] {
  const { history } = diff;
  const sides: [number | undefined, Moment][] = [
    [cell.before, diff.from],
    [cell.after, diff.to],
  ];
  return sides.flatMap(([id, moment]) => {
    if (id === undefined) return [];
    const node = history.node(id);
    const graph = node.graph ?? 0;
    const ids =
      which === "sources"
        ? node.inputs.flatMap((name) => (name ? (history.maker(graph, name, moment) ?? []) : []))
        : node.outputs.flatMap((name) => history.usersOf(graph, name, moment));
    return ids.map((each) => diff.cell(each));
  });
}
