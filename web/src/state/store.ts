import { batch, computed, signal } from "@preact/signals";
import type { Report } from "../data/contract";
import { Diff } from "../data/diff";
import { History, type Moment } from "../data/history";
import { type Step, Steps } from "../data/steps";
import { type Grouping, hasModules } from "../graph/groups";

export type Page = "steps" | "overview";
export type Shown = "diff" | "before" | "after" | "both";

export const HOPS = [0, 1, 2, 3, 5, 8];
const GROUP_FROM = 150;

/** All that can be chosen; everything on the page follows from it, and the address keeps it. */
export class Store {
  readonly history: History;
  readonly steps: Steps;
  readonly page = signal<Page>("steps");
  readonly step = signal<number | undefined>(undefined);
  /** A rewrite inside the step, as the moment of its event. */
  readonly event = signal<Moment | undefined>(undefined);
  /** A version of a node. */
  readonly node = signal<number | undefined>(undefined);
  readonly shown = signal<Shown>("diff");
  readonly hops = signal<number>(2);
  /** Chosen graph; without a choice, the one in which most changed. */
  readonly chosenGraph = signal<number | undefined>(undefined);
  readonly chosenGrouping = signal<Grouping | undefined>(undefined);
  readonly expanded = signal<ReadonlySet<string>>(new Set());
  readonly extra = signal<readonly number[]>([]);
  readonly searching = signal(false);
  readonly helping = signal(false);
  readonly textOpen = signal(true);
  /** Unfolded rows of the list of steps. */
  readonly unfolded = signal<ReadonlySet<string>>(new Set());

  constructor(readonly report: Report) {
    this.history = new History(report);
    this.steps = new Steps(report);
  }

  readonly currentStep = computed<Step | undefined>(() => {
    const number = this.step.value;
    return number === undefined ? undefined : this.steps.get(number);
  });

  /** What the middle shows: one rewrite, or all that the step did. */
  readonly diff = computed(() => {
    const event = this.event.value;
    if (event !== undefined) return new Diff(this.history, event - 1, event);
    const step = this.currentStep.value;
    return new Diff(this.history, step?.from ?? -1, step?.to ?? this.history.last);
  });

  readonly graph = computed(() => {
    const chosen = this.chosenGraph.value;
    if (chosen !== undefined && this.report.graphs[chosen]) return chosen;
    const node = this.node.value;
    return node !== undefined ? this.history.graphOf(node) : (this.diff.value.graphs[0] ?? 0);
  });

  readonly grouping = computed<Grouping>(() => {
    const chosen = this.chosenGrouping.value;
    if (chosen) return chosen;
    if (this.report.original.nodes.length < GROUP_FROM) return "none";
    return hasModules(this.history) ? "modules" : "repeats";
  });

  /** Ready to be drawn: whatever is selected belongs to the moment that is shown. */
  readonly selected = computed<number | undefined>(() => {
    const node = this.node.value;
    if (node === undefined) return undefined;
    const { from, to } = this.diff.value;
    return this.history.lives(node, from) || this.history.lives(node, to) ? node : undefined;
  });

  selectStep(number: number): void {
    this.go({ step: number });
  }

  selectEvent(event: Moment, node?: number): void {
    this.go({ step: this.steps.ofEvent(event)?.record.number, event, node });
  }

  selectNode(node: number | undefined): void {
    batch(() => {
      this.node.value = node;
      if (node !== undefined && this.history.graphOf(node) !== this.graph.value) this.chosenGraph.value = this.history.graphOf(node);
    });
  }

  openGraph(graph: number): void {
    batch(() => {
      this.node.value = undefined;
      this.chosenGraph.value = graph;
    });
  }

  show(id: number): void {
    this.extra.value = [...this.extra.value, id];
  }

  open(path: string): void {
    this.expanded.value = new Set([...this.expanded.value, path]);
  }

  toggle(row: string): void {
    const next = new Set(this.unfolded.value);
    if (!next.delete(row)) next.add(row);
    this.unfolded.value = next;
  }

  private go(place: { step?: number; event?: Moment; node?: number }): void {
    batch(() => {
      this.page.value = "steps";
      this.step.value = place.step;
      this.event.value = place.event;
      this.node.value = place.node;
      this.chosenGraph.value = undefined;
      this.extra.value = [];
    });
  }

  /** Next or previous step that changed something. */
  moveStep(by: 1 | -1): void {
    const list = this.steps.all.filter((step) => step.changed);
    const at = list.findIndex((step) => step.record.number === this.step.value);
    const next = at < 0 ? list.find((step) => step.record.number > (this.step.value ?? -1)) : list[at + by];
    if (next) this.selectStep(next.record.number);
  }

  /** Next or previous rewrite, past the ends of steps too. */
  moveEvent(by: 1 | -1): void {
    const step = this.currentStep.value;
    const here = this.event.value;
    const inside = step ? this.steps.eventsIn(step) : [];
    const next = here !== undefined ? here + by : by > 0 ? inside[0] : inside.at(-1);
    if (next !== undefined && this.steps.event(next)) this.selectEvent(next);
  }
}
