// How fast the launch answers, where something tells.
import {html} from '../vendor.js';
import {rough} from '../format.js';
import {t} from '../texts.js';
import {Figure} from './figure.js';

const RATES = {
  speed: ['tokens_per_second_per_request', 'seconds_to_first_token'],
  texts: ['texts_per_second'],
};

/** What is expected, with its interval in parentheses. */
export function Speed({answer}) {
  const shown = Object.entries(RATES).flatMap(([part, names]) =>
    names.filter((name) => answer[part]?.[name]).map((name) => [part, name]));
  if (shown.length === 0) return null;
  return html`<section class="limits"><h3>${t('speed')}</h3><dl>
    ${shown.map(([part, name]) => {
      const {low, expected, high} = answer[part][name];
      return html`<div><dt>${t(`speed.${name}`)}</dt>
        <dd><${Figure} path=${`${part}.${name}.expected`} value=${expected}>${rough(expected)}</${Figure}>
          <small> (${rough(low)} – ${rough(high)})</small></dd></div>`;
    })}
  </dl></section>`;
}
