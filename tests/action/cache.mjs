// The caches of GitHub, in the folder `caches` of a job: entries are written once, found by key and then by the newest with a
// prefix, belong to a list of paths, and are seen by their own ref, by pull requests into it, and by all if it is the default one's.
import fs from "node:fs";
import path from "node:path";

const listLines = (text) => (text ?? "").split("\n").map((line) => line.trim()).filter(Boolean);

function list(job) {
  const file = path.join(job.caches, "entries.json");
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : [];
}

const locate = (line, job) => path.resolve(job.context.workspace, line.replace(/^~/, path.join(job.caches, "..", "home")));

export function save(given, job) {
  const [entries, lines] = [list(job), listLines(given.path)];
  if (given.key.includes(",") || given.key.length > 512) throw new Error(`no key of a cache: ${given.key}`);
  const found = lines.map((line) => locate(line, job)).map((place, at) => [place, at]).filter(([place]) => fs.existsSync(place));
  const taken = entries.some((one) => one.key === given.key && one.ref === job.context.ref);
  if (taken || !found.length) return {}; // a warning, on GitHub
  for (const [place, at] of found)
    fs.cpSync(place, path.join(job.caches, String(entries.length), String(at)), { recursive: true, verbatimSymlinks: true });
  entries.push({ key: given.key, ref: job.context.ref, version: lines.join("\n") });
  fs.writeFileSync(path.join(job.caches, "entries.json"), JSON.stringify(entries));
  return {};
}

export function restore(given, job) {
  const [entries, lines] = [list(job), listLines(given.path)];
  const refs = [job.context.ref, `refs/heads/${job.context.base_ref}`, "refs/heads/main"];
  const seen = entries.map((one, at) => ({ ...one, at })).reverse()
    .filter((one) => refs.includes(one.ref) && one.version === lines.join("\n"));
  const outputs = { "cache-primary-key": given.key, "cache-hit": "" };
  let hit = seen.find((one) => one.key === given.key);
  for (const prefix of [given.key, ...listLines(given["restore-keys"])]) hit ??= seen.find((one) => one.key.startsWith(prefix));
  if (!hit) return outputs;
  lines.forEach((line, at) => {
    const kept = path.join(job.caches, String(hit.at), String(at));
    if (fs.existsSync(kept)) fs.cpSync(kept, locate(line, job), { recursive: true, verbatimSymlinks: true });
  });
  return { ...outputs, "cache-hit": String(hit.key === given.key), "cache-matched-key": hit.key };
}
