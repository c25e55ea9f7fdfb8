// The first line: the verdict, how likely, and the figures it rests on.
import {html} from '../vendor.js';
import {areUnlike, gib, percent, tokens, whole} from '../format.js';
import {request, task} from '../state.js';
import {t} from '../texts.js';
import {Figure} from './figure.js';

function Load({understood}) {
  if (task.value === 'training') {
    const values = {
      sequence: whole(understood.sequence_length ?? 0), batch: understood.micro_batch_size,
    };
    return html`<p>${t('sequence', values)}</p>`;
  }
  const values = {
    context: tokens(understood.context_length ?? 0), concurrency: understood.concurrency,
  };
  return html`<p>${t('context', values)}</p>`;
}

/** The verdict of an answer. */
export function Verdict({answer}) {
  const {verdict, per_gpu: perGpu, gpu, model, fit_probability: probability} = answer;
  const budget = perGpu && (perGpu.budget_bytes ?? perGpu.usable_bytes);
  const need = perGpu?.required_bytes.expected;
  const count = gpu?.count ?? 1;
  return html`<div class=${`verdict ${verdict ?? 'needs'}`}>
    <h2><span class="chip">${t(`verdict.${verdict}`)}</span>
      ${model.id}${gpu && html` · ${areUnlike(gpu) ? '' : `${count} × `}${gpu.name}`}</h2>
    ${perGpu && html`<p class="figures">
      <${Figure} path="per_gpu.required_bytes.expected" value=${need}>
        ${t('need', {need: gib(need), budget: gib(budget)})}</${Figure}>
      ${count > 1 && !areUnlike(gpu) && html` · ${t('need.total', {count, need: gib(count * need)})}`}
      ${probability !== null && verdict !== 'does_not_fit' && html` · <${Figure} path="fit_probability" value=${probability}>
        ${t('probability', {percent: percent(probability)})}</${Figure}>`}
    </p>`}
    <${Load} understood=${{...request.value, ...answer.understood_as}} />
    <p class="summary" lang="en">${answer.summary}</p>
  </div>`;
}
