#!/usr/bin/env bash
# Whether the page in the package is what the source here makes: types, then a fresh build beside it.
set -euo pipefail
cd "$(dirname "$0")"
page=../src/onnx_passes/report/viewer/viewer.html
if ! command -v npm > /dev/null; then
    echo "viewer-check skipped: no npm here"
    exit 0
fi
if [ ! -d node_modules ] && ! npm ci --silent --ignore-scripts; then
    echo "viewer-check skipped: the packages that the page is made with cannot be fetched"
    exit 0
fi
node_modules/.bin/tsc --noEmit
fresh=$(mktemp -d)
trap 'rm -r "$fresh"' EXIT
node build.mjs "$fresh/viewer.html" > /dev/null
cmp "$fresh/viewer.html" "$page" || { echo "the page in the package is not what web/ makes: run make viewer"; exit 1; }
echo "the page of reports is what its source makes"
