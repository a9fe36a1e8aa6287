// Opens every page of a built site in Chromium and says what a reader would stumble over:
//
//     npm install --prefix FOLDER axe-core puppeteer-core
//     NODE_PATH=FOLDER/node_modules node docs/browser.mjs build/docs [--only PART] [--pictures FOLDER]
//
// At the widths of a telephone, a laptop and a large screen, light and dark: pages wider than their window, pictures
// that do not load, errors of scripts, and what axe calls serious or critical or finds wrong in the order of headings,
// landmarks and alternative texts. Then it types words into the search box and follows the first results.
// Build the site from scratch first: Sphinx forgets index entries of pages that it does not read again, and the search
// then does not find them. CHROMIUM names the browser where it is not /usr/bin/chromium.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { extname, join, relative, resolve } from "node:path";

const require = createRequire(join(process.env.NODE_PATH ?? process.cwd(), "x.js"));
const puppeteer = require("puppeteer-core");
const AXE = readFileSync(require.resolve("axe-core"), "utf8");

const WIDTHS = [390, 1280, 1920];
const SCHEMES = ["light", "dark"];
const SEARCHED = {
  "t test": /^tests\.html/,
  "odds ratio": /^(loglinear|regression)\.html/,
  xtreg: /stata\.html|panels\.html/,
  svy: /^surveys\.html/,
};
const RULES = ["heading-order", "page-has-heading-one", "landmark-unique", "region", "landmark-one-main", "image-alt"];
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
  ".png": "image/png", ".woff2": "font/woff2", ".json": "application/json", ".ipynb": "application/json" };

const [folder, ...options] = process.argv.slice(2);
if (!folder || !existsSync(folder)) {
  console.error("usage: node docs/browser.mjs FOLDER [--only PART] [--pictures FOLDER]");
  process.exit(2);
}
const option = (name) => (options.includes(name) ? options[options.indexOf(name) + 1] : undefined);
const only = option("--only");
const pictures = option("--pictures");
const site = resolve(folder);

function* pagesOf(here) {
  for (const name of readdirSync(here).sort()) {
    const path = join(here, name);
    if (statSync(path).isDirectory()) {
      if (!name.startsWith("_")) yield* pagesOf(path);
    } else if (extname(name) === ".html") yield relative(site, path);
  }
}

const server = createServer((request, response) => {
  const path = join(site, decodeURIComponent(new URL(request.url, "http://x").pathname));
  if (!path.startsWith(site) || !existsSync(path) || statSync(path).isDirectory()) {
    response.writeHead(404).end();
  } else {
    response.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" });
    response.end(readFileSync(path));
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const root = `http://127.0.0.1:${server.address().port}/`;

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const tab = await browser.newPage();
let heard = [];
tab.on("pageerror", (error) => heard.push(`error of a script: ${error.message}`));
tab.on("requestfailed", (request) => heard.push(`not loaded: ${request.url()}`));
tab.on("response", (answer) => answer.status() >= 400 && heard.push(`not loaded: ${answer.url()}`));

const found = new Map(); // what is wrong: the pages on which it is
const note = (what, where) => found.set(what, [...(found.get(what) ?? []), where]);

async function open(page, width, scheme) {
  await tab.setViewport({ width, height: width < 600 ? 844 : 1000 });
  await tab.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: scheme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await tab.goto(root + page, { waitUntil: "load" });
}

// Runs in the page.
function looks() {
  const wrong = [];
  const room = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll("main *")].filter((each) => {
    const place = each.getBoundingClientRect();
    if (!place.width || place.right <= room + 1) return false;
    for (let box = each.parentElement; box; box = box.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    }
    return true;
  });
  if (wide.length) wrong.push(`wider than the window: ${wide.at(-1).tagName} "${wide.at(-1).textContent.slice(0, 60)}"`);
  for (const image of document.images) {
    image.loading = "eager";
    if (image.complete && !image.naturalWidth) wrong.push(`no picture: ${image.getAttribute("src")}`);
  }
  return wrong;
}

async function examine(page, width, scheme) {
  const where = `${page} (${width}, ${scheme})`;
  heard = [];
  await open(page, width, scheme);
  for (const what of [...(await tab.evaluate(looks)), ...heard]) note(what, where);
  if (width === WIDTHS[2] && scheme === "dark") return; // the same rules and colours as at the middle width
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(async () => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, impact, nodes } of violations) {
    if (!["serious", "critical"].includes(impact) && !RULES.includes(id)) continue;
    for (const node of nodes.slice(0, 3)) {
      const said = id === "color-contrast" ? node.any[0]?.message.match(/contrast of [\d.]+/)?.[0] ?? "" : "";
      note(`axe ${id} (${impact}): ${node.target.join(" ")} ${said}`, where);
    }
  }
}

// Types words into the search box of the first page, and says where the first results lead.
async function search(words, right) {
  await open("index.html", WIDTHS[1], "light");
  const button = (await tab.$$("button.search-button, button.search-button-field")).reverse();
  for (const one of button) if (await one.isVisible()) await one.click();
  await tab.waitForSelector("dialog[open] input[type=search]", { timeout: 5000 });
  await tab.type("dialog[open] input[type=search]", words);
  await Promise.all([tab.waitForNavigation({ waitUntil: "load" }), tab.keyboard.press("Enter")]);
  await tab.waitForSelector("ul.search li a", { timeout: 20000 }).catch(() => note("nothing is found", words));
  await new Promise((done) => setTimeout(done, 1500));
  const links = await tab.$$eval("ul.search li a", (all) => all.slice(0, 5).map((each) => each.getAttribute("href")));
  console.log(`"${words}" leads to ${links.map((link) => link.split("?")[0]).join(", ") || "nothing"}`);
  if (!links.some((link) => right.test(link))) note("search does not lead to the page", words);
}

const pages = [...pagesOf(site)].filter((page) => !only || page.includes(only));
if (pictures) mkdirSync(pictures, { recursive: true });
for (const page of pages) {
  for (const scheme of SCHEMES) {
    for (const width of WIDTHS) {
      await examine(page, width, scheme);
      if (pictures) {
        const path = join(pictures, `${page.replaceAll("/", "-").replace(".html", "")}-${width}-${scheme}.png`);
        await tab.screenshot({ path, fullPage: true });
      }
    }
  }
}
if (!only && existsSync(join(site, "search.html"))) for (const [words, right] of Object.entries(SEARCHED)) await search(words, right);
await browser.close();
server.close();

for (const [what, where] of found) {
  console.log(`${what}\n    ${where.length}: ${where.slice(0, 3).join(", ")}${where.length > 3 ? ", ..." : ""}`);
}
console.log(`${found.size} kinds of faults on ${pages.length} pages`);
process.exit(found.size ? 1 : 0);
