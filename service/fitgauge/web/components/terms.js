// Every term with its formula, the numbers put in, its basis and its source.
import {html} from '../vendor.js';
import {gib} from '../format.js';
import {named, t} from '../texts.js';
import {Figure} from './figure.js';

function Term({term, index}) {
  const path = `terms.${index}.bytes`;
  return html`<details>
    <summary><span>${named(term.name)}</span>
      <${Figure} path=${path} value=${term.bytes}>${gib(term.bytes)}</${Figure}>
      <small>${t(`basis.${term.basis}`)}</small></summary>
    <dl>
      <dt>${t('term.formula')}</dt><dd><code>${term.formula}</code></dd>
      <dt>${t('term.source')}</dt><dd>${term.source}</dd>
      <dd>${t('bar.interval', {low: gib(term.low), high: gib(term.high)})}</dd>
    </dl>
  </details>`;
}

const LEAST_SHOWN = 2 ** 30 / 200; // bytes; less is 0.00 GiB

/** The list of terms. */
export function Terms({terms}) {
  if (terms.length === 0) return null;
  const rows = terms
    .map((term, index) => ({term, index}))
    .filter(({term}) => term.high >= LEAST_SHOWN);
  return html`<section class="terms"><h3>${t('terms')}</h3>
    ${rows.map(({term, index}) => html`<${Term} key=${term.name} term=${term} index=${index} />`)}
  </section>`;
}
