import type { History, Moment } from "./history";
import type { Steps } from "./steps";

export type Hit =
  | { kind: "node"; id: number; title: string; detail: string; here: boolean }
  | { kind: "step"; number: number; title: string; detail: string };

const MOST = 60;

/** Nodes by name, operator or value, here first, then wherever in the run they lived; and steps by name. */
export function find(history: History, steps: Steps, query: string, moments: [Moment, Moment]): Hit[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const ranked: { hit: Hit; rank: number }[] = [];
  history.report.nodes.forEach((node, id) => {
    const text = `${node.op} ${node.name ?? ""} ${node.outputs.join(" ")} ${node.inputs.join(" ")}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) return;
    const here = moments.some((moment) => history.lives(id, moment));
    const name = history.nameOf(id);
    const exact = name.toLowerCase() === query.toLowerCase() || node.op.toLowerCase() === query.toLowerCase();
    const own = `${node.op} ${name} ${node.outputs.join(" ")}`.toLowerCase();
    const rank = (here ? 0 : 10) + (exact ? 0 : words.every((word) => own.includes(word)) ? 1 : 3);
    ranked.push({ hit: { kind: "node", id, title: node.op, detail: name, here }, rank });
  });
  for (const step of steps.all) {
    const { pass, number, text } = step.record;
    if (!step.changed || !words.every((word) => `${pass} ${text}`.toLowerCase().includes(word))) continue;
    ranked.push({ hit: { kind: "step", number, title: pass, detail: `step ${number}` }, rank: 2 });
  }
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map(({ hit }) => hit);
}
