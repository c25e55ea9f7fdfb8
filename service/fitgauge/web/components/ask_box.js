// A sentence: what it was understood as becomes the page's question.
import {html, signal} from '../vendor.js';
import {post} from '../api.js';
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
    const {task, ...fields} = understood;
    replace(task ?? TASKS[result.answer.operation] ?? 'serving', fields);
  }
}

function Reading() {
  const read = reading.value;
  if (!read) return null;
  if (read.problem) return html`<p role="status">${read.problem.detail} ${read.problem.hint}</p>`;
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
