// Requests to the API. Its problem+json is an answer too: {problem}.

async function request(path, options) {
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return {problem: {code: 'no-answer', status: 0, detail: '', hint: '', matches: []}};
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return {answer: body};
  const status = response.status;
  return {problem: {code: 'no-answer', detail: '', hint: '', matches: [], ...body, status}};
}

/** Answer of a POST with a JSON body; `signal` cancels it. */
export function post(path, question, signal) {
  const headers = {'Content-Type': 'application/json'};
  return request(path, {method: 'POST', headers, body: JSON.stringify(question), signal});
}

/** Answer of a GET. */
export function get(path, signal) {
  return request(path, {signal});
}

/** A function that runs `work(argument, signal)` once its calls pause, and cancels older work. */
export function latest(work, pauseMs) {
  let timer = 0;
  let running = null;
  return (argument) => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      running?.abort();
      running = new AbortController();
      try {
        await work(argument, running.signal);
      } catch (error) {
        if (error.name !== 'AbortError') throw error;
      }
    }, pauseMs);
  };
}
