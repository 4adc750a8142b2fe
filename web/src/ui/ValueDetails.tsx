import { Histogram } from "../charts/Histogram";
import { RangePlot } from "../charts/RangePlot";
import { Staircase } from "../charts/Staircase";
import type { Constant, Fact } from "../data/contract";
import type { Moment } from "../data/history";
import { bytesText, constantText, fullType, numberText } from "../data/words";
import { useStore } from "./context";

/** A value: its type before and after, what it holds, and what is known of it. */
export function ValueDetails({ name, role, graph, moment, maker = false }: { name: string; role?: string; graph: number; moment: Moment; maker?: boolean }) {
  const store = useStore();
  const { history, report } = store;
  const diff = store.diff.value;
  const value = history.value(graph, name, moment);
  const before = diff.from === moment ? undefined : history.value(graph, name, diff.from);
  const was = before && value && fullType(before) !== fullType(value) ? fullType(before) : undefined;
  const from = maker ? history.maker(graph, name, moment) : undefined;
  const users = maker ? [] : history.usersOf(graph, name, moment);
  const fact = (history.staysToTheEnd(graph, name, moment) ? report.facts.final[name] : undefined) ?? (moment === -1 ? report.facts.original?.[name] : undefined);
  const link = (id: number) => (
    <button type="button" class="link" key={id} onClick={() => store.selectNode(id)}>
      {history.node(id).op}
    </button>
  );
  return (
    <div class="value">
      <p class="value-head">
        {role && <b>{role}</b>} <span class="value-name" title={name}>{name}</span>
      </p>
      <p class="value-type">
        {was && <del>{was}</del>} {fullType(value)}
        {from !== undefined && <span class="quiet"> from {link(from)}</span>}
        {users.length > 0 && <span class="quiet"> to {users.slice(0, 6).map(link)}{users.length > 6 ? ` and ${users.length - 6} more` : ""}</span>}
      </p>
      {value?.constant && <ConstantDetails constant={value.constant} />}
      {fact && <FactDetails fact={fact} />}
    </div>
  );
}

function ConstantDetails({ constant }: { constant: Constant }) {
  const { values, histogram, distinct, zeros } = constant;
  const facts = [
    values ? undefined : constantText(constant),
    distinct !== undefined && !values ? `${numberText(distinct)} distinct` : undefined,
    zeros ? `${numberText(zeros)} zeros` : undefined,
    bytesText(constant.bytes),
    constant.sample ? `of ${numberText(constant.sample)} elements looked at` : undefined,
  ].filter(Boolean);
  return (
    <>
      {values && <p class="numbers">{values.length === 1 ? numberText(values[0]) : `[${values.map(numberText).join(", ")}]`}</p>}
      {histogram && !values && <Histogram of={histogram} />}
      <p class="quiet">{facts.join(" · ")}</p>
    </>
  );
}

function FactDetails({ fact }: { fact: Fact }) {
  const words = [
    fact.accumulator !== undefined ? `accumulator ${fact.accumulator} bits` : undefined,
    fact.integer ? "integers" : undefined,
    fact.scale !== undefined ? `scale ${fact.scale}` : undefined,
  ].filter(Boolean);
  return (
    <>
      {words.length > 0 && <p class="fact-words">{words.join(" · ")}</p>}
      {fact.low?.length && fact.high?.length ? <RangePlot fact={fact} /> : null}
      {fact.thresholds && <Staircase of={fact.thresholds} />}
    </>
  );
}
