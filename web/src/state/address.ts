import { batch, effect } from "@preact/signals";
import { failedEvent } from "../data/failure";
import type { Grouping } from "../graph/groups";
import type { Page, Shown, Store } from "./store";

/** Keep the address and the store in step: links lead back to what is shown, and the back button undoes choices. */
export function followAddress(store: Store): void {
  batch(() => read(store));
  let places = placeOf(location.hash);
  effect(() => {
    const hash = write(store);
    if (hash === location.hash.slice(1)) return;
    // How something is drawn is no place to go back to.
    if (placeOf(hash) === places) replace(hash);
    else location.hash = hash;
    places = placeOf(hash);
  });
  addEventListener("hashchange", () => {
    if (write(store) !== location.hash.slice(1)) batch(() => read(store));
    places = placeOf(location.hash);
  });
}

function replace(hash: string): void {
  try {
    history.replaceState(null, "", `#${hash}`);
  } catch {
    location.hash = hash;
  }
}

function placeOf(hash: string): string {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  return ["page", "step", "rewrite", "event", "node", "graph"].map((key) => values.get(key) ?? "").join("&");
}

function write(store: Store): string {
  const values = new URLSearchParams();
  const put = (key: string, value: unknown, usual?: unknown): void => {
    if (value !== undefined && value !== usual) values.set(key, String(value));
  };
  const event = store.event.value;
  const application = event === undefined ? undefined : store.steps.event(event)?.application;
  const node = store.node.value;
  put("page", store.page.value, "steps");
  put("step", store.step.value);
  put("rewrite", application);
  if (application === undefined) put("event", event);
  put("node", node === undefined ? undefined : store.history.nameOf(node));
  put("graph", store.chosenGraph.value);
  put("view", store.shown.value, "diff");
  put("hops", store.hops.value === Infinity ? "all" : store.hops.value, 2);
  put("group", store.chosenGrouping.value);
  return values.toString();
}

function read(store: Store): void {
  const values = new URLSearchParams(location.hash.replace(/^#/, ""));
  const number = (key: string): number | undefined => {
    const text = values.get(key);
    return text !== null && /^-?\d+$/.test(text) ? Number(text) : undefined;
  };
  const rewrite = number("rewrite");
  const event = rewrite === undefined ? number("event") : store.steps.byApplication(rewrite);
  const asked = number("step");
  const wanted = event ?? (asked === undefined ? failedEvent(store.report, store.steps) : undefined);
  const known = wanted !== undefined && store.steps.event(wanted) ? wanted : undefined;
  const step = asked !== undefined && store.steps.get(asked) ? asked : known !== undefined ? store.steps.ofEvent(known)?.record.number : undefined;
  store.page.value = one<Page>(values.get("page"), ["overview"], "steps");
  store.step.value = step ?? store.steps.first?.record.number;
  store.event.value = known;
  store.chosenGraph.value = number("graph");
  store.shown.value = one<Shown>(values.get("view"), ["before", "after", "both"], "diff");
  store.hops.value = values.get("hops") === "all" ? Infinity : (number("hops") ?? 2);
  store.chosenGrouping.value = one<Grouping | undefined>(values.get("group"), ["none", "modules", "repeats"], undefined);
  const { from, to } = store.diff.value;
  const name = values.get("node");
  store.node.value = name === null ? undefined : store.history.find(name, to, from);
}

function one<T>(text: string | null, known: T[], usual: T): T {
  return known.find((each) => each === text) ?? usual;
}
