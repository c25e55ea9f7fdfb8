// What is asked: names with suggestions, choices, and sliders.
import {computed, html, signal} from '../vendor.js';
import {get, latest} from '../api.js';
import {tokens, whole} from '../format.js';
import {ladder} from '../pictures.js';
import {answer, change, longest, question, replace, task} from '../state.js';
import {t} from '../texts.js';

const ENGINES = [
  'vllm', 'sglang', 'tensorrt-llm', 'tgi', 'llama.cpp', 'ollama', 'mlx', 'transformers',
];
const FORMATS = ['bf16', 'fp8', 'awq', 'gptq', 'int8', 'int4', 'nf4', 'q8_0', 'q6_k', 'q4_k_m'];
const METHODS = ['lora', 'qlora', 'full'];
const TRAINERS = ['trl', 'unsloth', 'axolotl', 'llama-factory', 'ms-swift', 'torchtune', 'torchtitan'];
const SHORTEST = 512;
const PAUSE_MS = 120;
/** Letters from which on the Hub is searched too. */
const LEAST_LETTERS = 3;

/** Whether the fields are unfolded on a phone, where the answer stands right below. */
const isOpen = signal(false);
const suggested = signal({models: [], gpus: []});
const suggest = latest(async ([kind, text], cancel) => {
  const path = `v1/names?search=${encodeURIComponent(text)}`;
  const {answer: names} = await get(path, cancel);
  if (names) suggested.value = {...suggested.value, [kind]: names[kind]};
  if (!names || kind !== 'models' || text.trim().length < LEAST_LETTERS) return;
  const {answer: more} = await get(`${path}&hub=true`, cancel);
  if (more) suggested.value = {...suggested.value, models: [...more.models, ...more.hub]};
}, PAUSE_MS);

function Name({name, kind, placeholder}) {
  const type = (event) => suggest([kind, event.target.value]);
  return html`<label>${t(`field.${name}`)}
    <input type="text" list=${`${name}-names`} maxlength="200" autocomplete="off"
      spellcheck=${false} placeholder=${placeholder} value=${question.value[name] ?? ''}
      onInput=${type} onChange=${(event) => change({[name]: event.target.value.trim()})} />
    <datalist id=${`${name}-names`}>
      ${suggested.value[kind].map((value) => html`<option value=${value} />`)}
    </datalist></label>`;
}

function Choice({name, values, empty}) {
  const value = question.value[name] ?? '';
  const all = value && !values.includes(value) ? [value, ...values] : values;
  return html`<label>${t(`field.${name}`)}
    <select value=${value} onChange=${(event) => change({[name]: event.target.value})}>
      <option value="">${empty ?? t('auto')}</option>
      ${all.map((one) => html`<option value=${one}>${one}</option>`)}
    </select></label>`;
}

/** A slider whose positions are `positions`; the value in force stands beside it. */
function Slider({name, positions, show}) {
  const known = question.value[name] ?? answer.value?.understood_as[name];
  const value = known ?? positions[0];
  const nearest = positions.reduce(
    (best, one, index) => (Math.abs(one - value) < Math.abs(positions[best] - value) ? index : best),
    0,
  );
  const move = (event) => change({[name]: positions[event.target.valueAsNumber]});
  return html`<label>${t(`field.${name}`)} <output>${known === undefined ? '' : show(known)}</output>
    <input type="range" name=${name} min="0" max=${positions.length - 1} step="1" value=${nearest}
      aria-valuetext=${show(value)} onInput=${move} /></label>`;
}

const lengths = computed(() => ladder(SHORTEST, longest.value));
const COUNTS = ladder(1, 512);
const GPUS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64];

function Serving() {
  return html`
    <${Choice} name="engine" values=${ENGINES} />
    <${Choice} name="quantization" values=${FORMATS} empty=${t('published')} />
    <${Slider} name="context_length" positions=${lengths.value} show=${tokens} />
    <${Slider} name="concurrency" positions=${COUNTS} show=${whole} />`;
}

function Training() {
  return html`
    <${Choice} name="method" values=${METHODS} />
    <${Choice} name="trainer" values=${TRAINERS} />
    <${Slider} name="sequence_length" positions=${lengths.value} show=${tokens} />
    <${Slider} name="micro_batch_size" positions=${COUNTS} show=${whole} />`;
}

/** Fields that both tasks know. */
function shared({model, gpu, gpu_count: count}) {
  return {model, gpu, gpu_count: count};
}

/** The form. */
export function Question() {
  const tasks = ['serving', 'training'];
  return html`<form class="question" onSubmit=${(event) => event.preventDefault()}>
    <button type="button" class="fold" aria-expanded=${isOpen.value} aria-controls="fields"
      onClick=${() => { isOpen.value = !isOpen.value; }}>${t('question.change')}</button>
    <div id="fields">
    <div role="group" aria-label=${t('task')}>${tasks.map((name) => html`<button type="button"
      aria-pressed=${task.value === name}
      onClick=${() => replace(name, shared(question.value))}>${t(`task.${name}`)}</button>`)}</div>
    <${Name} name="model" kind="models" />
    <${Name} name="gpu" kind="gpus" placeholder=${t('field.gpu.none')} />
    ${question.value.gpu && html`<${Slider} name="gpu_count" positions=${GPUS} show=${whole} />`}
    <${task.value === 'training' ? Training : Serving} />
    </div>
  </form>`;
}
