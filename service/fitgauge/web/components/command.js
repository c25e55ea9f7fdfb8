// The command that runs what was judged.
import {html} from '../vendor.js';
import {permalink} from '../state.js';
import {t} from '../texts.js';
import {Copy} from './copy.js';

/** The launch command, where there is one, and the link to this question. */
export function Command({launch}) {
  const link = new URL(permalink.value, document.baseURI).href;
  return html`<section class="command">
    ${launch && html`<h3>${t('command')}</h3>
      <pre tabindex="0"><code>${launch.command}</code></pre>
      ${launch.placeholder && html`<p>${t('placeholder', {placeholder: launch.placeholder})}</p>`}
      <${Copy} text=${launch.command} />`}
    <${Copy} text=${link} label=${t('link')} />
  </section>`;
}
