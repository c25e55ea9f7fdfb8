// Without a GPU: what the model needs by format or method, and the smallest GPUs that hold it.
import {html} from '../vendor.js';
import {gib} from '../format.js';
import {change} from '../state.js';
import {named, t} from '../texts.js';
import {Figure} from './figure.js';

/** The needs of an answer without a GPU. */
export function Needs({answer}) {
  const needs = answer.needs ?? [];
  if (needs.length === 0) return null;
  const most = Math.max(...needs.map((need) => need.required_bytes.expected));
  return html`<section class="needs"><h3>${t('needs')}</h3>
    <table><tbody>${needs.map((need, index) => html`<tr><th scope="row">${need.name}</th>
      <td><meter min="0" max=${most} value=${need.required_bytes.expected}
        aria-label=${need.name}></meter></td>
      <td><${Figure} path=${`needs.${index}.required_bytes.expected`}
        value=${need.required_bytes.expected}>${gib(need.required_bytes.expected)}</${Figure}></td>
    </tr>`)}</tbody></table>
    ${answer.smallest.length > 0 && html`<h3>${t('smallest')}</h3><ul>
      ${answer.smallest.map((one) => html`<li>
        <button type="button" onClick=${() => change({gpu: one.gpu, gpu_count: one.gpu_count})}>
          ${one.gpu_count} × ${one.gpu}</button>
        <span>${one.name}, ${one.reasons.map(named).join(', ')}</span></li>`)}</ul>`}
  </section>`;
}

/** The other training methods. */
export function Others({others}) {
  const rows = Object.entries(others);
  if (rows.length === 0) return null;
  return html`<section class="others"><h3>${t('others')}</h3><ul>
    ${rows.map(([method, other]) => html`<li class=${other.verdict}>
      <button type="button" onClick=${() => change({method})}>${method}</button>
      <span class="chip">${t(`verdict.${other.verdict}`)}</span>
      <${Figure} path=${`others.${method}.required_bytes`} value=${other.required_bytes}>
        ${gib(other.required_bytes)}</${Figure}></li>`)}
  </ul></section>`;
}
