import type { NodeVersion, Operator, Report, ValueVersion } from "./contract";

/** A moment of the run: the state after event `moment`; -1 is the original model. */
export type Moment = number;

const NEVER = 2 ** 30;
const UNKNOWN: Operator = { family: "other" };

/** Every version has a span of events in which it lives, so that any state is a question and never a copy. */
export class History {
  readonly report: Report;
  private readonly born: Int32Array;
  private readonly died: Int32Array;
  private readonly valueBorn: Int32Array;
  private readonly valueDied: Int32Array;
  private readonly makers = new Map<string, number[]>();
  private readonly users = new Map<string, number[]>();
  private readonly valuesByName = new Map<string, number[]>();
  /** New version of a node that only got other inputs, by its old version; and back. */
  readonly rewiredTo = new Map<number, number>();
  readonly rewiredFrom = new Map<number, number>();
  private readonly changesInterfaces: boolean;
  /** Where in the original model a version stands; a new one stands where what it replaced stood. */
  private readonly places: Float64Array;

  constructor(report: Report) {
    this.report = report;
    this.changesInterfaces = report.events.some((event) => event.interfaces);
    this.born = new Int32Array(report.nodes.length).fill(NEVER);
    this.died = new Int32Array(report.nodes.length).fill(NEVER);
    this.valueBorn = new Int32Array(report.values.length).fill(NEVER);
    this.valueDied = new Int32Array(report.values.length).fill(NEVER);
    for (const id of report.original.nodes) this.born[id] = -1;
    for (const id of report.original.values) this.valueBorn[id] = -1;
    report.events.forEach((event, moment) => {
      for (const id of event.removed) this.died[id] = moment;
      for (const id of event.added) this.born[id] = moment;
      for (const [old, fresh] of event.rewired ?? []) {
        this.died[old] = moment;
        this.born[fresh] = moment;
        this.rewiredTo.set(old, fresh);
        this.rewiredFrom.set(fresh, old);
      }
      for (const id of event.values?.removed ?? []) this.valueDied[id] = moment;
      for (const id of event.values?.added ?? []) this.valueBorn[id] = moment;
    });
    this.places = new Float64Array(report.nodes.length).fill(Infinity);
    report.original.nodes.forEach((id, place) => (this.places[id] = place));
    for (const event of report.events) {
      for (const [old, fresh] of event.rewired ?? []) this.places[fresh] = this.places[old]!;
      const seen = [...event.removed, ...(event.matched ?? []), ...(event.node === undefined ? [] : [event.node])];
      // Behind all that it replaces, so that a text shows first what went and then what came.
      const place = seen.reduce((most, id) => Math.max(most, this.places[id]!), -1);
      for (const id of event.added) this.places[id] = place < 0 ? Infinity : place;
    }
    report.nodes.forEach((node, id) => {
      const graph = node.graph ?? 0;
      for (const name of node.outputs) if (name) add(this.makers, key(graph, name), id);
      for (const name of new Set(node.inputs)) if (name) add(this.users, key(graph, name), id);
    });
    report.values.forEach((value, id) => add(this.valuesByName, key(value.graph ?? 0, value.name), id));
  }

  get last(): Moment {
    return this.report.events.length - 1;
  }

  node(id: number): NodeVersion {
    return this.report.nodes[id]!;
  }

  operator({ domain, op }: NodeVersion): Operator {
    return this.report.operators[domain ? `${domain}::${op}` : op] ?? UNKNOWN;
  }

  graphOf(id: number): number {
    return this.node(id).graph ?? 0;
  }

  placeOf(id: number): number {
    return this.places[id]!;
  }

  bornAt(id: number): Moment {
    return this.born[id]!;
  }

  diedAt(id: number): Moment | undefined {
    const moment = this.died[id]!;
    return moment === NEVER ? undefined : moment;
  }

  lives(id: number, moment: Moment): boolean {
    return this.born[id]! <= moment && moment < this.died[id]!;
  }

  nodesAt(moment: Moment, graph: number): number[] {
    const ids: number[] = [];
    this.report.nodes.forEach((node, id) => {
      if ((node.graph ?? 0) === graph && this.lives(id, moment)) ids.push(id);
    });
    return ids;
  }

  /** Which node of this graph makes a value. */
  maker(graph: number, name: string, moment: Moment): number | undefined {
    return this.makers.get(key(graph, name))?.findLast((id) => this.lives(id, moment));
  }

  usersOf(graph: number, name: string, moment: Moment): number[] {
    return (this.users.get(key(graph, name)) ?? []).filter((id) => this.lives(id, moment));
  }

  /** What is known of a value; subgraphs see the values of the graphs around them. */
  value(graph: number, name: string, moment: Moment): ValueVersion | undefined {
    for (let at: number | undefined = graph; at !== undefined; at = this.report.graphs[at]?.parent) {
      const id = this.valuesByName.get(key(at, name))?.findLast((it) => this.valueLives(it, moment));
      if (id !== undefined) return this.report.values[id];
    }
    return undefined;
  }

  private valueLives(id: number, moment: Moment): boolean {
    return this.valueBorn[id]! <= moment && moment < this.valueDied[id]!;
  }

  /** Names of what goes into a graph and comes out of it. */
  ends(graph: number, moment: Moment): { inputs: string[]; outputs: string[] } {
    for (let at = Math.min(moment, this.last); at >= 0 && this.changesInterfaces; at--) {
      const found = this.report.events[at]!.interfaces?.find((each) => each.graph === graph);
      if (found) return found;
    }
    return this.report.graphs[graph] ?? { inputs: [], outputs: [] };
  }

  /** Whether a value is what it is in the end: the node that makes it stays, whatever is annotated later. */
  staysToTheEnd(graph: number, name: string, moment: Moment): boolean {
    let maker = this.maker(graph, name, moment);
    while (maker !== undefined && this.rewiredTo.has(maker)) maker = this.rewiredTo.get(maker);
    return maker === undefined ? this.value(graph, name, this.last) !== undefined : this.lives(maker, this.last);
  }

  /** Values of the graphs around that the nodes of a subgraph use. */
  captured(graph: number, moment: Moment): Set<string> {
    const names = new Set<string>();
    const own = new Set(this.ends(graph, moment).inputs);
    const nodes = this.nodesAt(moment, graph);
    for (const id of nodes) for (const name of this.node(id).outputs) own.add(name);
    const use = (name: string | null): void => {
      if (name && !own.has(name) && !this.valuesByName.has(key(graph, name))) names.add(name);
    };
    for (const id of nodes) {
      this.node(id).inputs.forEach(use);
      for (const inner of this.node(id).graphs ?? []) this.captured(inner, moment).forEach(use);
    }
    return names;
  }

  /** What a node calls itself in links and lists. */
  nameOf(id: number): string {
    const node = this.node(id);
    return node.name || node.outputs.find(Boolean) || `${node.op} ${id}`;
  }

  /** The version of that name that lives nearest to a moment. */
  find(name: string, moment: Moment, before: Moment): number | undefined {
    const named = this.report.nodes.flatMap((node, id) => (node.name === name || node.outputs.includes(name) ? [id] : []));
    return named.find((id) => this.lives(id, moment)) ?? named.find((id) => this.lives(id, before)) ?? named[0];
  }
}

function key(graph: number, name: string): string {
  return `${graph} ${name}`;
}

function add(map: Map<string, number[]>, at: string, id: number): void {
  const list = map.get(at);
  if (list) list.push(id);
  else map.set(at, [id]);
}
