// Where the wall is: a verdict for every context and number of requests at once.
import {effect, html, signal} from '../vendor.js';
import {latest, post} from '../api.js';
import {areUnlike, tokens} from '../format.js';
import {doublings} from '../pictures.js';
import {answer, change, longest, question, task} from '../state.js';
import {t} from '../texts.js';

const STEPS = 8;
const SHORTEST = 1024;
const MOST_AT_ONCE = 128;
const PAUSE_MS = 250;
const SET = new Set([
  'model', 'gpu', 'gpu_count', 'engine', 'quantization', 'kv_cache_dtype', 'context_length',
  'concurrency',
]);
const SIGNS = {fits: '✓', tight: '~', does_not_fit: '✗', unsupported: '✗'};

const table = signal(null);
const asked = signal('');

const fill = latest(async (request, cancel) => {
  const result = request && await post('v1/compare', request, cancel);
  table.value = result?.answer ? {request, rows: result.answer.items} : null;
}, PAUSE_MS);

/** The table's request, from what the answer understood; null where there is none, and where the
 * question sets what a table cannot: its cells would be of another launch. */
function requestOf(shown) {
  if (task.value !== 'serving' || !shown?.gpu || !shown.verdict || areUnlike(shown.gpu)) return null;
  if (Object.keys(question.value).some((name) => !SET.has(name))) return null;
  const understood = shown.understood_as;
  const {model, gpu, quantization, kv_cache_dtype: dtype} = question.value;
  return {
    models: [model],
    gpus: [understood.gpu_count > 1 ? `${understood.gpu_count}x ${shown.gpu.name}` : gpu],
    engines: [understood.engine],
    ...(quantization ? {quantizations: [quantization]} : {}),
    ...(dtype ? {kv_cache_dtype: dtype} : {}),
    context_lengths: doublings(SHORTEST, longest.value, STEPS),
    concurrencies: doublings(1, MOST_AT_ONCE, STEPS),
    limit: STEPS * STEPS,
  };
}

effect(() => {
  const request = requestOf(answer.value);
  const key = JSON.stringify(request);
  if (key === asked.peek()) return;
  asked.value = key;
  if (!request) table.value = null;
  fill(request);
});

/** Whether a cell is the load of the page's answer. */
function isCurrent({context_length: context, concurrency}) {
  const understood = answer.value?.understood_as ?? {};
  return context === understood.context_length && concurrency === understood.concurrency;
}

function Cell({row}) {
  const {context_length: context, concurrency, verdict} = row;
  const label = t('heat.cell', {
    context: tokens(context), concurrency, verdict: t(`verdict.${verdict}`),
  });
  const chosen = () => change({context_length: context, concurrency});
  return html`<td class=${verdict}><button type="button" aria-label=${label} title=${label}
    aria-current=${isCurrent(row) ? 'true' : null} onClick=${chosen}>${SIGNS[verdict]}</button></td>`;
}

/** The table of verdicts; longest context on top. */
export function HeatMap() {
  if (!table.value) return null;
  const {request, rows} = table.value;
  const contexts = [...request.context_lengths].reverse();
  const row = (context, concurrency) => rows.find(
    (one) => one.context_length === context && one.concurrency === concurrency,
  );
  return html`<section class="heat"><h3>${t('heat')}</h3>
    <p id="heat-caption">${t('heat.caption')}</p>
    <div class="scroll"><table aria-describedby="heat-caption">
      <tbody>${contexts.map((context) => html`<tr><th scope="row">${tokens(context)}</th>
        ${request.concurrencies.map((concurrency) => {
          const one = row(context, concurrency);
          return one ? html`<${Cell} row=${one} />` : html`<td></td>`;
        })}</tr>`)}</tbody>
      <tfoot><tr><td></td>${request.concurrencies.map(
        (concurrency) => html`<th scope="col">${concurrency}</th>`,
      )}</tr></tfoot>
    </table></div></section>`;
}
