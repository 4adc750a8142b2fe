import type { ComponentChildren } from "preact";
import { Bars } from "../charts/Bars";
import { BitsChart } from "../charts/BitsChart";
import { LineChart, type Point } from "../charts/LineChart";
import { OperatorsChart, short } from "../charts/OperatorsChart";
import type { RuleRecord, StepRecord } from "../data/contract";
import { asNumber, bytesText, numberText, plural, secondsText, signed } from "../data/words";
import { useStore } from "./context";
import { Failure } from "./Failure";
import { Icon } from "./Icon";

/** The whole run on one page. */
export function Overview() {
  const store = useStore();
  const { report } = store;
  const { charts } = report;
  const name = (step: number): string => (step ? `${step} ${store.steps.get(step)?.record.pass ?? ""}` : "original");
  const go = (step: number): void => store.selectStep(step);
  const errors = charts.error.map(({ step, max_abs }): Point => ({ step, value: asNumber(max_abs) })).filter((point) => !Number.isNaN(point.value));
  return (
    <main class="overview" id="panel-overview">
      {report.outcome.status === "failed" && (
        <Panel title="What failed">
          <Failure />
        </Panel>
      )}
      <Blockers />
      <div class="first-row">
        <Sizes />
        {charts.operators.length > 1 && (
          <Panel title="Operators over steps" size="double">
            <OperatorsChart series={charts.operators} name={name} go={go} />
          </Panel>
        )}
      </div>
      <div class="masonry">
        <Proofs />
        <Times />
        <RuleTimes />
        {errors.length > 0 && (
          <Panel title="Largest difference from the original">
            <LineChart points={errors} label="Largest absolute error over steps" decades name={name} go={go} />
          </Panel>
        )}
        {Object.entries(charts.metrics).map(([metric, points]) => (
          <Panel title={metric} key={metric}>
            <LineChart points={points.map(({ step, value }) => ({ step, value: asNumber(value) }))} label={`${metric} over steps`} name={name} go={go} />
          </Panel>
        ))}
        {charts.integer.length > 0 && (
          <Panel title="Share of integer operations">
            <Bars
              most={1}
              bars={charts.integer.map(({ step, share }) => ({ name: step ? name(step) : "original", value: share, text: `${numberText(share * 100)} %` }))}
            />
          </Panel>
        )}
        {charts.bits.length > 0 && (
          <Panel title="Bits of every layer">
            <BitsChart bits={charts.bits} />
          </Panel>
        )}
        <Operators />
      </div>
    </main>
  );
}

