// Formulas: where they stand in a text, and what KaTeX makes of them. Part of the Worker that reads Markdown.
// A formula is \(...\), \[...\], $$...$$, $...$ or an environment; it never goes over an empty line. KaTeX's
// elements go to the page as plain data, [tag, class, style, attributes, ...children] or a text.

const texMax = 2000;        // characters of a formula; a longer one is shown as its source
const texNodesMax = 3000;   // elements and texts of a formula, and
const nodesMax = 8000;      // of all formulas of a piece,
const answerNodesMax = 12000; // and of all of an answer: of many more the page is laid out ever more slowly
const texDepthMax = 120;    // elements within elements
const keptMax = 200;        // formulas that need not be made again when the piece that has them has grown
const finishMax = 1500;     // milliseconds for the formulas and colours of an answer
// What KaTeX may do with its own macros, and the largest size (em) that a formula may ask for.
const texExpansionsMax = 1000, texSizeMax = 20;

// Commands by which words that stand in the source would not be seen: comments, definitions, a choice of one
// of four, what KaTeX leaves out when nobody trusts the source, and what is moved out of sight.
const hides = new RegExp(
  '(?:^|[^\\\\])(?:\\\\\\\\)*%' +
  '|\\\\(?:href|url|includegraphics|html[A-Za-z]+|(?:long|global|[egx])?def|g?let|futurelet|mathchoice' +
  '|(?:re)?new(?:command|environment)|providecommand|char)(?![A-Za-z])' +
  '|\\\\[hv]?phantom(?!\\{[^{}A-Za-z\\\\]{0,8}\\})(?![a-z])' +
  '|-\\s*[\\d.]+\\s*(?:em|ex|mu|pt|mm|cm|in|bp|pc|dd|cc|n[dc]|sp)(?![A-Za-z])');

