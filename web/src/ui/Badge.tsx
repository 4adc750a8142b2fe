import type { StepRecord } from "../data/contract";
import { knownText, levelOf, type Trust, trust } from "../data/levels";

/** How well it is known that results are kept: a colour, and the word for those who do not see it. */
export function Badge({ level, title }: { level: string; title?: string }) {
  return (
    <span class={`badge trust-${trust(level)}`} title={title ?? level}>
      {level}
    </span>
  );
}

export function StepBadge({ step }: { step: StepRecord }) {
  if (step.status === "failed") return <span class="badge trust-failed">failed</span>;
  const level = levelOf(step);
  if (!level || level === "unchanged") return null;
  return <Badge level={level} title={knownText(step)} />;
}

const SIGNS: Record<Trust, string> = { none: "", proof: "∎", tested: "=", close: "≈", doubt: "?", failed: "!" };

/** The same as a single sign, for narrow rows; its column stays where there is none. */
export function StepSign({ step }: { step: StepRecord }) {
  const level = levelOf(step) ?? "unchanged";
  const kind = step.status === "failed" ? "failed" : trust(level);
  if (kind === "none") return <span class="sign-none" />;
  const text = step.status === "failed" ? "failed" : knownText(step);
  return (
    <span class={`badge sign trust-${kind}`} role="img" aria-label={text} title={text}>
      {SIGNS[kind]}
    </span>
  );
}
