// What was assumed, guessed and chosen, and what to know.
import {html} from '../vendor.js';
import {plain} from '../format.js';
import {assumption, byCode, t} from '../texts.js';

function List({title, items}) {
  if (items.length === 0) return null;
  return html`<section class="notes"><h3>${title}</h3>
    <ul>${items.map((item) => html`<li>${plain(item)}</li>`)}</ul></section>`;
}

/** The settings that were chosen so that it fits, and what they cost. */
export function Chosen({answer}) {
  if (!answer.launch) return null;
  const items = (answer.chosen ?? []).map((one) => `${t('chosen.row', one)}. ${one.costs}.`);
  return html`<${List} title=${t('chosen')} items=${items} />`;
}

/** Readings, assumptions and warnings. */
export function Notes({answer}) {
  const readings = answer.read_as.map(
    (one) => `${one.field}: ${one.sent} → ${one.taken}`
      + (one.others.length > 0 ? ` (${one.others.join(', ')})` : ''),
  );
  return html`
    <${List} title=${t('read_as')} items=${readings} />
    <${List} title=${t('assumed')} items=${answer.assumed.map(assumption)} />
    <${List} title=${t('warnings')}
      items=${answer.warnings.map((one) => byCode(one.code, one.message))} />`;
}
