import type { Report, ReportEvent, StepRecord } from "./contract";
import type { Moment } from "./history";

/** A step with its place in the tree and the events that are its own or of the steps inside it. */
export interface Step {
  record: StepRecord;
  parent?: Step;
  children: Step[];
  /** Events (from, to]: the state before is after event `from`. */
  from: Moment;
  to: Moment;
  /** Its own events, without those of the steps inside it. */
  events: Moment[];
  changed: boolean;
}

export class Steps {
  readonly all: Step[] = [];
  readonly roots: Step[] = [];
  private readonly byNumber = new Map<number, Step>();
  private readonly byEvent = new Map<Moment, Step>();

  constructor(readonly report: Report) {
    const open: Step[] = [];
    for (const record of report.run.steps) {
      while (open.length && open.at(-1)!.record.depth >= record.depth) open.pop();
      const parent = open.at(-1);
      const step: Step = { record, parent, children: [], from: -1, to: -1, events: [], changed: false };
      (parent?.children ?? this.roots).push(step);
      open.push(step);
      this.all.push(step);
      this.byNumber.set(record.number, step);
    }
    report.events.forEach((event, moment) => {
      const step = this.byNumber.get(event.step);
      if (!step) return;
      step.events.push(moment);
      this.byEvent.set(moment, step);
    });
    this.spans();
  }

  /** A step spans its own events and those inside it; one without events stands where the last one left the model. */
  private spans(): void {
    let latest = -1;
    const spanned = (step: Step): void => {
      const before = latest;
      let first = step.events.length ? step.events[0]! : Infinity;
      let last = step.events.length ? step.events.at(-1)! : -1;
      const own = step.events.at(-1) ?? -1;
      for (const child of step.children) {
        spanned(child);
        if (child.to > child.from) {
          first = Math.min(first, child.from + 1);
          last = Math.max(last, child.to);
        }
      }
      const touched = last >= 0;
      step.from = touched ? first - 1 : before;
      step.to = touched ? last : before;
      latest = Math.max(latest, step.to, own);
      step.changed = touched || step.record.modified || step.record.status === "failed";
    };
    this.roots.forEach(spanned);
  }

  get(number: number): Step | undefined {
    return this.byNumber.get(number);
  }

  ofEvent(moment: Moment): Step | undefined {
    return this.byEvent.get(moment);
  }

  /** Events of a step and of all steps inside it. */
  eventsIn(step: Step): Moment[] {
    if (!step.children.length) return step.events;
    return [...step.events, ...step.children.flatMap((child) => this.eventsIn(child))].sort((a, b) => a - b);
  }

  event(moment: Moment): ReportEvent | undefined {
    return this.report.events[moment];
  }

  /** The event that deep links call by the number of its rewrite. */
  byApplication(application: number): Moment | undefined {
    const found = this.report.events.findIndex((event) => event.application === application);
    return found < 0 ? undefined : found;
  }

  /** The step to open on: the failed one, else the first that changed nodes. */
  get first(): Step | undefined {
    const failed = this.all.findLast((step) => step.record.status === "failed");
    if (failed) return failed;
    const touched = this.all.filter((step) => step.events.length);
    // Constants that move into initializers are nothing to look at.
    const isComputed = (id: number): boolean => this.report.nodes[id]!.op !== "Constant";
    const nodes = (moment: Moment): boolean => [...this.event(moment)!.added, ...this.event(moment)!.removed].some(isComputed);
    return touched.find((step) => step.events.some(nodes)) ?? touched[0] ?? this.all.find((step) => step.changed) ?? this.all[0];
  }
}
