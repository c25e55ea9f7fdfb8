// The state of the page: the question, what the API answered, and the permalink of both.
import {batch, computed, effect, signal} from './vendor.js';
import {latest, post} from './api.js';

const PAUSE_MS = 25;

/** Fields that the page offers, by task. */
export const FIELDS = {
  serving: ['model', 'gpu', 'gpu_count', 'engine', 'quantization', 'context_length', 'concurrency'],
  training: ['model', 'gpu', 'gpu_count', 'method', 'trainer', 'sequence_length', 'micro_batch_size'],
};
const TEXT = new Set([
  'model', 'gpu', 'engine', 'engine_version', 'quantization', 'kv_cache_dtype', 'draft_model',
]);
const PATHS = {serving: 'v1/fit', training: 'v1/training-fit'};
const LONGEST = 2 ** 17;
const EXAMPLE = {model: 'Qwen/Qwen3-32B', gpu: 'RTX 4090'};

/** serving or training. */
export const task = signal('serving');
/** The fields of the request, as they were set; those left out are the API's to assume. */
export const question = signal(EXAMPLE);
/** The answer to the question as it was last answered. */
export const answer = signal(null);
/** The problem instead of an answer. */
export const problem = signal(null);
/** The longest context of the model in question, of the one before where it is not known yet. */
export const longest = signal(LONGEST);
/** Whether a newer answer is on its way. */
export const pending = signal(false);

/** Set fields of the question; null and '' leave one out. */
export function change(fields) {
  const next = {...question.value, ...fields};
  for (const [name, value] of Object.entries(next)) {
    if (value === null || value === '' || Number.isNaN(value)) delete next[name];
  }
  question.value = next;
}

/** Replace the question and its task. */
export function replace(newTask, fields) {
  batch(() => {
    task.value = newTask;
    question.value = {};
    change(fields);
  });
}

/** The request of the page's question. */
export const request = computed(() => ({...question.value, detail: 'full'}));

const ask = latest(async ({path, body}, signal) => {
  const result = await post(path, body, signal);
  batch(() => {
    answer.value = result.answer ?? null;
    longest.value = result.answer?.model.max_context_length || longest.value;
    problem.value = result.problem ?? null;
    pending.value = false;
  });
}, PAUSE_MS);

/** The query of the permalink. */
export const permalink = computed(() => {
  const query = new URLSearchParams({task: task.value});
  for (const [name, value] of Object.entries(question.value)) query.set(name, String(value));
  return `?${query}`;
});

function typed(value) {
  if (value === 'true' || value === 'false') return value === 'true';
  return /^\d{1,12}(\.\d{1,6})?$/.test(value) ? Number(value) : value;
}

function fromAddress() {
  const query = new URLSearchParams(location.search);
  const linked = query.get('task') === 'training' ? 'training' : 'serving';
  const fields = {};
  for (const [name, value] of query) {
    if (name !== 'task') fields[name] = TEXT.has(name) ? value : typed(value);
  }
  replace(linked, fields.model ? fields : EXAMPLE);
}

/** Fields that the page offers for the task. */
export const offered = computed(() => FIELDS[task.value]);

/** Read the address, then follow the question. */
export function start() {
  fromAddress();
  addEventListener('popstate', fromAddress);
  effect(() => {
    const path = PATHS[task.value];
    const body = request.value;
    pending.value = true;
    ask({path, body});
  });
  effect(() => {
    if (permalink.value !== location.search) history.replaceState(null, '', permalink.value);
  });
}
