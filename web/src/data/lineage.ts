import type { History, Moment } from "./history";

/** One hop of lineage: the event, and the versions on its other side. */
export interface Hop {
  event: Moment;
  ids: number[];
  rewired: boolean;
}

/** What a version was made of, or nothing for nodes of the original. */
export function ancestors(history: History, id: number): Hop | undefined {
  const moment = history.bornAt(id);
  const event = history.report.events[moment];
  if (!event) return undefined;
  const old = history.rewiredFrom.get(id);
  if (old !== undefined) return { event: moment, ids: [old], rewired: true };
  const linked = (event.links ?? []).filter(([fresh]) => fresh === id).map(([, from]) => from);
  return { event: moment, ids: linked.length ? linked : madeOfAll(event) ? event.removed : [], rewired: false };
}

/** What became of a version, or nothing while it lives to the end. */
export function descendants(history: History, id: number): Hop | undefined {
  const moment = history.diedAt(id);
  const event = moment === undefined ? undefined : history.report.events[moment];
  if (!event || moment === undefined) return undefined;
  const fresh = history.rewiredTo.get(id);
  if (fresh !== undefined) return { event: moment, ids: [fresh], rewired: true };
  const linked = (event.links ?? []).filter(([, from]) => from === id).map(([to]) => to);
  return { event: moment, ids: linked.length ? linked : madeOfAll(event) ? event.added : [], rewired: false };
}

/** Hops in one direction, each from all that the one before led to; changes of inputs only are passed over. */
export function chain(history: History, id: number, next: typeof ancestors, limit = 12): Hop[] {
  const hops: Hop[] = [];
  let front = [id];
  const seen = new Set(front);
  while (front.length && hops.length < limit) {
    const found = new Map<Moment, Set<number>>();
    const queue = [...front];
    for (const each of queue) {
      const hop = next(history, each);
      if (!hop) continue;
      if (hop.rewired) {
        queue.push(...hop.ids);
        continue;
      }
      const ids = found.get(hop.event) ?? new Set<number>();
      hop.ids.forEach((it) => ids.add(it));
      found.set(hop.event, ids);
    }
    front = [];
    for (const [event, ids] of found) {
      hops.push({ event, ids: [...ids], rewired: false });
      for (const it of ids) {
        if (!seen.has(it)) front.push(it);
        seen.add(it);
      }
    }
  }
  return hops;
}

function madeOfAll(event: { rule?: string; links?: unknown }): boolean {
  return event.rule !== undefined && event.links === undefined;
}
