// A sentence: what it was understood as becomes the page's question.
import {batch, html, signal} from '../vendor.js';
import {post} from '../api.js';
import {plain} from '../format.js';
import {FIELDS, replace} from '../state.js';
import {named, t} from '../texts.js';
import {Comparison, takeBest} from './comparison.js';
import {Gpus, Models, takeModel} from './elsewhere.js';

const TASKS = {check_training_fit: 'training', plan_training: 'training'};
/** What the page answers by itself; the answer to all else is shown in a sentence. */
const CHECKS = new Set(['check_fit', 'check_training_fit']);

const sentence = signal('');
const reading = signal(null);
const asking = signal(false);

async function ask(event) {
  event.preventDefault();
  asking.value = true;
  const result = await post('v1/ask', {question: sentence.value || t('ask.example')});
  asking.value = false;
  reading.value = result.answer ?? {operation: null, problem: result.problem};
  const {operation, understood, answer} = result.answer ?? {};
  if (answer?.plans?.length > 0) return replace('training', answer.plans[0].settings);
  if (operation === 'compare_fit' && answer) return takeBest(answer.items);
  if (answer?.items?.length > 0 && answer.gpu) {
    const [first] = answer.items;
    return batch(() => {
      replace(first.engine ? 'serving' : 'training', {});
      takeModel(first, answer.gpu);
    });
  }
  const fields = questionOf(understood ?? {});
  const task = TASKS[operation] ?? (fields.method || fields.trainer ? 'training' : 'serving');
  const taken = ([name]) => CHECKS.has(operation) || FIELDS[task].includes(name);
  return fields.model && replace(task, Object.fromEntries(Object.entries(fields).filter(taken)));
}

/** The fields of the page's one question, of several models, GPUs or engines the first; of
 * disaggregated serving the half that writes the answers. */
function questionOf(understood) {
  const {models, gpus, engines, prefill_gpu: prefill, decode_gpu: decode, flags, ...fields} = {
    ...understood, ...understood.flags,
  };
  if (models) fields.model = models[0];
  if (gpus) fields.gpu = gpus[0];
  if (engines) fields.engine = engines[0];
  if (decode ?? prefill) {
    fields.gpu = decode ?? prefill;
    fields.disaggregation = decode ? 'decode' : 'prefill';
  }
  return fields;
}

/** What an operation answers with a table. */
const TABLES = {
  compare_fit: ({answer}) => html`<${Comparison} rows=${answer.items} />`,
  recommend_gpus: ({answer}) => html`<${Gpus} table=${answer} />`,
  list_models_that_fit: ({answer}) => html`<${Models} table=${answer} />`,
};

function Reading() {
  if (asking.value) return html`<p role="status">${t('loading')}…</p>`;
  const read = reading.value;
  if (!read) return null;
  if (read.problem) return html`<p role="status">${plain(`${read.problem.detail} ${read.problem.hint}`)}</p>`;
  if (!read.operation) return html`<p role="status">${read.reason ?? t('ask.off')}</p>`;
  const {flags, ...settings} = {...read.understood, ...read.understood.flags};
  const fields = Object.entries(settings).map(([name, value]) => `${named(name)} ${[value].flat().join(', ')}`);
  const missing = (read.missing ?? []).map((one) => one.field ?? one);
  const summary = CHECKS.has(read.operation) ? null : read.answer?.summary;
  return html`<div role="status">
    <p>${t('ask.read', {fields: fields.join(', ')})}</p>
    ${missing.length > 0 && html`<p>${t('ask.missing', {fields: missing.join(', ')})}</p>`}
    ${summary && html`<p lang="en"><b>${summary}</b></p>`}
    ${read.answer && read.operation in TABLES && TABLES[read.operation](read)}
  </div>`;
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
