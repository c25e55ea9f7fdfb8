// Several models, GPUs or loads side by side: a verdict each, and each asked by a click.
import {batch, html} from '../vendor.js';
import {PUBLISHED, areUnlike, gib, tokens, whole} from '../format.js';
import {change, replace} from '../state.js';
import {t} from '../texts.js';

const NAMES = ['model', 'gpu', 'engine', 'quantization', 'context_length', 'concurrency'];

/** What rows differ in; their model where in nothing. */
function differing(rows) {
  const names = NAMES.filter((name) => new Set(rows.map((row) => shown(row, name))).size > 1);
  return names.length > 0 ? names : ['model'];
}

function shown(row, name) {
  const value = row[name];
  if (name === 'gpu' && row.gpu_count && !areUnlike({name: value})) return `${row.gpu_count} × ${value}`;
  if (name === 'context_length' && value) return tokens(value);
  return typeof value === 'number' ? whole(value) : value ?? '';
}

/** Ask about the best row: the first that fits, else that is tight, else the nearest to fitting. */
export function takeBest(rows) {
  const over = (row) => (row.required_bytes ? row.required_bytes.expected / row.budget_bytes : Infinity);
  const answered = rows.filter((row) => !row.error).sort((one, other) => over(one) - over(other));
  const best = rows.find((row) => row.verdict === 'fits')
    ?? rows.find((row) => row.verdict === 'tight') ?? answered[0];
  if (!best) return;
  batch(() => {
    replace('serving', {});
    take(best);
  });
}

/** Ask about a row alone. */
function take({model, gpu, gpu_count: count, engine, quantization, ...row}) {
  change({
    model, gpu, engine, context_length: row.context_length, concurrency: row.concurrency,
    gpu_count: areUnlike({name: gpu}) ? null : count,
    quantization: quantization === PUBLISHED ? null : quantization,
  });
}

function Row({row, names}) {
  const [first, ...rest] = names;
  const {required_bytes: required, budget_bytes: budget, verdict, error, note} = row;
  return html`<tr><th scope="row">${error
      ? shown(row, first)
      : html`<button type="button" onClick=${() => take(row)}>${shown(row, first)}</button>`}</th>
    ${rest.map((name) => html`<td>${shown(row, name)}</td>`)}
    <td>${verdict && html`<span class=${`chip ${verdict}`}>${t(`verdict.${verdict}`)}</span>`}</td>
    <td>${required ? `${gib(required.expected)} / ${gib(budget)}` : error?.detail ?? note?.message}</td></tr>`;
}

/** The table of a comparison. */
export function Comparison({rows}) {
  const names = differing(rows);
  const heads = [...names.map((name) => `field.${name}`), 'column.verdict', 'column.need'];
  return html`<div class="scroll"><table>
    <thead><tr>${heads.map((key) => html`<th scope="col">${t(key)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<${Row} key=${row.number} row=${row} names=${names} />`)}</tbody>
  </table></div>`;
}
