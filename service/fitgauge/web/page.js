// The page: what is asked on the left, the answer on the right.
import {html} from './vendor.js';
import {answer, pending, problem} from './state.js';
import {language, names, t, use} from './texts.js';
import {AskBox} from './components/ask_box.js';
import {Bar} from './components/bar.js';
import {Chosen, Notes} from './components/notes.js';
import {Command} from './components/command.js';
import {Elsewhere} from './components/elsewhere.js';
import {Fixes} from './components/fixes.js';
import {HeatMap} from './components/heat_map.js';
import {LogBox} from './components/log_box.js';
import {Limits} from './components/limits.js';
import {Needs, Others} from './components/needs.js';
import {ProblemBox} from './components/problem_box.js';
import {Question} from './components/question.js';
import {Speed} from './components/speed.js';
import {Terms} from './components/terms.js';
import {Verdict} from './components/verdict.js';

// Named by the head where the service has it.
const documentation = document.querySelector('link[rel=help]');

function Header() {
  return html`<header>
    <div><h1>${t('title')}</h1><p>${t('lead')}</p></div>
    <nav>${documentation && html`<a href=${documentation.href}>${t('docs')}</a>`}
      <div role="group" aria-label=${t('language')}>
        ${Object.entries(names).map(([code, name]) => html`<button type="button" lang=${code}
          aria-pressed=${language.value === code} onClick=${() => use(code)}>${name}</button>`)}
      </div>
    </nav>
  </header>`;
}

function Answer() {
  if (problem.value) return html`<${ProblemBox} problem=${problem.value} />`;
  const shown = answer.value;
  if (!shown) return html`<p role="status">${t('loading')}</p>`;
  return html`
    <${Verdict} answer=${shown} />
    <${Bar} answer=${shown} />
    <${Command} launch=${shown.launch} />
    <${Fixes} suggestions=${shown.suggestions} />
    <${Needs} answer=${shown} />
    <${Others} others=${shown.others ?? {}} />
    <${Chosen} answer=${shown} />
    <${Speed} answer=${shown} />
    <${Limits} limits=${shown.limits} />
    <${Terms} terms=${shown.terms ?? []} />
    <${Notes} answer=${shown} />`;
}

/** The whole page. */
export function Page() {
  return html`
    <${Header} />
    <${AskBox} />
    <main>
      <div class="asked">
        <${Question} />
        <section class="answer" aria-live="polite" aria-busy=${pending.value}>
          <${Answer} /></section>
      </div>
      <div class="more">
        <${HeatMap} />
        <${Elsewhere} />
        <${LogBox} />
      </div>
    </main>`;
}
