import type { RuleRecord, StepRecord } from "../data/contract";
import { knownText, proofLines } from "../data/levels";
import { numberText, plural, secondsText, signed } from "../data/words";
import { Badge, StepBadge } from "./Badge";
import { useStore } from "./context";
import { Failure } from "./Failure";
import { Prose } from "./Prose";
import { Section } from "./Section";

export function StepDetails() {
  const store = useStore();
  const step = store.currentStep.value;
  if (!step) return <p class="quiet">No step is chosen.</p>;
  const { record } = step;
  const pass = store.report.passes[record.pass];
  const delta = record.nodes_after - record.nodes_before;
  return (
    <article class="step-details" aria-label="Step">
      {store.event.value !== undefined && <RewriteDetails />}
      <header>
        <h2>{record.pass}</h2>
        <StepBadge step={record} />
      </header>
      <p class="quiet">
        step {record.number}
        {record.why && `, ${record.why}`}
      </p>
      {record.status === "failed" && <Failure />}
      {record.reason && record.status !== "failed" && <p class="reason">{record.reason}</p>}
      {record.text !== record.pass && <pre class="pipeline-text">{record.text}</pre>}
      <dl class="pairs">
        <Pair name="nodes" text={`${numberText(record.nodes_before)} → ${numberText(record.nodes_after)}${delta ? ` (${signed(delta)})` : ""}`} />
        {record.applications > 0 && <Pair name="rewrites" text={numberText(record.applications)} />}
        <Pair name="CPU" text={secondsText(record.cpu_seconds)} />
        {record.evidence && <Pair name="evidence" text={knownText(record)} />}
        {record.evidence?.claim && <Pair name="promise" text={record.evidence.claim} />}
        {Object.entries(record.metrics ?? {}).map(([name, value]) => (
          <Pair key={name} name={name} text={numberText(value)} />
        ))}
      </dl>
      {record.notes?.map((note, index) => (
        <p class="note" key={index}>
          {note}
        </p>
      ))}
      <Rules record={record} />
      {pass && (
        <Section title="About this pass">
          <Prose text={pass.doc || pass.summary} />
          <p class="source">{pass.source}</p>
        </Section>
      )}
    </article>
  );
}

function Pair({ name, text }: { name: string; text: string }) {
  return text ? (
    <div>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </div>
  ) : null;
}

function RewriteDetails() {
  const store = useStore();
  const moment = store.event.value!;
  const event = store.steps.event(moment)!;
  const rule = event.rule === undefined ? undefined : store.report.rules[event.rule];
  // A step that runs the rules of other passes says nothing of them itself.
  const owner = rule?.pass && rule.pass !== store.currentStep.value?.record.pass ? store.report.passes[rule.pass] : undefined;
  const list = (ids: number[]) =>
    ids.slice(0, 12).map((id) => (
      <button type="button" class="chip" key={id} title={store.history.nameOf(id)} onClick={() => store.selectNode(id)}>
        {store.history.node(id).op}
      </button>
    ));
  return (
    <section class="rewrite" aria-label="Rewrite">
      <header>
        <h2>{event.rule ?? "other changes"}</h2>
        {event.application !== undefined && <span class="quiet">rewrite {event.application}</span>}
        {event.proof?.level && <Badge level={event.proof.level} />}
      </header>
      {event.proof && (
        <ul class="proof" aria-label="Proof">
          {proofLines(event.proof).map((line, index) => (
            <li key={index}>{line}</li>
          ))}
        </ul>
      )}
      {event.note && <p class="note">{event.note}</p>}
      {(event.removed.length > 0 || event.added.length > 0) && (
        <p class="made">
          {event.removed.length ? list(event.removed) : <span class="quiet">nothing</span>}
          <span class="arrow" aria-label="became">
            →
          </span>
          {event.added.length ? list(event.added) : <span class="quiet">nothing</span>}
        </p>
      )}
      {rule?.doc && <Prose text={rule.doc} />}
      {owner && <Prose text={owner.doc || owner.summary} />}
      {(event.source ?? rule?.source) && <p class="source">{event.source ?? rule?.source}</p>}
    </section>
  );
}

/** What each rule of the step did, and why it refused. */
function Rules({ record }: { record: StepRecord }) {
  const rules = (record.rules ?? []).filter((rule) => rule.applied || Object.keys(rule.refused ?? {}).length);
  if (!rules.length) return null;
  const applied = rules.filter((rule) => rule.applied).length;
  return (
    <Section title="Rules" count={rules.length} open={applied > 0}>
      {rules
        .sort((a, b) => b.applied - a.applied)
        .slice(0, 40)
        .map((rule) => (
          <RuleRow key={rule.rule + rule.source} rule={rule} />
        ))}
    </Section>
  );
}

function RuleRow({ rule }: { rule: RuleRecord }) {
  const refused = Object.entries(rule.refused ?? {}).sort((a, b) => b[1] - a[1]);
  return (
    <div class="rule">
      <p>
        <b>{rule.rule}</b> <span class="quiet">{[rule.applied ? plural(rule.applied, "rewrite") : "", secondsText(rule.seconds)].filter(Boolean).join(", ")}</span>
      </p>
      {refused.length > 0 && (
        <details>
          <summary class="quiet">refused {plural(refused.reduce((sum, [, count]) => sum + count, 0), "time")}</summary>
          <ul>
            {refused.slice(0, 12).map(([reason, count]) => (
              <li key={reason}>
                {reason} <span class="quiet">× {count}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      <p class="source">{rule.source}</p>
    </div>
  );
}