function Panel({ title, size = "", children }: { title: string; size?: "double" | ""; children: ComponentChildren }) {
  return (
    <section class={`panel ${size}`} aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

const PRESERVED = ["bits", "levels", "reals"];
const NAMES: Record<string, string> = {
  bits: "equal bits",
  levels: "equal levels in exact arithmetic",
  reals: "equal in reals, but for rounding",
  proved: "by the rule",
  "proved-here": "for every input here",
};

/** What the proofs of a report say, the strongest first, and last what is not proved. */
function levelsOf(steps: StepRecord[]): string[] {
  const found = new Set(steps.flatMap((step) => Object.keys(step.proved ?? {})));
  const rank = (level: string): number => {
    const [preserved = "", known] = level.split(":");
    return level ? 2 * PRESERVED.indexOf(preserved) + (known === "proved" ? 0 : 1) : 2 * PRESERVED.length;
  };
  return [...found].sort((a, b) => rank(a) - rank(b));
}

function levelText(level: string): string {
  return level ? level.split(":").map((word) => NAMES[word] ?? word).join(", ") : "not proved";
}

/** How many rewrites are proved, and how far. */
function Proofs() {
  const { steps } = useStore().report.run;
  const count = (level: string): number => steps.reduce((sum, step) => sum + (step.proved?.[level] ?? 0), 0);
  const bars = levelsOf(steps)
    .map((level) => ({ name: levelText(level), value: count(level), text: numberText(count(level)) }))
    .filter((bar) => bar.value);
  return bars.length ? (
    <Panel title="Rewrites by what is proved">
      <Bars bars={bars} />
    </Panel>
  ) : null;
}

function Sizes() {
  const { run, model } = useStore().report;
  const rows: [string, [number, number] | undefined, (value: number) => string][] = [
    ["nodes", run.nodes, numberText],
    ["parameters", run.parameters, numberText],
    ["weights", run.bytes, bytesText],
  ];
  return (
    <Panel title="Before and after">
      <BeforeAndAfter>
        {rows.map(([name, pair, text]) =>
          pair ? (
            <tr key={name}>
              <th>{name}</th>
              <td>{text(pair[0])}</td>
              <td>{text(pair[1])}</td>
              <td>{pair[0] ? `${signed(Math.round((1000 * (pair[1] - pair[0])) / pair[0]) / 10)} %` : ""}</td>
            </tr>
          ) : null,
        )}
      </BeforeAndAfter>
      <p class="quiet">
        {[
          plural(run.steps.length, "step"),
          run.applications ? plural(run.applications, "rewrite") : "",
          run.cpu_seconds ? `${secondsText(run.cpu_seconds)} CPU` : "",
          Object.entries(model.opsets)
            .map(([domain, version]) => `${domain || "ONNX"} ${version}`)
            .join(", "),
        ]
          .filter(Boolean)
          .join(" · ")}
      </p>
      <Pipeline />
    </Panel>
  );
}

function Times() {
  const store = useStore();
  const sums = new Map<string, { seconds: number; count: number; step: number }>();
  for (const { record, children } of store.steps.all) {
    if (children.length || record.status === "skipped") continue;
    const sum = sums.get(record.pass) ?? { seconds: 0, count: 0, step: record.number };
    sums.set(record.pass, { seconds: sum.seconds + record.cpu_seconds, count: sum.count + 1, step: record.modified ? record.number : sum.step });
  }
  const bars = [...sums]
    .sort((a, b) => b[1].seconds - a[1].seconds)
    .slice(0, 12)
    .map(([name, { seconds, count, step }]) => ({ name, value: seconds, text: secondsText(seconds), title: plural(count, "time"), go: () => store.selectStep(step) }));
  return bars.length > 1 ? (
    <Panel title="CPU time of passes">
      <Bars bars={bars} />
    </Panel>
  ) : null;
}

function RuleTimes() {
  const store = useStore();
  const sums = new Map<string, RuleRecord>();
  for (const step of store.report.run.steps) {
    for (const rule of step.rules ?? []) {
      const sum = sums.get(rule.rule);
      sums.set(rule.rule, sum ? { ...sum, seconds: sum.seconds + rule.seconds, applied: sum.applied + rule.applied } : rule);
    }
  }
  const bars = [...sums.values()]
    .filter((rule) => rule.seconds > 0)
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, 12)
    .map((rule) => ({ name: rule.rule, value: rule.seconds, text: secondsText(rule.seconds), title: `${plural(rule.applied, "rewrite")}\n${rule.source}` }));
  return bars.length ? (
    <Panel title="CPU time of rules">
      <Bars bars={bars} />
    </Panel>
  ) : null;
}

/** A table of what there was before and is after. */
function BeforeAndAfter({ children }: { children: ComponentChildren }) {
  return (
    <table class="sizes">
      <thead>
        <tr>
          <th />
          <th>before</th>
          <th>after</th>
          <th>Δ</th>
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

function Operators() {
  const { operators } = useStore().report.run;
  if (!operators) return null;
  const [before, after] = operators;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort(
    (a, b) => (before[b] ?? 0) + (after[b] ?? 0) - (before[a] ?? 0) - (after[a] ?? 0),
  );
  return (
    <Panel title="Operators">
      <div class="scroll">
        <BeforeAndAfter>
          {names.map((name) => {
            const delta = (after[name] ?? 0) - (before[name] ?? 0);
            return (
              <tr key={name}>
                <th title={name}>{short(name)}</th>
                <td>{before[name] ?? 0}</td>
                <td>{after[name] ?? 0}</td>
                <td class={delta < 0 ? "fewer" : delta > 0 ? "more" : "quiet"}>{delta ? signed(delta) : ""}</td>
              </tr>
            );
          })}
        </BeforeAndAfter>
      </div>
    </Panel>
  );
}

function Blockers() {
  const store = useStore();
  const { blockers } = store.report;
  if (!blockers.length) return null;
  const show = (name: string): void => {
    const last = store.steps.all.findLast((step) => step.changed);
    if (last) store.selectStep(last.record.number);
    store.selectNode(store.history.find(name, store.history.last, store.history.last));
  };
  return (
    <Panel title="What stands in the way">
      <div class="scroll">
        <table class="blockers">
          <thead>
            <tr>
              <th>node</th>
              <th>pass</th>
              <th>reason</th>
            </tr>
          </thead>
          <tbody>
            {blockers.slice(0, 400).map((blocker, index) => (
              <tr key={index}>
                <td>
                  <button type="button" class="link" title={blocker.node} onClick={() => show(blocker.node)}>
                    {blocker.op}
                  </button>{" "}
                  <span class="quiet">{blocker.node}</span>
                </td>
                <td>{blocker.rule ?? blocker.pass}</td>
                <td>{blocker.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Pipeline() {
  const { pipeline } = useStore().report.run;
  if (!pipeline) return null;
  return (
    <div class="copyable">
      <pre>{pipeline}</pre>
      <button type="button" title="Copy the pipeline" onClick={() => void navigator.clipboard?.writeText(pipeline)}>
        <Icon name="copy" /> Copy
      </button>
    </div>
  );
}
