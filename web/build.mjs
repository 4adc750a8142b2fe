// Bundle the viewer into one page: script, style, worker and the licences of what is inside.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../src/onnx_passes/report/viewer/viewer.html");

const common = { absWorkingDir: here, bundle: true, minify: true, write: false, target: "es2022", legalComments: "none", metafile: true };
const worker = await build({ ...common, entryPoints: ["src/layout/worker.ts"], format: "iife" });
const workerSource = {
  name: "worker-source",
  setup(plugin) {
    plugin.onResolve({ filter: /^worker-source$/ }, () => ({ path: "worker-source", namespace: "worker" }));
    plugin.onLoad({ filter: /.*/, namespace: "worker" }, () => ({ contents: worker.outputFiles[0].text, loader: "text" }));
  },
};
const script = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [workerSource],
});
const style = await build({ ...common, entryPoints: ["src/style/main.css"] });

/** Packages whose code went in, with their licences. */
function licences(inputs) {
  const names = new Set();
  for (const path of Object.keys(inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (match) names.add(match[1]);
  }
  return [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}`;
  });
}

// A closing tag inside of a script would end it.
const inert = (text) => text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--").trim();
const parts = {
  __STYLE__: style.outputFiles[0].text.trim(),
  __LICENCES__: licences({ ...script.metafile.inputs, ...worker.metafile.inputs }).join("\n\n———\n\n"),
  __SCRIPT__: inert(script.outputFiles[0].text),
};
const page = readFileSync(join(here, "page.html"), "utf8").replace(/__(STYLE|LICENCES|SCRIPT)__/g, (mark) => parts[mark]);
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, page);
console.log(`${target}: ${Math.round(page.length / 1024)} KiB`);
