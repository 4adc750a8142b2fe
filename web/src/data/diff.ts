import type { History, Moment } from "./history";

export type Status = "kept" | "added" | "removed" | "changed" | "rewired" | "annotated";

/** What a place in the graph holds before and after: the unit of every view. */
export interface Cell {
  key: number;
  before?: number;
  after?: number;
  status: Status;
}

/** The difference between two moments, in terms of cells; cells that are kept are made on demand. */
export class Diff {
  readonly changed: Cell[] = [];
  private readonly cells = new Map<number, Cell>();
  /** Graphs in which something changed, most changes first. */
  readonly graphs: number[];

  constructor(
    readonly history: History,
    readonly from: Moment,
    readonly to: Moment,
  ) {
    const { removed, added } = this.net();
    const pairs = new Map<number, [number, Status]>();
    for (const id of removed) {
      const fresh = this.follow(id, added);
      if (fresh !== undefined) pairs.set(id, [fresh, "rewired"]);
    }
    const taken = new Set([...pairs.values()].map(([fresh]) => fresh));
    const free = new Map<string, number>();
    for (const id of added) if (!taken.has(id)) for (const name of this.marks(id)) free.set(name, id);
    for (const id of removed) {
      if (pairs.has(id)) continue;
      const fresh = this.marks(id).map((name) => free.get(name)).find((it) => it !== undefined && !taken.has(it));
      if (fresh === undefined) continue;
      pairs.set(id, [fresh, "changed"]);
      taken.add(fresh);
    }
    for (const id of removed) {
      const pair = pairs.get(id);
      if (pair) this.hold({ key: pair[0], before: id, after: pair[0], status: pair[1] });
      else this.hold({ key: id, before: id, status: "removed" });
    }
    for (const id of added) if (!taken.has(id)) this.hold({ key: id, after: id, status: "added" });
    if (!this.changed.some((cell) => cell.status !== "rewired")) this.annotations();
    this.graphs = byCount(this.changed.map((cell) => history.graphOf(cell.key)));
  }

  /** What is gone and what is new between both moments, whatever came and went in between. */
  private net(): { removed: Set<number>; added: Set<number> } {
    const removed = new Set<number>();
    const added = new Set<number>();
    for (let moment = this.from + 1; moment <= this.to; moment++) {
      const event = this.history.report.events[moment]!;
      const gone = [...event.removed, ...(event.rewired ?? []).map(([old]) => old)];
      const fresh = [...event.added, ...(event.rewired ?? []).map(([, id]) => id)];
      for (const id of gone) if (this.history.lives(id, this.from)) removed.add(id);
      for (const id of fresh) if (this.history.lives(id, this.to)) added.add(id);
    }
    for (const id of removed) if (this.history.lives(id, this.to)) removed.delete(id);
    return { removed, added };
  }

  private follow(id: number, added: Set<number>): number | undefined {
    let at = this.history.rewiredTo.get(id);
    while (at !== undefined && !added.has(at)) at = this.history.rewiredTo.get(at);
    return at;
  }

  /** A node that is replaced by one of the same operator under the same name is a changed node. */
  private marks(id: number): string[] {
    const node = this.history.node(id);
    const base = `${node.graph ?? 0} ${node.domain ?? ""} ${node.op}`;
    return [...(node.name ? [`${base} name ${node.name}`] : []), ...(node.outputs[0] ? [`${base} makes ${node.outputs[0]}`] : [])];
  }

  /** Where no node changed, what is known of values may have: shapes, types, annotations. */
  private annotations(): void {
    for (let moment = this.from + 1; moment <= this.to; moment++) {
      for (const id of this.history.report.events[moment]!.values?.added ?? []) {
        const value = this.history.report.values[id]!;
        const maker = this.history.maker(value.graph ?? 0, value.name, this.to);
        if (maker !== undefined && !this.cells.has(maker)) {
          this.hold({ key: maker, before: maker, after: maker, status: "annotated" });
        }
      }
    }
  }

  private hold(cell: Cell): void {
    this.changed.push(cell);
    if (cell.before !== undefined) this.cells.set(cell.before, cell);
    if (cell.after !== undefined) this.cells.set(cell.after, cell);
  }

  cell(id: number): Cell {
    let cell = this.cells.get(id);
    if (!cell) {
      cell = { key: id, before: id, after: id, status: "kept" };
      this.cells.set(id, cell);
    }
    return cell;
  }

  count(status: Status): number {
    return this.changed.filter((cell) => cell.status === status).length;
  }
}

function byCount(items: number[]): number[] {
  const counts = new Map<number, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([item]) => item);
}
