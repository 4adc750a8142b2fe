import type { Evidence, Proof, StepRecord } from "./contract";
import { numberText, plural } from "./words";

/** How much a level of evidence is worth, for its colour. */
export type Trust = "none" | "proof" | "tested" | "close" | "doubt" | "failed";

export function trust(level: string | undefined): Trust {
  if (!level || level === "unchanged") return "none";
  if (level.startsWith("proved") || level === "equal-in-reals") return "proof";
  if (level === "tested" || level === "sampled") return "tested";
  return level === "tolerance" || level === "metric" ? "close" : "doubt";
}

const PROOFS = ["proved", "proved-here", "equal-in-reals"];

/** The level of a step: of files without proofs, that of what runs showed. */
export function levelOf(step: StepRecord): string | undefined {
  return step.level ?? step.evidence?.level;
}

/** All that is known of a step, in a few words. */
export function knownText(step: StepRecord): string {
  const shown = step.evidence ? evidenceText(step.evidence) : "";
  const level = levelOf(step);
  if (level && PROOFS.includes(level)) return shown ? `${level}; ${shown}` : level;
  const proved = PROOFS.reduce((sum, each) => sum + (step.proved?.[each] ?? 0), 0);
  return proved ? `${shown}; ${proved} of ${plural(step.applications, "rewrite")} proved` : shown;
}

/** What a proof rests on, in sentences. */
export function proofLines(proof: Proof): string[] {
  if (!proof.level) return [`not proved: ${proof.reason ?? ""}`];
  const bound = proof.bound === undefined ? [] : [`at most ${numberText(proof.bound)} off`];
  return [proof.method ?? "", ...(proof.facts ?? []), ...bound].filter(Boolean);
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
