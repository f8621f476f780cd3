// Run a composite action as GitHub's runner does: expressions by GitHub's own evaluator, `run` steps in bash.
// node run.mjs JOB.json: {action, event, context, matrix, inputs, uses, env, scratch, caches}; its last line is {failed, outputs, used, log}.
// `uses` steps are not run, but for caches: what they are given is in `used`, and their outputs come from the job's `uses`.
import fs from "node:fs";
import path from "node:path";
import { spawnSync } from "node:child_process";
import YAML from "yaml";
import { restore, save } from "./cache.mjs";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const action = YAML.parse(fs.readFileSync(path.join(job.action, "action.yml"), "utf8"));
const github = { ...job.context, event: job.event, action_path: job.action };
const runner = { os: "Linux", arch: "X64", temp: job.scratch };
const steps = {};
const used = [];
let failed = false;
let log = "";

const status = { success: () => !failed, failure: () => failed, always: () => true, cancelled: () => false };
const functions = Object.entries(status).map(([name, ask]) => ({
  name, minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(ask()),
}));

function wrap(value) {
  if (value === null || value === undefined) return new data.Null();
  if (typeof value === "string") return new data.StringData(value);
  if (typeof value === "number") return new data.NumberData(value);
  if (typeof value === "boolean") return new data.BooleanData(value);
  if (Array.isArray(value)) return new data.Array(...value.map(wrap));
  return new data.Dictionary(...Object.entries(value).map(([key, one]) => ({ key, value: wrap(one) })));
}

function evaluate(expression, inputs) {
  const context = { github, inputs, steps, runner, matrix: job.matrix ?? null };
  const tree = new Parser(new Lexer(expression).lex().tokens, Object.keys(context), functions).parse();
  return new Evaluator(tree, wrap(context), new Map(functions.map((one) => [one.name, one]))).evaluate();
}

const fill = (text, inputs) =>
  String(text).replace(/\$\{\{([\s\S]*?)\}\}/g, (_, expression) => evaluate(expression.trim(), inputs).coerceString());

const fillAll = (values, inputs) =>
  Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [name, fill(value, inputs)]));

function holds(condition, inputs) {
  let expression = String(condition ?? "success()").replace(/^\$\{\{([\s\S]*)\}\}$/, "$1").trim();
  if (!/\b(success|failure|always|cancelled)\(/.test(expression)) expression = `success() && (${expression})`;
  return !["", "0", "false", "null"].includes(evaluate(expression, inputs).coerceString());
}

function readOutputs(file) {
  const found = {};
  const lines = fs.readFileSync(file, "utf8").split("\n");
  for (let at = 0; at < lines.length; at++) {
    const block = lines[at].match(/^([^=]+?)<<(.+)$/);
    const plain = lines[at].match(/^([^=]+)=(.*)$/);
    if (block) {
      const value = [];
      while (++at < lines.length && lines[at] !== block[2]) value.push(lines[at]);
      found[block[1]] = value.join("\n");
    } else if (plain) found[plain[1]] = plain[2];
  }
  return found;
}

const inputs = {};
for (const [name, described] of Object.entries(action.inputs)) inputs[name] = job.inputs[name] ?? fill(described.default ?? "", {});
for (const name of Object.keys(job.inputs)) if (!(name in action.inputs)) throw new Error(`unknown input ${name}`);

for (const [at, step] of action.runs.steps.entries()) {
  const id = step.id ?? `__${at}`;
  if (!holds(step.if, inputs)) {
    steps[id] = { outputs: {}, outcome: "skipped", conclusion: "skipped" };
    continue;
  }
  if (step.uses) {
    used.push({ uses: step.uses, with: fillAll(step.with, inputs) });
    const name = step.uses.split("@")[0];
    const given = used.at(-1).with;
    const act = { "actions/cache/restore": restore, "actions/cache/save": save }[name];
    const outputs = act ? act(given, job) : job.uses[name] ?? {};
    steps[id] = { outputs, outcome: "success", conclusion: "success" };
    continue;
  }
  const file = (name) => {
    const made = path.join(job.scratch, `${id}.${name}`);
    fs.writeFileSync(made, "");
    return made;
  };
  const output = file("output");
  const env = { ...process.env, ...job.env, ...fillAll(step.env, inputs), GITHUB_OUTPUT: output,
    GITHUB_ENV: file("env"), GITHUB_PATH: file("path"), GITHUB_STEP_SUMMARY: file("summary") };
  const script = path.join(job.scratch, `${id}.sh`);
  fs.writeFileSync(script, step.run);
  if (step.run.includes("${{")) throw new Error(`an expression in the script of ${id}`);
  const done = spawnSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", script], { env, cwd: job.context.workspace, encoding: "utf8" });
  log += done.stdout + done.stderr;
  const outcome = done.status === 0 ? "success" : "failure";
  steps[id] = { outputs: readOutputs(output), outcome, conclusion: outcome };
  if (done.status !== 0) failed = true;
}
const outputs = Object.fromEntries(Object.entries(action.outputs).map(([name, one]) => [name, fill(one.value, inputs)]));
console.log(JSON.stringify({ failed, outputs, used, steps, log }));
