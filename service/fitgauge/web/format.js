// Numbers as people read them.

const GIB = 2 ** 30;

/** The format of a model that is loaded as it is. */
export const PUBLISHED = 'as published';

// Halves go to the even digit, as in the sentences of the API: 128 MiB are 0.12 GiB in both.
const [one, two] = [1, 2].map((digits) => new Intl.NumberFormat('en-US', {
  minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false,
  roundingMode: 'halfEven',
}));

/** GiB of a size in bytes: one decimal from 10 GiB on, else two. */
export function gib(bytes) {
  const size = bytes / GIB;
  return `${(Math.abs(size) >= 10 ? one : two).format(size)} GiB`;
}

/** A whole number with separators. */
export function whole(number) {
  return number.toLocaleString('en-US');
}

/** Two digits, or a whole number from 100 on: an estimated speed is no surer. */
export function rough(number) {
  return number < 99.5 ? String(Number(number.toPrecision(2))) : whole(Math.round(number));
}

/** Tokens in thousands of 1,024: 32768 is 32k. */
export function tokens(number) {
  return number >= 1024 && number % 1024 === 0 ? `${number / 1024}k` : whole(number);
}

/** A probability as a percentage without decimals, no surer than runs can show. */
export function percent(share) {
  if (share > 0.99) return '> 99 %';
  if (share < 0.01) return '< 1 %';
  return `${Math.round(share * 100)} %`;
}

/** A message of the API in words of the page: without marks around names, paths to ask and
 * "send". */
export function plain(message) {
  return message.replaceAll('`', '')
    .replace(/; (?:GET|POST) \/v1\/[^.]*\./g, '.')
    .replace(/ ?\b(?:GET|POST) \/v1\/[^.]*\./g, '')
    .replace(/(^|[.:;] )Send /g, '$1Use ');
}

/** Whether GPUs are of several kinds: their name says how many of each. */
export function areUnlike(gpu) {
  return gpu.name.includes(' + ');
}
