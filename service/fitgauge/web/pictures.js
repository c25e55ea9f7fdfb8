// Geometry of the pictures, from an answer alone: the page, the chat hosts' picture and the
// service's own SVG and PNG draw the same.

const COLOURS = 8;

/** Segments of the stacked bar, as shares of its width. `terms`: of the answer. */
export function segments(terms, required, available) {
  const whole = Math.max(required.high, available, 1);
  let left = 0;
  return terms
    .filter((term) => term.bytes > 0)
    .map((term, index) => {
      const segment = {term, left, width: term.bytes / whole, colour: index % COLOURS};
      left += segment.width;
      return segment;
    });
}

/** Where the capacity line and the interval stand, as shares of the bar's width. */
export function marks(required, available) {
  const whole = Math.max(required.high, available, 1);
  return {
    capacity: available / whole,
    low: required.low / whole,
    expected: required.expected / whole,
    high: required.high / whole,
  };
}

/** The last `steps` of the doublings from `least`, and `most`: the axes of the heat map. */
export function doublings(least, most, steps) {
  const values = [];
  for (let value = least; value < most; value *= 2) values.push(value);
  return [...values, most].slice(-steps);
}

/** From `least` to `most` in eighths of each doubling: the positions of a slider. */
export function ladder(least, most) {
  const values = [];
  for (let start = least; start < most; start *= 2) {
    for (let eighth = 0; eighth < 8; eighth += 1) {
      values.push(Math.floor(start + (start / 8) * eighth));
    }
  }
  const below = values.filter((one, index) => one < most && one !== values[index - 1]);
  return [...below, most];
}
