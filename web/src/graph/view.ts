import type { Cell, Diff, Status } from "../data/diff";
import type { Moment } from "../data/history";
import { plural, shortName, typeText } from "../data/words";
import { type Card, nodeCard, sized } from "./card";
import { type Group, grouped, type Grouping } from "./groups";

export type Mode = "diff" | "before" | "after";
export type EdgeStatus = "kept" | "added" | "removed";

export interface ViewNode {
  id: string;
  kind: "node" | "group" | "input" | "output";
  status: Status;
  card: Card;
  cell?: Cell;
  group?: Group;
  name?: string;
  /** Neighbours that are not shown. */
  above: Cell[];
  below: Cell[];
}

export interface ViewEdge {
  from: number;
  to: number;
  status: EdgeStatus;
  names: string[];
}

export interface View {
  mode: Mode;
  nodes: ViewNode[];
  edges: ViewEdge[];
  /** Place in `nodes` of a cell, by its key. */
  places: Map<number, number>;
  /** Changes that are left out, because there are too many. */
  left: number;
}

export interface Wish {
  mode: Mode;
  graph: number;
  /** How far around the changes; Infinity for the whole graph. */
  hops: number;
  /** Nodes to show whatever the rest: selected ones, and those that a click asked for. */
  extra: number[];
  grouping: Grouping;
  expanded: ReadonlySet<string>;
}

/** More than this around changes helps nobody; the whole graph has no such limit. */
const MOST = 700;
/** So many changes are shown with what is around them; of more, the first ones. */
const SEEDS = 120;
/** A graph up to this size is shown whole, where nothing changed. */
const SMALL = 250;

export class ViewBuilder {
  constructor(
    private readonly diff: Diff,
    private readonly wish: Wish,
  ) {}

  build(): View {
    const all = this.all();
    const seeds = this.seeds();
    const whole = this.wish.hops === Infinity || (!seeds.length && all.length <= SMALL);
    const shown = whole ? all : this.around(seeds.length ? inOrder(this.diff, seeds).slice(0, SEEDS) : all.slice(0, 1));
    const groups = grouped(this.diff.history, shown, whole ? this.wish.grouping : "none", this.wish.expanded, (cell) =>
      this.sources(cell).map((source) => source.cell),
    );
    return new Assembly(this, this.diff, this.wish, shown, groups).view(whole ? 0 : Math.max(0, seeds.length - SEEDS));
  }

  private all(): Cell[] {
    const { history, from, to } = this.diff;
    const ids = new Set<number>();
    if (this.wish.mode !== "after") history.nodesAt(from, this.wish.graph).forEach((id) => ids.add(id));
    if (this.wish.mode !== "before") history.nodesAt(to, this.wish.graph).forEach((id) => ids.add(id));
    return inOrder(this.diff, [...new Set([...ids].map((id) => this.diff.cell(id)))].filter((cell) => this.shows(cell)));
  }

  shows(cell: Cell): boolean {
    const { mode, graph } = this.wish;
    const { history } = this.diff;
    if (history.graphOf(cell.key) !== graph || this.isInline(cell)) return false;
    return mode === "diff" || (mode === "before" ? cell.before : cell.after) !== undefined;
  }

  /** Constants are drawn inside the nodes that use them, unless they are what changed. */
  private isInline(cell: Cell): boolean {
    return cell.status === "kept" && this.diff.history.node(cell.key).op === "Constant";
  }

  /** What a node uses: its inputs, and what its subgraphs take from the graph around them. */
  operands(id: number, moment: Moment): Set<string> {
    const { history } = this.diff;
    const node = history.node(id);
    const inner = (node.graphs ?? []).flatMap((each) => [...history.captured(each, moment)]);
    return new Set([...node.inputs, ...inner].filter((name): name is string => Boolean(name)));
  }

  private seeds(): Cell[] {
    const here = this.diff.changed.filter((cell) => this.shows(cell));
    const strong = here.filter((cell) => cell.status !== "rewired");
    if (strong.length) return strong;
    if (here.length) return here;
    // Changes that this side cannot show (all were added, say) are found by what stood next to them.
    const hidden = this.diff.changed.filter((cell) => this.diff.history.graphOf(cell.key) === this.wish.graph);
    const beside = hidden.flatMap((cell) => [...this.sources(cell), ...this.targets(cell)]);
    return [...new Set(beside.map((link) => link.cell))].filter((cell) => this.shows(cell));
  }

