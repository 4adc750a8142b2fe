import { HOPS, type Store } from "./store";

export const KEYS: [string, string][] = [
  ["j / k", "next, previous step that changed something"],
  ["J / K", "next, previous rewrite"],
  ["/", "search nodes, operators, values, steps"],
  ["d b a s", "difference, before, after, side by side"],
  ["f", "fit the graph into view"],
  ["w", "whole graph, or only what is around the changes"],
  ["+ / −", "more or fewer neighbours"],
  ["t", "text below the graph"],
  ["o", "overview"],
  ["[ / ]", "back, forward"],
  ["Esc", "close, or let go of the selected node"],
  ["?", "this help"],
];

/** One key, one action; fields and modified keys are left alone. */
export function listenToKeys(store: Store, fit: () => void): void {
  const actions: Record<string, () => void> = {
    j: () => store.moveStep(1),
    k: () => store.moveStep(-1),
    J: () => store.moveEvent(1),
    K: () => store.moveEvent(-1),
    "/": () => (store.searching.value = true),
    "?": () => (store.helping.value = !store.helping.value),
    d: () => (store.shown.value = "diff"),
    b: () => (store.shown.value = "before"),
    a: () => (store.shown.value = "after"),
    s: () => (store.shown.value = "both"),
    f: fit,
    w: () => (store.hops.value = store.hops.value === Infinity ? 2 : Infinity),
    "+": () => moreHops(store, 1),
    "=": () => moreHops(store, 1),
    "-": () => moreHops(store, -1),
    t: () => (store.textOpen.value = !store.textOpen.value),
    o: () => (store.page.value = store.page.value === "overview" ? "steps" : "overview"),
    "[": () => history.back(),
    "]": () => history.forward(),
    Escape: () => letGo(store),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && event.key !== "Escape") return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function moreHops(store: Store, by: 1 | -1): void {
  const at = HOPS.indexOf(store.hops.value);
  const next = HOPS[(at < 0 ? HOPS.length - 1 : at) + by];
  if (next !== undefined) store.hops.value = next;
}

function letGo(store: Store): void {
  if (store.helping.value) store.helping.value = false;
  else if (store.searching.value) store.searching.value = false;
  else if (store.node.value !== undefined) store.node.value = undefined;
  else if (store.page.value === "overview") store.page.value = "steps";
  else store.event.value = undefined;
}
