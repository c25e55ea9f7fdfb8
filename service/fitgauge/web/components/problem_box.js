// What the API could not answer: its own hint, with its ready arguments as buttons.
import {html} from '../vendor.js';
import {plain} from '../format.js';
import {change} from '../state.js';
import {byCode, t} from '../texts.js';

/** Whether no earlier one of `all` sends the same. */
function isFirst(fields, index, all) {
  const same = JSON.stringify(fields);
  return all.findIndex((one) => JSON.stringify(one) === same) === index;
}

/** A problem. */
export function ProblemBox({problem}) {
  const detail = problem.code === 'no-answer' && !problem.detail
    ? t('problem.no-answer')
    : byCode(problem.code, problem.detail);
  const field = problem.field ?? 'model';
  const ready = problem.send ? [problem.send] : [];
  const matches = (problem.matches ?? []).map((match) => ({[field]: match}));
  const offered = [...ready, ...matches].filter(isFirst);
  return html`<div class="problem" role="alert">
    <p><b>${plain(detail)}</b></p>
    ${problem.detail && detail !== problem.detail
      && html`<p><small lang="en">${plain(problem.detail)}</small></p>`}
    ${problem.hint && html`<p>${plain(problem.hint)}</p>`}
    ${offered.length > 0 && html`<p>${t('problem.try')}:
      ${offered.map((fields) => html` <button type="button" onClick=${() => change(fields)}>
        ${Object.values(fields).filter((value) => value !== null).join(', ')}</button>`)}</p>`}
  </div>`;
}
