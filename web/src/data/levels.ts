import type { Evidence, StepRecord } from "./contract";
import { numberText, plural } from "./words";

/** The ladder of evidence, the strongest first, and how well each rung lets one sleep. */
export const LADDER = ["unchanged", "proved", "proved-here", "equal-in-reals", "tested", "sampled", "tolerance", "metric", "unverified"];

export type Trust = "none" | "proof" | "tested" | "close" | "doubt" | "failed";

export function trust(level: string | undefined): Trust {
  if (!level || level === "unchanged") return "none";
  if (level.startsWith("proved") || level === "equal-in-reals") return "proof";
  if (level === "tested" || level === "sampled") return "tested";
  return level === "tolerance" || level === "metric" ? "close" : "doubt";
}

export function levelOf(step: StepRecord): string | undefined {
  return step.evidence?.level ?? (step.modified && step.status === "done" ? undefined : "unchanged");
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
