import type { Family, NodeVersion } from "../data/contract";
import type { History, Moment } from "../data/history";
import { constantText, numberText, shortName, typeText } from "../data/words";

/** What is written on a node, and the size that fits it. */
export interface Card {
  title: string;
  family: Family;
  lines: { text: string; kind: "name" | "attribute" | "constant" }[];
  width: number;
  height: number;
}

export const TITLE_HEIGHT = 24;
export const LINE_HEIGHT = 15;
const PADDING = 22;
const WIDEST = 236;
const SHOWN_FIRST = "kernel_shape strides pads group perm axis axes to mode signed rounding_mode out_dtype alpha beta transA transB".split(" ");

const pen = document.createElement("canvas").getContext("2d")!;
const FONT = `system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif`;
const widths = new Map<string, number>();

export function textWidth(text: string, font: "title" | "line"): number {
  const key = font + text;
  let width = widths.get(key);
  if (width === undefined) {
    pen.font = font === "title" ? `600 13px ${FONT}` : `11.5px ${FONT}`;
    width = pen.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

function fitted(text: string, room: number): string {
  if (textWidth(text, "line") <= room) return text;
  let end = Math.floor((text.length * room) / textWidth(text, "line"));
  while (end > 1 && textWidth(`${text.slice(0, end)}…`, "line") > room) end--;
  return `${text.slice(0, end)}…`;
}

export function sized(title: string, family: Family, lines: Card["lines"], extra = 0): Card {
  const room = WIDEST - PADDING;
  const fit = lines.map((line) => ({ ...line, text: fitted(line.text, room) }));
  const widest = Math.max(textWidth(title, "title") + extra, ...fit.map((line) => textWidth(line.text, "line")));
  const height = TITLE_HEIGHT + 4 + fit.length * LINE_HEIGHT + (fit.length ? 3 : 0);
  return { title, family, lines: fit, width: Math.min(WIDEST + extra, Math.max(72, Math.ceil(widest) + PADDING)), height };
}

export function nodeCard(history: History, id: number, moment: Moment): Card {
  const node = history.node(id);
  const lines: Card["lines"] = [];
  const name = node.name || node.outputs[0];
  if (name) lines.push({ text: shortName(name), kind: "name" });
  for (const graph of node.graphs ?? []) {
    const inner = history.report.graphs[graph];
    lines.push({ text: `▸ ${inner?.attribute ?? inner?.name ?? "subgraph"}`, kind: "constant" });
  }
  const attributes = keyAttributes(node);
  if (attributes) lines.push({ text: attributes, kind: "attribute" });
  constants(history, node, moment)
    .slice(0, 3)
    .forEach((text) => lines.push({ text, kind: "constant" }));
  // Room for the mark of its status in the corner.
  return sized(node.op, history.operator(node).family, lines, 18);
}

function keyAttributes(node: NodeVersion): string {
  const present = Object.entries(node.attributes ?? {}).filter(([, text]) => text.length < 40);
  const rank = (key: string): number => (SHOWN_FIRST.includes(key) ? SHOWN_FIRST.indexOf(key) : 99);
  return present
    .sort(([a], [b]) => rank(a) - rank(b))
    .slice(0, 3)
    .map(([key, text]) => `${key} ${attributeText(text)}`)
    .join(" · ");
}

function attributeText(text: string): string {
  if (/^-?\d+\.\d{5,}/.test(text)) return numberText(Number(text));
  return text.replaceAll(", ", ",").replace(/^'(.*)'$/, "$1");
}

function constants(history: History, node: NodeVersion, moment: Moment): string[] {
  return node.inputs.flatMap((name, index) => {
    const value = name ? history.value(node.graph ?? 0, name, moment) : undefined;
    if (!name || !value?.constant) return [];
    const label = history.operator(node).inputs?.[index] ?? shortName(name, 14);
    const few = value.constant.values !== undefined && value.constant.values.length <= 4;
    return [few ? `${label} = ${constantText(value.constant)}` : `${label}  ${typeText(value)}`];
  });
}
