// Entry: read the permalink, draw the page, and keep both in step with the question.
import {html, render} from './vendor.js';
import {Page} from './page.js';
import {start} from './state.js';

start();
const root = document.getElementById('page');
root.replaceChildren();
render(html`<${Page} />`, root);
