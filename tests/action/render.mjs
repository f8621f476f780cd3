// node render.mjs < COMMENT.md: a page that shows Markdown as GitHub does, with its extensions, its list of allowed HTML and its style.
import fs from "node:fs";
import path from "node:path";
import { unified } from "unified";
import rehypeRaw from "rehype-raw";
import rehypeSanitize from "rehype-sanitize";
import rehypeStringify from "rehype-stringify";
import remarkGfm from "remark-gfm";
import remarkParse from "remark-parse";
import remarkRehype from "remark-rehype";

const style = fs.readFileSync(path.join(import.meta.dirname, "node_modules/github-markdown-css/github-markdown.css"), "utf8");
const body = await unified().use(remarkParse).use(remarkGfm).use(remarkRehype, { allowDangerousHtml: true }).use(rehypeRaw)
  .use(rehypeSanitize).use(rehypeStringify).process(fs.readFileSync(0, "utf8"));
console.log(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Comment</title><style>${style} body { margin: 1rem }</style>
<article class="markdown-body">${body}</article></html>`);
