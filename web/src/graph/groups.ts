import type { Cell } from "../data/diff";
import type { History } from "../data/history";
import { topological } from "../layout/ranks";

export type Grouping = "none" | "modules" | "repeats";

/** Cells that are drawn as one until it is opened. */
export interface Group {
  path: string;
  title: string;
  detail: string;
  cells: Cell[];
}

export function grouped(
  history: History,
  cells: Cell[],
  grouping: Grouping,
  expanded: ReadonlySet<string>,
  sources: (cell: Cell) => Cell[],
): Group[] {
  if (grouping === "modules") return modules(history, cells, expanded);
  if (grouping === "repeats") return repeats(history, cells, expanded, sources);
  return [];
}

/** Whether the exporter left the nesting of modules. */
export function hasModules(history: History): boolean {
  return history.report.nodes.some((node) => node.scope?.length);
}

function modules(history: History, cells: Cell[], expanded: ReadonlySet<string>): Group[] {
  const scopes = cells.map((cell) => history.node(cell.key).scope ?? []);
  // A module around everything says nothing.
  let common = 0;
  const first = scopes.find((scope) => scope.length) ?? [];
  while (common < first.length && scopes.every((scope) => !scope.length || scope[common] === first[common])) common++;
  const collect = (open: ReadonlySet<string>): Map<string, Cell[]> => {
    const found = new Map<string, Cell[]>();
    cells.forEach((cell, index) => {
      const path = closedPath(scopes[index]!, Math.min(common, first.length - 1), open);
      if (path === undefined) return;
      const members = found.get(path);
      if (members) members.push(cell);
      else found.set(path, [cell]);
    });
    return found;
  };
  const open = new Set(expanded);
  let found = collect(open);
  // A module that holds nearly everything is opened, again and again, until there is something to see.
  for (let large = largest(found, cells.length); large; large = largest(found, cells.length)) {
    open.add(large);
    found = collect(open);
  }
  return [...found]
    .filter(([, members]) => members.length > 1)
    .map(([path, members]) => ({ path, title: path.split("/").at(-1)!, detail: operators(history, members), cells: members }));
}

function largest(found: Map<string, Cell[]>, all: number): string | undefined {
  return [...found].find(([, members]) => members.length > 12 && members.length > 0.7 * all)?.[0];
}

/** The outermost module that is not open. */
function closedPath(scope: string[], from: number, expanded: ReadonlySet<string>): string | undefined {
  for (let depth = Math.max(0, from) + 1; depth <= scope.length; depth++) {
    const path = scope.slice(0, depth).join("/");
    if (!expanded.has(path)) return path;
  }
  return undefined;
}

/** Sequences of the same operators with the same attributes, one after the other. */
function repeats(history: History, cells: Cell[], expanded: ReadonlySet<string>, sources: (cell: Cell) => Cell[]): Group[] {
  const order = sorted(cells, sources);
  const tokens = order.map((cell) => {
    const node = history.node(cell.key);
    return `${cell.status} ${node.op} ${node.inputs.length} ${Object.entries(node.attributes ?? {}).join(" ")}`;
  });
  const groups: Group[] = [];
  let at = 0;
  while (at < order.length) {
    const { period, count } = repeatAt(tokens, at);
    if (!count) {
      at++;
      continue;
    }
    const members = order.slice(at, at + period * count);
    const path = `repeat ${members[0]!.key}`;
    if (!expanded.has(path)) {
      const one = members.slice(0, period).map((cell) => history.node(cell.key).op);
      groups.push({ path, title: `${one.length === 1 ? one[0] : `${one.length} nodes`} × ${count}`, detail: one.join(", "), cells: members });
    }
    at += period * count;
  }
  return groups;
}

function repeatAt(tokens: string[], at: number): { period: number; count: number } {
  let best = { period: 0, count: 0 };
  let tried = 0;
  for (let period = 1; period <= 240 && at + 2 * period <= tokens.length && tried < 12; period++) {
    if (tokens[at + period] !== tokens[at]) continue;
    tried++;
    let length = 0;
    while (at + period + length < tokens.length && tokens[at + length] === tokens[at + period + length]) length++;
    const count = 1 + Math.floor(length / period);
    const worthwhile = count > 1 && period * count >= 6;
    if (worthwhile && period * count > best.period * best.count) best = { period, count };
  }
  return best;
}

function sorted(cells: Cell[], sources: (cell: Cell) => Cell[]): Cell[] {
  const place = new Map(cells.map((cell, index) => [cell, index]));
  const ins: number[][] = cells.map((cell) => [...new Set(sources(cell))].flatMap((other) => place.get(other) ?? []));
  const outs: number[][] = cells.map(() => []);
  ins.forEach((from, index) => from.forEach((each) => outs[each]!.push(index)));
  return topological(ins, outs).map((index) => cells[index]!);
}

function operators(history: History, cells: Cell[]): string {
  const counts = new Map<string, number>();
  for (const cell of cells) {
    const { op } = history.node(cell.key);
    counts.set(op, (counts.get(op) ?? 0) + 1);
  }
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 4)
    .map(([op, count]) => (count > 1 ? `${count} ${op}` : op))
    .join(", ");
}
