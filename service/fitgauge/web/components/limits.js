// How far the question may be taken.
import {html} from '../vendor.js';
import {whole} from '../format.js';
import {t} from '../texts.js';
import {Figure} from './figure.js';

/** The limits of an answer; one of 0 says no more than the verdict. */
export function Limits({limits}) {
  const shown = Object.entries(limits ?? {}).filter(([, value]) => value);
  if (shown.length === 0) return null;
  return html`<section class="limits"><h3>${t('limits')}</h3><dl>
    ${shown.map(([name, value]) => html`<div><dt>${t(`limit.${name}`)}</dt>
      <dd><${Figure} path=${`limits.${name}`} value=${value}>${whole(value)}</${Figure}></dd></div>`)}
  </dl></section>`;
}
