'use strict';
// What a model or the server says gets into the page as text nodes only; the Content-Security-Policy
// refuses markup made from strings. The .js files of this
// folder are one script; net/CMakeLists.txt has their order.
const $ = id => document.getElementById(id);
const make = (tag, name, text) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  return node;
};

const headers = () => {
  const key = $('key').value.trim();
  return key ? {Authorization: 'Bearer ' + key} : {};
};

class Refusal extends Error {
  constructor(status, body, wait) {
    const e = body && body.error ? body.error : {};
    const named = [e.code, e.param && 'field ' + e.param, status && 'status ' + status].filter(Boolean).join(', ');
    super((e.message || 'the worker answered without saying why') + (named ? ' (' + named + ')' : '') +
          (wait ? '. Try again in ' + wait + ' s.' : ''));
    this.status = status;
  }
}

async function refusalOf(response) {
  let body = null;
  try { body = await response.json(); } catch { /* no JSON: the status has to do */ }
  return new Refusal(response.status, body, response.headers.get('Retry-After'));
}

/// The objects in the data lines of an event stream; ends after [DONE], throws where that never came.
async function* chunksOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error('the connection closed before the answer was complete');
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Refusal(0, chunk);
      yield chunk;
    }
  }
}