// KaTeX makes its elements by a document, which a Worker has not; these keep what they are told.
let nodesLeft = 0, formulaLeft = 0, answerLeft = 0;
let isWhole = false;  // the piece is read for the last time
function count() {
  if (--formulaLeft < 0 || --nodesLeft < 0) throw new TooMany();
}
class Made {
  constructor(tag) {
    count();
    this.tag = tag;
    this.className = '';
    this.style = {};
    this.attributes = {};
    this.children = [];
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  appendChild(child) { this.children.push(child); }
  told(depth = 0) {
    if (depth > texDepthMax) throw new TooMany();
    return [this.tag, this.className, this.style, this.attributes,
            ...this.children.map(child => typeof child === 'string' ? child : child.told(depth + 1))];
  }
}
self.document = {
  compatMode: 'CSS1Compat',
  createElement: tag => new Made(tag),
  createElementNS: (space, tag) => new Made(tag),
  createDocumentFragment: () => new Made('span'),
  createTextNode: text => { count(); return String(text); },
};
// Of a character that it has no measures for KaTeX would tell the console, which is the page's.
console.warn = console.error = () => {};

let finishing = 0;  // milliseconds that formulas and colours of this answer have taken

/// What `make` gives, or null where the time for such is over, so that it is not taken from the words'.
function inTime(make) {
  if (finishing > finishMax) return null;
  const begin = performance.now();
  try {
    return make();
  } finally {
    finishing += performance.now() - begin;
  }
}

const formulas = new Map();  // by mode and source; null: shown as its source

function formulaOf(tex, display) {
  if (typeof katex === 'undefined' || tex.length > texMax || hides.test(tex) || answerLeft <= 0) return null;
  const key = (display ? 'd' : 'i') + tex, known = formulas.get(key);
  if (known !== undefined) {
    if (known && (nodesLeft -= known.size) < 0) return null;
    if (known && isWhole) answerLeft -= known.size;
    return known && known.tree;
  }
  if (formulas.size >= keptMax) formulas.clear();
  formulaLeft = texNodesMax;
  const tree = inTime(() => madeOf(tex, display));
  if (isWhole) answerLeft -= texNodesMax - formulaLeft;
  // One that came at the end of what the piece or the answer may have is asked for again later.
  if (tree || (nodesLeft >= 0 && finishing <= finishMax)) {
    formulas.set(key, tree && {tree, size: texNodesMax - formulaLeft});
  }
  return tree;
}

/// What KaTeX makes of a formula; null of what is none, is not known to it or is too large to be shown.
function madeOf(tex, display) {
  try {
    const top = new Made('span');
    katex.render(tex, top, {
      displayMode: display, throwOnError: true, strict: 'ignore', trust: false, maxExpand: texExpansionsMax,
      maxSize: texSizeMax, macros: {},
    });
    return top.children[0].told();
  } catch {
    return null;
  }
}

const closers = {'\\(': '\\)', '\\[': '\\]', '$$': '$$'};
const holdsEmptyLine = text => /\n[ \t]*\n/.test(text.trim());

/// {raw, tex, display} of the formula with which `src` begins by one of `closers`, or null.
function delimited(src) {
  const open = src.slice(0, 2), close = closers[open];
  if (!close) return null;
  const head = src.slice(0, texMax + 4), end = head.indexOf(close, 2);
  const tex = head.slice(2, end);
  if (end < 0 || !tex.trim() || holdsEmptyLine(tex)) return null;
  return {raw: head.slice(0, end + 2), tex, display: open !== '\\('};
}

/// The same of $...$, which is also how money is written: there is no blank inside at the ends, no letter or
/// digit outside, and no program within.
function dollared(src, before) {
  if (!/^\$[^\s$]/.test(src) || /[\p{L}\p{N}\\$]$/u.test(before)) return null;
  const head = src.slice(0, texMax + 2);
  let end = 1;
  while (end < head.length && head[end] !== '$' && head[end] !== '`') end += head[end] === '\\' ? 2 : 1;
  const tex = head.slice(1, end);
  if (head[end] !== '$' || /\s$/.test(tex) || /^[\p{L}\p{N}$]/u.test(src.slice(end + 1, end + 3))) return null;
  if (holdsEmptyLine(tex) || /^\d[\d.,]*\s+[A-Za-z]{2}/.test(tex)) return null;
  return {raw: head.slice(0, end + 1), tex, display: false};
}

const blockMark = /^ {0,3}(\\\[|\$\$|\\begin\{([a-z]{1,12}\*?)\})/;

/// The same of a block: it has its lines for itself, but for a full stop or the like.
function blockMath(src) {
  const mark = blockMark.exec(src);
  if (!mark) return null;
  const close = mark[2] ? '\\end{' + mark[2] + '}' : closers[mark[1]];
  const head = src.slice(0, texMax + 40), begin = mark[0].length, end = head.indexOf(close, begin);
  const tex = head.slice(begin, end);
  if (end < 0 || !tex.trim() || holdsEmptyLine(tex)) return null;
  const after = /^[ \t]*(?:\n|$)/.exec(head.slice(end + close.length));
  // In one line with other words it is a part of their paragraph.
  if (!after && !tex.includes('\n')) return null;
  const raw = head.slice(0, end + close.length + (after ? after[0].length : 0));
  return {raw, tex: mark[2] ? raw.trim() : tex, display: true};
}

// Within a paragraph: a line that begins with a formula, or one of whose lines the last thing is where it begins.
const blockStart = /\n(?= {0,3}(?:\\\[|\$\$|\\begin\{))|.(?=\\\[[ \t]*\n)/;

const mathExtensions = [{
  name: 'mathBlock', level: 'block',
  start(src) {
    const end = src.indexOf('\n\n'), found = blockStart.exec(end < 0 ? src : src.slice(0, end));
    return found ? found.index + 1 : undefined;
  },
  tokenizer(src) {
    const found = blockMath(src);
    return found ? {type: 'math', ...found} : undefined;
  },
}, {
  name: 'math', level: 'inline',
  start(src) {
    const at = src.search(/\\[([]|\$/);
    return at < 0 ? undefined : at;
  },
  tokenizer(src, tokens) {
    if (src[0] !== '\\' && src[0] !== '$') return undefined;
    const before = tokens.length ? tokens[tokens.length - 1].raw : '';
    const found = delimited(src) || dollared(src, before);
    return found ? {type: 'math', ...found} : undefined;
  },
}];

/// The token of a formula for the page.
function mathOf({raw, tex, display}) {
  const tree = formulaOf(tex, display);
  return tree ? {type: 'math', raw: raw.trim(), display, tree} : plain(raw);
}
