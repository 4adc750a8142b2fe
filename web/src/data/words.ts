import type { Constant, ValueVersion } from "./contract";

/** How values and numbers are written everywhere. */

export function shapeText(shape: ValueVersion["shape"]): string {
  if (!shape) return "";
  const size = (each: number | string | null): string => (each === null ? "?" : String(each));
  // Names of dimensions can be whole formulas.
  return shape.length ? shape.map((each) => (size(each).length > 12 ? `${size(each).slice(0, 9)}…` : size(each))).join("×") : "scalar";
}

export function typeText(value: ValueVersion | undefined): string {
  if (!value) return "";
  const annotated = value.datatype && value.datatype.toLowerCase() !== value.type ? value.datatype : "";
  return [annotated || value.type || "", shapeText(value.shape)].filter(Boolean).join(" ");
}

export function fullType(value: ValueVersion | undefined): string {
  if (!value) return "unknown";
  const base = value.type ?? "?";
  const shape = value.shape ? `[${value.shape.map((size) => size ?? "?").join(",")}]` : "";
  return `${base}${shape}${value.datatype ? ` as ${value.datatype}` : ""}`;
}

export function numberText(value: number | string | boolean | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  // The ends of int64 stand for "all" in slices.
  if (Math.abs(value) > 9.2e18 && Number.isFinite(value)) return value > 0 ? "max" : "min";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US").replaceAll("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}

/** A constant in a few characters: its values if there are few, else their range. */
export function constantText(constant: Constant, room = 4): string {
  const { values, min, max } = constant;
  if (values?.length === 1) return numberText(values[0]);
  if (values?.length && values.length <= room) return `[${values.map(numberText).join(", ")}]`;
  if (min !== undefined && max !== undefined) return min === max ? `all ${numberText(min)}` : `${numberText(min)} … ${numberText(max)}`;
  return bytesText(constant.bytes);
}

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at++;
  }
  return `${at ? bytes.toFixed(bytes < 10 ? 1 : 0) : bytes} ${units[at]}`;
}

export function secondsText(seconds: number): string {
  if (seconds >= 100) return `${seconds.toFixed(0)} s`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 0.001 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : seconds > 0 ? "<1 ms" : "";
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}

export function signed(delta: number): string {
  return delta > 0 ? `+${delta}` : delta < 0 ? `−${-delta}` : "0";
}

/** The end of a long name says most: modules come first. */
export function shortName(name: string, longest = 28): string {
  const text = name.replace(/^[/.]+/, "");
  if (text.length <= longest) return text;
  const cut = text.slice(-longest).search(/[/.:]/);
  const end = cut >= 0 && cut < longest - 1 ? text.slice(cut + 1 - longest) : text.split(/[/.]/).at(-1)!;
  return end.length > longest ? `${end.slice(0, longest - 1)}…` : end;
}

/** Where code is, without the folder that it was installed into. */
export function sourceText(source: string): string {
  return source.replace(/^.*[/\\](?=onnx_passes[/\\])/, "");
}

/** A number that may have come as text, because JSON has no NaN and no infinities. */
export function asNumber(value: number | string | null | undefined): number {
  if (typeof value === "number") return value;
  if (value === null || value === undefined) return NaN;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value);
}