  private around(seeds: Cell[]): Cell[] {
    const extra = this.wish.extra.map((id) => this.diff.cell(id)).filter((cell) => this.shows(cell));
    const asked = new Set(extra);
    const shown = new Set<Cell>(extra.concat(seeds).slice(0, MOST));
    let front = [...shown];
    // What was asked for by name comes with its neighbours and no more.
    for (let hop = 0; hop < Math.max(this.wish.hops, extra.length ? 1 : 0) && shown.size < MOST; hop++) {
      if (hop === 1) front = front.filter((cell) => !asked.has(cell));
      if (hop === this.wish.hops) front = front.filter((cell) => asked.has(cell));
      const next: Cell[] = [];
      for (const cell of front) {
        const targets = this.targets(cell);
        // A value that everything uses would bring everything with it.
        const near = [...this.sources(cell), ...(targets.length <= 8 ? targets : targets.slice(0, 8))];
        for (const { cell: other } of near) {
          if (shown.has(other) || shown.size >= MOST || !this.shows(other)) continue;
          shown.add(other);
          next.push(other);
        }
      }
      front = next;
    }
    return inOrder(this.diff, [...shown]);
  }

  /** The versions of a cell that this view looks at, with the moment of each. */
  sides(cell: Cell): { id: number; moment: Moment; side: "before" | "after" }[] {
    const { mode } = this.wish;
    const sides: { id: number; moment: Moment; side: "before" | "after" }[] = [];
    if (cell.before !== undefined && mode !== "after") sides.push({ id: cell.before, moment: this.diff.from, side: "before" });
    if (cell.after !== undefined && mode !== "before") sides.push({ id: cell.after, moment: this.diff.to, side: "after" });
    return sides;
  }

  sources(cell: Cell): Link[] {
    const { history } = this.diff;
    return this.sides(cell).flatMap(({ id, moment, side }) => {
      return [...this.operands(id, moment)].flatMap((name) => {
        const maker = history.maker(history.graphOf(id), name, moment);
        const cell = maker === undefined ? undefined : this.diff.cell(maker);
        return cell && !this.isInline(cell) ? [{ cell, name, side }] : [];
      });
    });
  }

  targets(cell: Cell): Link[] {
    const { history } = this.diff;
    return this.sides(cell).flatMap(({ id, moment, side }) => {
      const node = history.node(id);
      return node.outputs.flatMap((name) =>
        name ? history.usersOf(node.graph ?? 0, name, moment).map((user) => ({ cell: this.diff.cell(user), name, side })) : [],
      );
    });
  }
}

/** What comes first in the model is drawn first, and so to the left. */
function inOrder(diff: Diff, cells: Cell[]): Cell[] {
  const place = (cell: Cell): number => diff.history.placeOf(cell.before ?? cell.key);
  return cells.sort((a, b) => place(a) - place(b) || a.key - b.key);
}

export interface Link {
  cell: Cell;
  name: string;
  side: "before" | "after";
}

/** Cells, groups and the ends of the graph, put together with the edges between them. */
class Assembly {
  private readonly nodes: ViewNode[] = [];
  private readonly places = new Map<number, number>();
  private readonly pills = new Map<string, number>();
  private readonly interfaces = new Map<Moment, { inputs: Set<string>; outputs: Set<string> }>();
  private readonly edges = new Map<string, ViewEdge & { sides: Set<string> }>();

  constructor(
    private readonly builder: ViewBuilder,
    private readonly diff: Diff,
    private readonly wish: Wish,
    private readonly shown: Cell[],
    private readonly groups: Group[],
  ) {}

