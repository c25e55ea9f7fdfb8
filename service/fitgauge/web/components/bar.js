// The stacked bar of one GPU: what each part takes, the interval, and the capacity line.
import {html} from '../vendor.js';
import {gib} from '../format.js';
import {marks, segments} from '../pictures.js';
import {named, t} from '../texts.js';

/** Bytes of the smallest part in the legend. */
const LEAST_LISTED = 2 ** 30 / 200;

const share = (part) => `${(100 * part).toFixed(3)}%`;

/** The bar of the fullest GPU; nothing where the answer has none. */
export function Bar({answer}) {
  const {per_gpu: perGpu, terms, verdict} = answer;
  if (!perGpu || !terms) return null;
  const required = perGpu.required_bytes;
  const budget = perGpu.budget_bytes ?? perGpu.usable_bytes;
  const at = marks(required, budget);
  const label = t('bar.label', {
    verdict: t(`verdict.${verdict}`), need: gib(required.expected), budget: gib(budget),
  });
  const drawn = segments(terms, required, budget);
  const listed = drawn.filter(({term}) => term.bytes >= LEAST_LISTED);
  return html`<figure class="bar">
    <svg viewBox="0 0 1000 64" preserveAspectRatio="none" role="img" aria-label=${label}>
      <rect class="track" x="0" y="12" width="1000" height="40" />
      ${drawn.map(({term, left, width, colour}) => html`<rect class=${`part c${colour}`}
        x=${1000 * left} y="12" width=${1000 * width} height="40"
        data-term=${term.name}><title>${named(term.name)} ${gib(term.bytes)}</title></rect>`)}
      ${at.expected > at.capacity && html`<rect class="beyond" x=${1000 * at.capacity} y="12"
        width=${1000 * (at.expected - at.capacity)} height="40" />`}
      <rect class="interval" x=${1000 * at.low} y="54" width=${1000 * (at.high - at.low)}
        height="4" />
      <line class="capacity" x1=${1000 * at.capacity} x2=${1000 * at.capacity} y1="4" y2="60" />
    </svg>
    <p class="capacity-label" style=${{left: share(at.capacity)}} data-flip=${at.capacity > 0.6}>
      ${t('bar.capacity', {budget: gib(budget)})}</p>
    <figcaption>
      <ul class="legend">
        ${listed.map(({term, colour}) => html`<li class=${`c${colour}`}>
          ${named(term.name)} <b>${gib(term.bytes)}</b></li>`)}
      </ul>
      <p>${t('bar.interval', {low: gib(required.low), high: gib(required.high)})}</p>
    </figcaption>
  </figure>`;
}
