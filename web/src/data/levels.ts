import type { Evidence } from "./contract";
import { numberText, plural } from "./words";

/** How much a level of evidence is worth, for its colour. */
export type Trust = "none" | "proof" | "tested" | "close" | "doubt" | "failed";

export function trust(level: string | undefined): Trust {
  if (!level || level === "unchanged") return "none";
  if (level.startsWith("proved") || level === "equal-in-reals") return "proof";
  if (level === "tested" || level === "sampled") return "tested";
  return level === "tolerance" || level === "metric" ? "close" : "doubt";
}

/** What was checked, in a few words. */
export function evidenceText(evidence: Evidence): string {
  const parts: string[] = [];
  const { level, max_abs: error, samples, windows, reason } = evidence;
  if (level === "sampled" || level === "tested") parts.push("bit-equal");
  else if (level === "tolerance") parts.push(error === undefined ? "within tolerance" : `within ${numberText(error)}`);
  else parts.push(level);
  if (samples) parts.push(`on ${plural(samples, "sample")}`);
  if (windows) parts.push(`and ${plural(windows, "rewrite")} each`);
  if (reason) parts.push(`(${reason})`);
  return parts.join(" ");
}
