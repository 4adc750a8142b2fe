import type { Report } from "./contract";
import type { Moment } from "./history";
import type { Steps } from "./steps";

/** All that is known of a failure, whatever level of the record it is on. */
export function failureOf(report: Report): Record<string, unknown> {
  const outer = report.outcome.details ?? {};
  const error = (outer["error"] ?? outer) as Record<string, unknown>;
  return { ...error, ...((error["details"] ?? {}) as Record<string, unknown>) };
}

/** The rewrite that is blamed, where one is. */
export function failedEvent(report: Report, steps: Steps): Moment | undefined {
  if (report.outcome.status !== "failed") return undefined;
  const number = failureOf(report)["number"];
  return typeof number === "number" ? steps.byApplication(number) : undefined;
}
