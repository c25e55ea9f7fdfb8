// The texts of the page in the reader's language.
import {computed, signal} from './vendor.js';
import en from './texts/en.js';
import zh from './texts/zh.js';

const LANGUAGES = {en, zh};
const STORED = 'fitgauge-language';

/** The languages by code, each with its own name. */
export const names = {en: 'English', zh: '中文'};
/** The code of the language in use. */
export const language = signal(initial());

function initial() {
  const stored = localStorage.getItem(STORED);
  if (stored in LANGUAGES) return stored;
  return navigator.language.startsWith('zh') ? 'zh' : 'en';
}

/** Use a language from now on. */
export function use(code) {
  language.value = code;
  localStorage.setItem(STORED, code);
  document.documentElement.lang = code;
}

const texts = computed(() => LANGUAGES[language.value]);

/** A text by its key, with {name} replaced by values.name. */
export function t(key, values = {}) {
  const text = texts.value[key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

/** A text of the API in the reader's language, by its code; the API's own where there is none. */
export function byCode(code, message) {
  return texts.value[`code.${code}`] ?? message;
}

/** An assumption of the API in the reader's language; the API's own sentence where it has none. */
export function assumption({field, value, message}) {
  const text = texts.value['assumed.row'];
  const label = texts.value[`field.${field}`] ?? named(field);
  return text ? t('assumed.row', {field: label, value}) : message;
}

/** A name of the API (a term, a setting) in the reader's language; the name in words else. */
export function named(name) {
  return texts.value[`name.${name}`] ?? name.replaceAll('_', ' ');
}
