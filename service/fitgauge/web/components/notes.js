// What was assumed, guessed and chosen, and what to know.
import {html} from '../vendor.js';
import {plain} from '../format.js';
import {assumption, byCode, t} from '../texts.js';

function List({title, items}) {
  if (items.length === 0) return null;
  return html`<section class="notes"><h3>${title}</h3>
    <ul>${items.map((item) => html`<li>${item}</li>`)}</ul></section>`;
}

/** A warning in the reader's language, with the API's own sentence where that is another one: names
 * and figures stand in it. */
function warning({code, message}) {
  const text = byCode(code, message);
  if (text === message) return plain(message);
  return html`${text} <small lang="en">${plain(message)}</small>`;
}

/** The settings that were chosen so that it fits, and what they cost. */
export function Chosen({answer}) {
  if (!answer.launch) return null;
  const items = (answer.chosen ?? []).map((one) => plain(`${t('chosen.row', one)}; ${one.costs}.`));
  return html`<${List} title=${t('chosen')} items=${items} />`;
}

/** Readings, assumptions and warnings. */
export function Notes({answer}) {
  const readings = answer.read_as.map(
    (one) => plain(`${one.field}: ${one.sent} → ${one.taken}`
      + (one.others.length > 0 ? ` (${one.others.join(', ')})` : '')),
  );
  const assumed = answer.assumed.map((one) => plain(assumption(one)));
  return html`
    <${List} title=${t('read_as')} items=${readings} />
    <${List} title=${t('assumed')} items=${assumed} />
    <${List} title=${t('warnings')}
      items=${answer.warnings.map(warning)} />`;
}
