import type { Evidence, Proof, StepRecord } from "./contract";
import { numberText, plural } from "./words";

/** How much a level of evidence is worth, for its colour. */
export type Trust = "none" | "proof" | "tested" | "close" | "doubt" | "failed";

export function trust(level: string | undefined): Trust {
  if (!level || level === "unchanged") return "none";
  if (isProved(level)) return "proof";
  if (level.includes("bits:")) return "tested";
  return level.startsWith("tolerance:") || level.startsWith("metric:") ? "close" : "doubt";
}

/** Levels are findings, as `bits:sampled, reals:proved`: what is preserved, and how that is known. */
function isProved(level: string): boolean {
  return level.includes(":proved");
}

/** The level of a step: of files without proofs, that of what runs showed. */
export function levelOf(step: StepRecord): string | undefined {
  return step.level ?? step.evidence?.level;
}

/** All that is known of a step, in a few words. */
export function knownText(step: StepRecord): string {
  const shown = step.evidence ? evidenceText(step.evidence) : "";
  const level = levelOf(step);
  if (level && isProved(level)) return shown ? `${level}; ${shown}` : level;
  const counts = Object.entries(step.proved ?? {});
  const proved = counts.reduce((sum, [each, count]) => sum + (each ? count : 0), 0);
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
  if (level.startsWith("bits:")) parts.push("bit-equal");
  else if (level.startsWith("tolerance:")) parts.push(error === undefined ? "within tolerance" : `within ${numberText(error)}`);
  else parts.push(level);
  if (samples) parts.push(`on ${plural(samples, "sample")}`);
  if (windows) parts.push(`and ${plural(windows, "rewrite")} each`);
  if (reason) parts.push(`(${reason})`);
  return parts.join(" ");
}
