// A button that copies a text.
import {html, useState} from '../vendor.js';
import {t} from '../texts.js';

const SHOWN_MS = 1500;

/** A button that copies `text`. `label`: instead of its usual one. */
export function Copy({text, label}) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  };
  return html`<button type="button" class="copy" onClick=${copy}>
    ${copied ? t('copied') : label ?? t('copy')}</button>`;
}
