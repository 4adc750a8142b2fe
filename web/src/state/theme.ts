import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";

const KEY = "onnx-passes-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** Light or dark as the system says, until someone chooses. */
export const theme = signal<Theme>(remembered() ?? (system.matches ? "dark" : "light"));

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // Pages on disk may have no storage; the choice then holds for as long as the page is open.
  }
}

function remembered(): Theme | undefined {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : undefined;
  } catch {
    return undefined;
  }
}

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});
system.addEventListener("change", () => {
  if (!remembered()) theme.value = system.matches ? "dark" : "light";
});

/** A colour of the style sheet, for what is drawn on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
