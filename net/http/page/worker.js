'use strict';
// What the other scripts of the page build on: elements, icons, and the ways to ask the worker. What a model
// or the server says gets into the page as text nodes only; the Content-Security-Policy refuses markup made
// from strings. The .js files of this folder are one script; net/CMakeLists.txt has their order.
const $ = id => document.getElementById(id);
const make = (tag, name, text) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  return node;
};

// The name of a vocabulary, which is never fetched: nothing in the page may look like an address that is.
const svgNames = 'http' + '://www.w3.org/2000/svg';
const svg = (tag, attributes, text) => {
  const node = document.createElementNS(svgNames, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
};

// Lines of pictures of 24 by 24, drawn with the colour of the text around them.
const iconLines = {
  list: 'M4 6h16M4 12h16M4 18h16',
  panel: 'M4 5h16v14H4zM14 5v14',
  help: 'M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5v.5',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  again: 'M20 12a8 8 0 1 1-2.5-5.8M20 3v4h-4',
  remove: 'M5 7h14M10 4h4M7 7l1 13h8l1-13M10 11v5M14 11v5',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  plus: 'M12 5v14M5 12h14',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  on: 'M5 5l7 7-7 7M13 5l7 7-7 7',
  attach: 'M8 12l6-6a3 3 0 0 1 4.5 4.5l-8 8a5 5 0 0 1-7-7l7.5-7.5',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  close: 'M6 6l12 12M18 6L6 18',
  down: 'M12 5v14M6 13l6 6 6-6',
  save: 'M12 4v11M7 10l5 5 5-5M5 20h14',
  tokens: 'M4 7h5v10H4zM11 7h3v10h-3zM16 7h4v10h-4z',
  raw: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  shown: 'M4 6h16M4 11h16M4 16h9',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  search: 'M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13M15.5 15.5L20 20',
};
const icon = name => {
  const picture = svg('svg', {viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true'});
  picture.append(svg('path', {d: iconLines[name]}));
  return picture;
};
/// A button that shows an icon; `label` is its name, for who sees and who hears the page.
const iconButton = (name, label, act) => {
  const button = make('button', 'icon-button');
  button.type = 'button';
  button.title = label;
  button.setAttribute('aria-label', label);
  button.append(icon(name));
  if (act) button.addEventListener('click', act);
  return button;
};
const textButton = (label, act) => {
  const button = make('button', '', label);
  button.type = 'button';
  button.addEventListener('click', act);
  return button;
};

/// An id that no other record of this browser has. Also where the page came without TLS.
const freshId = () => [...crypto.getRandomValues(new Uint32Array(4))].map(n => n.toString(36)).join('');
const count = n => Number(n || 0).toLocaleString('en');

const headers = () => {
  const key = $('key').value.trim();
  return key ? {Authorization: 'Bearer ' + key} : {};
};

/// What the worker refused, or said in the middle of an answer, in its own words.
class Refusal extends Error {
  constructor(status, body, wait) {
    const e = body && body.error ? body.error : {};
    super(e.message || 'the worker answered without saying why');
    this.status = status;
    this.code = e.code || '';
    this.param = e.param || '';
    this.wait = Number(wait) || 0;
    this.retriable = e.retriable === true;
  }
}

/// The connection ended before the answer did.
class CutShort extends Error {
  constructor() { super('the connection closed before the answer was complete'); }
}

async function refusalOf(response) {
  let body = null;
  try { body = await response.json(); } catch { /* no JSON: the status has to do */ }
  return new Refusal(response.status, body, response.headers.get('Retry-After'));
}

/// The JSON at an address of the worker; a refusal is thrown.
async function fetchJson(path) {
  const response = await fetch(path, {headers: headers(), signal: AbortSignal.timeout(5000)});
  if (!response.ok) throw await refusalOf(response);
  return response.json();
}

/// The objects in the data lines of an event stream; ends after [DONE], throws where that never came.
async function* chunksOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (e) {
      throw e.name === 'AbortError' ? e : new CutShort();
    }
    if (part.done) throw new CutShort();
    const lines = (rest + part.value).split('\n');
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
