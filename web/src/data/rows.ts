import type { Moment } from "./history";
import type { Step, Steps } from "./steps";

/** Rows of the list of steps: steps in their tree, rewrites inside them, and folded runs of steps that changed nothing. */
export type Row =
  | { kind: "step"; id: string; step: Step; level: number; open: boolean; leaf: boolean }
  | { kind: "fold"; id: string; steps: Step[]; level: number; open: boolean }
  | { kind: "event"; id: string; event: Moment; level: number };

/** Steps that are opened at first: those that hold others which changed something. */
export function stepRows(steps: Steps, toggled: ReadonlySet<string>, current: number | undefined): Row[] {
  const rows: Row[] = [];
  const list = (members: Step[], level: number): void => {
    for (let index = 0; index < members.length; ) {
      const step = members[index]!;
      let end = index;
      while (end < members.length && !members[end]!.changed && members[end]!.record.number !== current) end++;
      if (end > index + 1) {
        const id = `fold ${step.record.number}`;
        const open = toggled.has(id);
        rows.push({ kind: "fold", id, steps: members.slice(index, end), level, open });
        if (open) for (const each of members.slice(index, end)) put(each, level);
        index = end;
      } else {
        put(step, level);
        index++;
      }
    }
  };
  const put = (step: Step, level: number): void => {
    const id = `step ${step.record.number}`;
    const rewrites = step.events.length > 1 || step.events.some((event) => steps.event(event)?.rule);
    const leaf = !step.children.length && !rewrites;
    const usual = step.children.length ? step.changed : step.record.number === current;
    const open = !leaf && toggled.has(id) !== usual;
    rows.push({ kind: "step", id, step, level, open, leaf });
    if (!open) return;
    list(step.children, level + 1);
    if (rewrites) for (const event of step.events) rows.push({ kind: "event", id: `event ${event}`, event, level: level + 1 });
  };
  list(steps.roots, 0);
  return rows;
}
