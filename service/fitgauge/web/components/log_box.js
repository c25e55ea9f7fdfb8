// A log or an out-of-memory message: what took the memory and what to change.
import {html, signal} from '../vendor.js';
import {post} from '../api.js';
import {gib, plain} from '../format.js';
import {question} from '../state.js';
import {named, t} from '../texts.js';
import {Copy} from './copy.js';

const log = signal('');
const explained = signal(null);

async function explain(event) {
  event.preventDefault();
  const {model, gpu} = question.value;
  const about = {...(model ? {model} : {}), ...(gpu ? {gpu} : {})};
  const alone = await post('v1/explain-log', {log: log.value});
  const unclear = alone.answer && (!alone.answer.model || !alone.answer.gpu);
  explained.value = unclear ? await post('v1/explain-log', {log: log.value, ...about}) : alone;
}

function Explained() {
  const {answer, problem} = explained.value ?? {};
  if (problem) return html`<p role="alert">${plain(`${problem.detail} ${problem.hint}`)}</p>`;
  if (!answer) return null;
  const {causes, fixes, memory, summary} = answer;
  return html`<div role="status">
    ${causes.length === 0 && html`<p lang="en">${summary}</p>`}
    <ul lang="en">${causes.map((cause) => html`<li>${cause.message ?? cause}</li>`)}</ul>
    ${memory.length > 0 && html`<h3>${t('terms')}</h3>
      <ul>${memory.map((part) => html`<li>${named(part.name)} <b>${gib(part.bytes)}</b></li>`)}</ul>`}
    ${fixes.length > 0 && html`<h3>${t('fixes')}</h3>
      <ul>${fixes.map((fix) => html`<li><span lang="en">${fix.change}</span>
        ${fix.command && html`<pre tabindex="0"><code>${fix.command}</code></pre>
          <${Copy} text=${fix.command} />`}</li>`)}</ul>`}
  </div>`;
}

/** The box for a log. */
export function LogBox() {
  return html`<section class="log"><h3>${t('log')}</h3><form onSubmit=${explain}>
    <label>${t('log.label')}
      <textarea rows="5" required value=${log.value}
        onInput=${(event) => { log.value = event.target.value; }}></textarea></label>
    <button type="submit">${t('log.send')}</button></form>
    <${Explained} /></section>`;
}
