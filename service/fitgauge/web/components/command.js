// How to run what was judged: the command, Kubernetes manifests, values of a Helm chart.
import {html} from '../vendor.js';
import {permalink} from '../state.js';
import {t} from '../texts.js';
import {Copy} from './copy.js';

function Manifest({title, text}) {
  if (!text) return null;
  return html`<details><summary>${title}</summary>
    <pre tabindex="0"><code>${text}</code></pre><${Copy} text=${text} /></details>`;
}

/** A command whose lines break between words alone. */
function Line({command}) {
  const words = command.split(' ');
  return html`<pre tabindex="0"><code>
    ${words.map((word, index) => html`${index > 0 && ' '}<span>${word}</span>`)}</code></pre>`;
}

/** The launch command, where there is one, and the link to this question. */
export function Command({launch}) {
  const link = new URL(permalink.value, document.baseURI).href;
  return html`<section class="command">
    ${launch && html`<h3>${t('command')}</h3>
      <${Line} command=${launch.command} />
      ${launch.placeholder && html`<p>${t('placeholder', {placeholder: launch.placeholder})}</p>`}
      <${Copy} text=${launch.command} />`}
    <${Copy} text=${link} label=${t('link')} />
    ${launch && html`<${Manifest} title=${t('kubernetes')} text=${launch.kubernetes} />
      <${Manifest} title=${t('helm')} text=${launch.helm_values} />`}
  </section>`;
}
