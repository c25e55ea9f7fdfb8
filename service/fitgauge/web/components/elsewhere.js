// What else fits: GPUs for the model, with price and speed, and models for the GPU.
import {html, signal} from '../vendor.js';
import {post} from '../api.js';
import {PUBLISHED, areUnlike, gib, whole} from '../format.js';
import {answer, change, question, task} from '../state.js';
import {named, t} from '../texts.js';

const ROWS = 20;

const gpus = signal(null);
const models = signal(null);
const filter = signal('');
const problem = signal(null);
const searching = signal(false);

async function find(path, body, into) {
  searching.value = true;
  const result = await post(path, body);
  searching.value = false;
  problem.value = result.problem?.detail ?? null;
  into.value = result.answer ?? null;
}

function findGpus() {
  const {model, quantization, context_length: context, concurrency, method} = question.value;
  const serving = {quantization, context_length: context, concurrency};
  const body = task.value === 'training'
    ? {model, task: 'training', method}
    : {model, ...serving};
  return find('v1/recommend', body, gpus);
}

function findModels(event) {
  event.preventDefault();
  const {gpu, context_length: context} = question.value;
  const search = filter.value ? {search: filter.value} : {};
  const body = {gpu, task: task.value, limit: ROWS, ...search};
  return find('v1/models-for-gpu', {...body, ...(context ? {context_length: context} : {})}, models);
}

function price(cost) {
  return cost ? cost.usd_per_hour_low.toFixed(2) : '';
}

function speed(option) {
  const decode = option.decode?.tokens_per_second.expected ?? option.decode?.tokens_per_second.low;
  return decode ? whole(Math.round(decode)) : '';
}

function GpuRow({option}) {
  const take = () => change(option.request);
  return html`<tr><th scope="row"><button type="button" onClick=${take}>
      ${option.gpu.count} × ${option.gpu.name}</button> <small>${option.roles.map(named).join(', ')}</small></th>
    <td>${option.quantization ?? option.method}</td><td>${option.engine ?? option.framework}</td>
    <td>${gib(option.required_bytes.expected)} / ${gib(option.budget_bytes ?? option.usable_bytes)}</td>
    <td>${speed(option)}</td><td>${price(option.cost)}</td>
    <td><span class=${`chip ${option.verdict}`}>${t(`verdict.${option.verdict}`)}</span></td></tr>`;
}

/** The GPUs of a recommendation. */
export function Gpus({table}) {
  if (!table) return null;
  const training = table.training_options ?? [];
  const options = training.length > 0 ? training : table.options;
  const columns = ['gpu', 'quantization', 'engine', 'need', 'speed', 'price', 'verdict'];
  return html`<div class="scroll wide gpus"><table>
    <thead><tr>${columns.map((name) => html`<th scope="col">${t(`column.${name}`)}</th>`)}</tr></thead>
    <tbody>${options.map((option) => html`<${GpuRow} option=${option} />`)}</tbody></table></div>
    ${options.length === 0 && html`<p>${t('elsewhere.none')}</p>`}`;
}

/** Ask about a model as it fits. */
export function takeModel({model, engine, method, ...row}, gpu) {
  change({
    model, engine, method, quantization: engine && row.quantization !== PUBLISHED ? row.quantization : null,
    gpu: gpu.name, gpu_count: areUnlike(gpu) ? null : gpu.count,
  });
}

function ModelRow({row, gpu}) {
  return html`<tr><th scope="row">
      <button type="button" onClick=${() => takeModel(row, gpu)}>${row.model}</button></th>
    <td>${row.quantization}</td><td>${row.engine ?? row.method}</td>
    <td>${gib(row.required_bytes.expected)} / ${gib(row.budget_bytes)}</td>
    <td><span class=${`chip ${row.verdict}`}>${t(`verdict.${row.verdict}`)}</span></td></tr>`;
}

/** The models that a GPU holds. */
export function Models({table}) {
  if (!table) return null;
  const columns = ['model', 'quantization', 'engine', 'need', 'verdict'];
  return html`<div class="scroll wide"><table>
    <thead><tr>${columns.map((name) => html`<th scope="col">${t(`column.${name}`)}</th>`)}</tr></thead>
    <tbody>${table.items.map((row) => html`<${ModelRow} row=${row} gpu=${table.gpu} />`)}</tbody></table></div>
    ${table.items.length === 0 && html`<p>${t('elsewhere.none')}</p>`}`;
}

/** GPUs for the model in question and models for the GPU in question, found on demand. */
export function Elsewhere() {
  return html`<section class="elsewhere"><h3>${t('elsewhere')}</h3>
    ${problem.value && html`<p role="alert">${problem.value}</p>`}
    ${searching.value && html`<p role="status">${t('loading')}…</p>`}
    <button type="button" onClick=${findGpus}>${t('elsewhere.gpus')}</button>
    <${Gpus} table=${gpus.value} />
    ${answer.value?.gpu && html`<form onSubmit=${findModels}>
      <label>${t('elsewhere.filter')}
        <input type="search" maxlength="100" value=${filter.value}
          onInput=${(event) => { filter.value = event.target.value; }} /></label>
      <button type="submit">${t('elsewhere.models')}</button></form>`}
    <${Models} table=${models.value} />
  </section>`;
}
