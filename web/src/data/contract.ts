/** What the recorder writes: versions of nodes and values that never change, and the events that replace them. */

export interface Report {
  format: 1;
  version: string;
  title: string;
  kind: "run" | "comparison";
  model: { name?: string; file?: string; opsets: Record<string, number> };
  outcome: { status: "done" | "failed"; message?: string; details?: Record<string, unknown> };
  run: Run;
  operators: Record<string, Operator>;
  nodes: NodeVersion[];
  values: ValueVersion[];
  graphs: Graph[];
  original: { nodes: number[]; values: number[] };
  events: ReportEvent[];
  passes: Record<string, { summary: string; doc: string; source: string }>;
  rules: Record<string, { pass?: string; source: string; doc?: string }>;
  facts: Facts;
  blockers: Blocker[];
  charts: Charts;
}

export type Family = "product" | "quantizer" | "activation" | "arithmetic" | "normalization" | "movement" | "reduction" | "control" | "other";

/** What an operator is for, which is its colour, and what it calls its inputs. */
export interface Operator {
  family: Family;
  inputs?: string[];
}

export interface Run {
  pipeline: string;
  modified?: boolean;
  nodes?: [number, number];
  operators?: [Record<string, number>, Record<string, number>];
  parameters?: [number, number];
  bytes?: [number, number];
  cpu_seconds?: number;
  wall_seconds?: number;
  applications?: number;
  level?: string;
  metrics?: Record<string, number | string>;
  metrics_note?: string;
  steps: StepRecord[];
}

export interface StepRecord {
  number: number;
  pass: string;
  text: string;
  why: string;
  depth: number;
  status: "running" | "done" | "skipped" | "failed";
  modified: boolean;
  cpu_seconds: number;
  wall_seconds: number;
  nodes_before: number;
  nodes_after: number;
  applications: number;
  rules?: RuleRecord[];
  reason?: string;
  notes?: string[];
  /** How well it is known that the step kept the results: by runs, or by proofs of its rewrites. */
  level?: string;
  evidence?: Evidence;
  /** How many of its rewrites are proved, by level; those without a level are not. */
  proved?: Record<string, number>;
  metrics?: Record<string, number | string>;
  result?: unknown;
}

export interface RuleRecord {
  rule: string;
  pass?: string;
  source: string;
  tried: number;
  matched: number;
  applied: number;
  seconds: number;
  refused?: Record<string, number>;
}

export interface Evidence {
  level: string;
  claim?: string;
  samples?: number;
  windows?: number;
  max_abs?: number | string;
  max_rel?: number | string;
  max_ulp?: number | string;
  engine?: string;
  seconds?: number;
  reason?: string;
}

export interface Graph {
  name: string;
  node?: string;
  attribute?: string;
  parent?: number;
  inputs: string[];
  outputs: string[];
}

export interface NodeVersion {
  op: string;
  domain?: string;
  name?: string;
  graph?: number;
  inputs: (string | null)[];
  outputs: string[];
  attributes?: Record<string, string>;
  scope?: string[];
  graphs?: number[];
}

export interface ValueVersion {
  name: string;
  graph?: number;
  type?: string;
  shape?: (number | string | null)[];
  datatype?: string;
  constant?: Constant;
  kind?: "input" | "output" | "initializer";
}

export interface Constant {
  bytes: number;
  min?: number | string;
  max?: number | string;
  distinct?: number;
  zeros?: number;
  histogram?: { from: number; to: number; counts: number[] };
  values?: (number | string | boolean)[];
  /** So many elements were looked at, if not all. */
  sample?: number;
}

export interface ReportEvent {
  step: number;
  application?: number;
  rule?: string;
  source?: string;
  node?: number;
  removed: number[];
  added: number[];
  rewired?: [number, number][];
  matched?: number[];
  links?: [number, number][];
  values?: { removed: number[]; added: number[] };
  /** Initializers that stand for nodes that are gone: value and node. */
  made?: [number, number][];
  /** Graphs that have other inputs or outputs since. */
  interfaces?: { graph: number; inputs: string[]; outputs: string[] }[];
  note?: string;
  proof?: Proof;
}

/** What is proved of a rewrite and from which facts or, without a level, why nothing is. */
export interface Proof {
  level?: string;
  method?: string;
  facts?: string[];
  bound?: number;
  reason?: string;
}

export interface Facts {
  final: Record<string, Fact>;
  original?: Record<string, Fact>;
}

export interface Fact {
  low?: (number | string)[];
  high?: (number | string)[];
  channels?: number;
  scale?: string;
  integer?: boolean;
  accumulator?: number;
  thresholds?: { channels: number; steps: number; rows: number[][]; out?: { scale: number; bias: number } };
}

export interface Blocker {
  node: string;
  op: string;
  pass: string;
  rule?: string;
  reason: string;
}

export interface Charts {
  operators: { step: number; counts: Record<string, number> }[];
  error: { step: number; max_abs: number | string | null; max_rel: number | string | null; max_ulp?: number | string | null }[];
  metrics: Record<string, { step: number; value: number | string }[]>;
  bits: { layer: string; weights?: number; inputs?: number; accumulator?: number }[];
  integer: { step: number; share: number }[];
}
