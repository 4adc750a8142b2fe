import type { Report } from "./contract";

/** Read the data that the page carries: plain JSON, or gzip in base64 where that is much shorter. */
export async function loadReport(): Promise<Report> {
  const packed = document.getElementById("report-gz")?.textContent;
  const text = packed ? await inflate(packed.trim()) : document.getElementById("report")?.textContent;
  if (!text || !text.trim().startsWith("{")) throw new Error("This page carries no report.");
  const report = JSON.parse(text) as Partial<Report>;
  if (report.format !== 1) throw new Error(`This page reads format 1 of a report, not ${String(report.format)}.`);
  return withDefaults(report);
}

export async function inflate(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The recorder leaves out what is empty. */
function withDefaults(report: Partial<Report>): Report {
  const charts = { operators: [], error: [], metrics: {}, bits: [], integer: [], ...report.charts };
  return {
    format: 1,
    version: "",
    title: "",
    kind: "run",
    graphs: [{ name: "main", inputs: [], outputs: [] }],
    operators: {},
    nodes: [],
    values: [],
    events: [],
    passes: {},
    rules: {},
    blockers: [],
    ...report,
    original: { nodes: [], values: [], ...report.original },
    model: { opsets: {}, ...report.model },
    outcome: report.outcome ?? { status: "done" },
    run: { pipeline: "", ...report.run, steps: report.run?.steps ?? [] },
    facts: { final: {}, ...report.facts },
    charts,
  };
}
