// A sentence: what it was understood as becomes the page's question.
import {html, signal} from '../vendor.js';
import {post} from '../api.js';
import {plain} from '../format.js';
import {replace} from '../state.js';
import {named, t} from '../texts.js';

const TASKS = {check_fit: 'serving', check_training_fit: 'training', recommend_gpus: 'serving'};

const sentence = signal('');
const reading = signal(null);

async function ask(event) {
  event.preventDefault();
  const result = await post('v1/ask', {question: sentence.value || t('ask.example')});
  reading.value = result.answer ?? {operation: null, problem: result.problem};
  const understood = result.answer?.understood;
  if (understood?.model) {
    replace(TASKS[result.answer.operation] ?? 'serving', questionOf(understood));
  }
}

/** The fields of the page's one question, of several GPUs or engines the first; of disaggregated
 * serving the half that writes the answers. */
function questionOf(understood) {
  const {
    gpus, engines, prefill_gpu: prefill, decode_gpu: decode, max_usd_per_hour: budget, flags,
    ...fields
  } = {...understood, ...understood.flags};
  if (gpus) fields.gpu = gpus[0];
  if (engines) fields.engine = engines[0];
  if (decode ?? prefill) {
    fields.gpu = decode ?? prefill;
    fields.disaggregation = decode ? 'decode' : 'prefill';
  }
  return fields;
}

function Reading() {
  const read = reading.value;
  if (!read) return null;
  if (read.problem) return html`<p role="status">${plain(`${read.problem.detail} ${read.problem.hint}`)}</p>`;
  if (!read.operation) return html`<p role="status">${read.reason ?? t('ask.off')}</p>`;
  const fields = Object.entries(read.understood).map(([name, value]) => `${named(name)} ${value}`);
  const missing = (read.missing ?? []).map((one) => one.field ?? one);
  return html`<p role="status">
    ${t('ask.read', {fields: fields.join(', ')})}
    ${missing.length > 0 && html` ${t('ask.missing', {fields: missing.join(', ')})}`}
  </p>`;
}

/** The box for a sentence. */
export function AskBox() {
  return html`<form class="ask" role="search" onSubmit=${ask}>
    <label for="sentence">${t('ask.label')}</label>
    <input id="sentence" type="search" maxlength="2000" autocomplete="off"
      placeholder=${t('ask.example')} value=${sentence.value}
      onInput=${(event) => { sentence.value = event.target.value; }} />
    <button type="submit">${t('ask.send')}</button>
    <${Reading} />
  </form>`;
}
