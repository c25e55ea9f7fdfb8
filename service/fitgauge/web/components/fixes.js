// What to change, each with its verdict; a click asks the changed question.
import {html} from '../vendor.js';
import {gib} from '../format.js';
import {change} from '../state.js';
import {t} from '../texts.js';
import {Figure} from './figure.js';

/** The suggestions of an answer. */
export function Fixes({suggestions}) {
  if (!suggestions?.length) return null;
  return html`<section class="fixes"><h3>${t('fixes')}</h3><ul>
    ${suggestions.map((fix, index) => html`<li class=${fix.verdict}>
      <span class="chip">${t(`verdict.${fix.verdict}`)}</span>
      <span lang="en">${fix.change}</span>
      <${Figure} path=${`suggestions.${index}.required_bytes`} value=${fix.required_bytes}>
        ${gib(fix.required_bytes)}</${Figure}>
      <button type="button" onClick=${() => change(fix.request)}>${t('fixes.apply')}</button>
    </li>`)}
  </ul></section>`;
}
