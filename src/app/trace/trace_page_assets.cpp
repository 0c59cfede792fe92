#include "trace_page_assets.hpp"

namespace cubepi::app {

const std::string_view trace_page_style = R"css(
:root { color-scheme: light dark;
  --back: #fff; --text: #1d2129; --dim: #667085; --line: #e4e7ec; --over: #f2f4f7; --mark: #fff3b0;
  --agent: #475467; --turn: #98a2b3; --chat: #2970ff; --tool: #0e9384; --other: #98a2b3; --error: #d92d20; --warn: #b54708; }
@media (prefers-color-scheme: dark) { :root {
  --back: #16181d; --text: #e6e8ec; --dim: #98a2b3; --line: #2c3038; --over: #20242b; --mark: #5c4a00;
  --agent: #98a2b3; --turn: #667085; --chat: #6ea2ff; --tool: #2ed3b7; --other: #667085; --error: #ff6b5e; --warn: #fdb022; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
header, main { max-width: 1400px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 18px; }
h1 { font-size: 16px; margin: 0; overflow-wrap: anywhere; }
h1 code { font-size: 14px; font-weight: 500; }
.facts { color: var(--dim); margin: 4px 0 12px; overflow-wrap: anywhere; }
.status { font-weight: 600; }
.error .status, .failed { color: var(--error); }
.warn { color: var(--warn); }
.bar-top { position: sticky; top: 0; background: var(--back); padding: 8px 20px; max-width: 1400px; margin: 0 auto;
  display: flex; gap: 8px; flex-wrap: wrap; align-items: center; z-index: 1; }
input, button { font: inherit; color: inherit; background: var(--over); border: 1px solid var(--line); border-radius: 6px; padding: 5px 10px; }
input { flex: 1 1 220px; min-width: 0; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--chat); outline-offset: 1px; }
#count { color: var(--dim); }
.row { display: grid; grid-template-columns: minmax(180px, 42%) 74px 92px 74px 1fr; gap: 8px; align-items: center;
  border-top: 1px solid var(--line); padding: 3px 0; cursor: pointer; }
.row:hover, .row[aria-expanded="true"] { background: var(--over); }
.row.head { cursor: default; color: var(--dim); font-size: 12px; border: 0; background: none; }
.row.found .name b { background: var(--mark); }
.name { display: flex; gap: 6px; align-items: baseline; min-width: 0; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.name b { font-weight: 500; overflow: hidden; text-overflow: ellipsis; }
.fold { flex: none; width: 18px; padding: 0; border: 0; background: none; color: var(--dim); text-align: center; }
.number { text-align: right; font-variant-numeric: tabular-nums; color: var(--dim); white-space: nowrap; }
.track { position: relative; height: 14px; }
.track i { position: absolute; top: 2px; height: 10px; min-width: 2px; border-radius: 2px; background: var(--other); }
.agent i { background: var(--agent); } .turn i { background: var(--turn); }
.chat i { background: var(--chat); } .tool i, .mcp i { background: var(--tool); }
.row.failed i { background: var(--error); }
.details { border-top: 1px dashed var(--line); padding: 8px 0 14px 26px; background: var(--over); overflow-wrap: anywhere; }
.details h2 { font-size: 12px; margin: 10px 0 2px; color: var(--dim); }
.details pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.5 ui-monospace, monospace; max-height: 60vh; overflow-y: auto; }
footer { color: var(--dim); padding: 24px 0; font-size: 12px; }
@media (max-width: 760px) { .row { grid-template-columns: 1fr 68px; } .row .tokens, .row .cost, .row .track { display: none; }
  header, main, .bar-top { padding-left: 10px; padding-right: 10px; } }
@media print { .bar-top { display: none; } }
)css";

const std::string_view trace_page_body = R"html(<header><h1></h1><p class="facts"></p></header>
<div class="bar-top"><input id="search" type="search" placeholder="Search names, attributes and messages" aria-label="Search">
<button id="open">Unfold all</button><button id="close">Fold all</button><span id="count" role="status"></span></div>
<main><div class="row head"><span>span</span><span class="number">time</span><span class="number tokens">tokens</span><span
 class="number cost">cost</span><span></span></div><div id="rows"></div><footer>Written by cubepi trace view --html.
 Click a span for its attributes and recorded content.</footer></main>
<noscript><p>The spans are shown by a script.</p></noscript>
)html";

const std::string_view trace_page_script = R"js('use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
document.title = 'trace ' + data.id;
const title = document.querySelector('h1');
title.append('trace ', make('code', '', data.id), ' ', make('span', 'status', data.status));
if (data.status === 'error') document.querySelector('header').classList.add('error');
document.querySelector('.facts').textContent = data.facts;

const all = Math.max(1, data.end - data.start);
const spans = data.spans;
spans.forEach((span, at) => {
  span.folded = false;
  span.children = 0;
  if (span.parent !== null) ++spans[span.parent].children;
  span.words = [span.name, span.facts.join('\n'), span.error, ...span.content.flat()].join('\n').toLowerCase();
});

function showDetails(span) {
  const box = make('div', 'details');
  const add = (heading, text) => { box.append(make('h2', '', heading), make('pre', '', text)); };
  if (span.error) add('error', span.error);
  span.content.forEach(([label, text]) => add(label, text));
  add('attributes', span.facts.join('\n'));
  return box;
}

function makeRow(span, at) {
  const row = make('div', 'row ' + span.kind + (span.failed ? ' failed' : ''));
  row.id = 'span-' + at;
  row.tabIndex = 0;
  row.setAttribute('role', 'button');
  row.setAttribute('aria-expanded', 'false');
  const name = make('span', 'name');
  name.style.paddingLeft = Math.min(span.depth, 24) * 14 + 'px';
  const fold = make('button', 'fold', span.children ? '\u25be' : '');
  fold.tabIndex = span.children ? 0 : -1;
  fold.setAttribute('aria-label', 'Fold');
  if (span.children) fold.onclick = (event) => { event.stopPropagation(); span.folded = !span.folded; update(); };
  name.append(fold, make('b', '', span.name));
  span.marks.forEach((mark) => name.append(make('span', mark === 'ERROR' ? 'failed' : 'warn', mark)));
  const track = make('span', 'track');
  const bar = make('i');
  bar.style.left = (span.start - data.start) * 100 / all + '%';
  bar.style.width = (span.end - span.start) * 100 / all + '%';
  track.append(bar);
  row.append(name, make('span', 'number', span.time), make('span', 'number tokens', span.tokens),
             make('span', 'number cost', span.cost), track);
  row.onclick = () => {
    const open = row.getAttribute('aria-expanded') === 'true';
    row.setAttribute('aria-expanded', String(!open));
    if (open) row.nextSibling.remove(); else row.after(showDetails(span));
  };
  row.onkeydown = (event) => {
    if (event.target === row && (event.key === 'Enter' || event.key === ' ')) { event.preventDefault(); row.click(); }
  };
  span.row = row;
  span.fold = fold;
  return row;
}

function update() {
  const words = document.getElementById('search').value.trim().toLowerCase();
  let found = 0;
  const wanted = spans.map((span) => words !== '' && span.words.includes(words));
  const shown = wanted.slice();
  for (let at = spans.length - 1; at >= 0; --at)
    if (shown[at] && spans[at].parent !== null) shown[spans[at].parent] = true;
  spans.forEach((span, at) => {
    const above = span.parent === null ? null : spans[span.parent];
    span.hidden = words !== '' ? !shown[at] : above !== null && (above.hidden || above.folded);
    span.row.hidden = span.hidden;
    span.row.style.display = span.hidden ? 'none' : '';
    if (span.row.nextSibling && span.row.nextSibling.className === 'details')
      span.row.nextSibling.style.display = span.hidden ? 'none' : '';
    span.row.classList.toggle('found', wanted[at]);
    span.fold.textContent = span.children ? (span.folded && words === '' ? '\u25b8' : '\u25be') : '';
    if (wanted[at]) ++found;
  });
  document.getElementById('count').textContent =
    words === '' ? '' : found + (found === 1 ? ' span found' : ' spans found');
}

const rows = document.createDocumentFragment();
spans.forEach((span, at) => rows.append(makeRow(span, at)));
document.getElementById('rows').append(rows);
document.getElementById('search').oninput = update;
document.getElementById('open').onclick = () => { spans.forEach((span) => { span.folded = false; }); update(); };
document.getElementById('close').onclick = () => { spans.forEach((span) => { span.folded = span.children > 0; }); update(); };
const query = new URLSearchParams(location.hash.slice(1)).get('search');
if (query) { document.getElementById('search').value = query; }
update();
)js";

}  // namespace cubepi::app