  view(left: number): View {
    const member = new Map<Cell, Group>();
    for (const group of this.groups) for (const cell of group.cells) member.set(cell, group);
    const placed = new Map<Group, number>();
    for (const cell of this.shown) {
      const group = member.get(cell);
      if (!group) {
        this.places.set(cell.key, this.nodes.push(this.cellNode(cell)) - 1);
        continue;
      }
      if (!placed.has(group)) placed.set(group, this.nodes.push(this.groupNode(group)) - 1);
      this.places.set(cell.key, placed.get(group)!);
    }
    for (const cell of this.shown) this.connect(cell);
    const edges = [...this.edges.values()].map(({ sides, ...edge }): ViewEdge => {
      const status = this.wish.mode !== "diff" || sides.size === 2 ? "kept" : sides.has("before") ? "removed" : "added";
      return { ...edge, status: this.sameOnBothSides() ? "kept" : status };
    });
    return { mode: this.wish.mode, nodes: this.nodes, edges, places: this.places, left };
  }

  private sameOnBothSides(): boolean {
    return this.diff.from === this.diff.to;
  }

  private cellNode(cell: Cell): ViewNode {
    const side = this.builder.sides(cell).at(-1)!;
    const card = nodeCard(this.diff.history, side.id, side.moment);
    return { id: `n${cell.key}`, kind: "node", status: cell.status, card, cell, above: [], below: [] };
  }

  private groupNode(group: Group): ViewNode {
    const changes = group.cells.filter((cell) => cell.status !== "kept").length;
    const lines: Card["lines"] = [
      { text: group.detail, kind: "attribute" },
      { text: plural(group.cells.length, "node") + (changes ? `, ${changes} changed` : ""), kind: "name" },
    ];
    const card = sized(group.title, "other", lines, 26);
    const status = changes ? "changed" : "kept";
    return { id: `g${group.path}`, kind: "group", status, card, group, above: [], below: [] };
  }

  private connect(cell: Cell): void {
    const here = this.places.get(cell.key)!;
    for (const { cell: other, name, side } of this.builder.sources(cell)) {
      const there = this.places.get(other.key);
      if (there !== undefined) this.edge(there, here, name, side);
      else if (this.builder.shows(other) && !this.nodes[here]!.above.includes(other)) this.nodes[here]!.above.push(other);
    }
    for (const { cell: other } of this.builder.targets(cell)) {
      if (this.places.has(other.key) || !this.builder.shows(other)) continue;
      if (!this.nodes[here]!.below.includes(other)) this.nodes[here]!.below.push(other);
    }
    this.interface(cell, here);
  }

  /** Inputs and outputs of the graph that this cell touches. */
  private interface(cell: Cell, here: number): void {
    for (const { id, moment, side } of this.builder.sides(cell)) {
      const graph = this.ends(moment);
      const node = this.diff.history.node(id);
      for (const name of this.builder.operands(id, moment)) {
        if (!graph.inputs.has(name)) continue;
        if (this.diff.history.value(this.wish.graph, name, moment)?.constant) continue;
        this.edge(this.end("input", name, moment), here, name, side);
      }
      for (const name of node.outputs) if (graph.outputs.has(name)) this.edge(here, this.end("output", name, moment), name, side);
    }
  }

  private ends(moment: Moment): { inputs: Set<string>; outputs: Set<string> } {
    let known = this.interfaces.get(moment);
    if (!known) {
      const { inputs, outputs } = this.diff.history.ends(this.wish.graph, moment);
      known = { inputs: new Set(inputs), outputs: new Set(outputs) };
      this.interfaces.set(moment, known);
    }
    return known;
  }

  private end(kind: "input" | "output", name: string, moment: Moment): number {
    const id = `${kind} ${name}`;
    let place = this.pills.get(id);
    if (place === undefined) {
      const value = this.diff.history.value(this.wish.graph, name, moment);
      const card = sized(shortName(name, 24), "other", value ? [{ text: typeText(value), kind: "attribute" }] : []);
      place = this.nodes.push({ id, kind, status: "kept", card, name, above: [], below: [] }) - 1;
      this.pills.set(id, place);
    }
    return place;
  }

  private edge(from: number, to: number, name: string, side: "before" | "after"): void {
    if (from === to) return;
    const key = `${from} ${to}`;
    const edge = this.edges.get(key) ?? { from, to, status: "kept", names: [], sides: new Set<string>() };
    if (!edge.names.includes(name)) edge.names.push(name);
    edge.sides.add(side);
    this.edges.set(key, edge);
  }
}
