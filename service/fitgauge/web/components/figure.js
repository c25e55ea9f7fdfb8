// A number on the page with the path of the JSON it comes from, so that a test reads it back.
import {html} from '../vendor.js';

/** A figure. `path`: in the answer. `value`: as it stands there. */
export function Figure({path, value, children}) {
  return html`<data data-path=${path} value=${String(value)}>${children}</data>`;
}
