// Reads Markdown in a Worker, whose source are the libraries marked, highlight.js and KaTeX, the files
// markdown_common.js, markdown_math.js, markdown_code.js and markdown_words.js, and this one.
// For some texts these take far more than linear time; here it keeps nobody waiting, and the page ends the
// Worker when its time is over. What goes back are tokens with what the page shows of them alone. What would
// not be seen in full, and what is not known, goes back as its source.

const tokensMax = 4000;   // of one piece; what has more is shown as its source
const depthMax = 32;      // what is nested deeper is shown as its source
const runMax = 8192;      // characters of a paragraph, heading or cell; a longer one is shown as its source
// Quotes and lists in one line that are nested so deeply that marked would copy the line too often.
const tooDeep = /^(?:[ \t]*(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))){64}/m;

// Cells that a table may have: marked fills each row up to the length of its head.
const cellsMax = 200000;

class TooMany extends Error {}

let left = 0;  // tokens that the piece being read may still have
function take() {
  if (--left < 0) throw new TooMany();
}

// marked keeps what a definition of a link says and drops its words.
const definition = {
  name: 'def', level: 'block',
  tokenizer(src, tokens) {
    const last = tokens[tokens.length - 1];
    if (last && (last.type === 'paragraph' || last.type === 'text')) return undefined;
    const token = this.lexer.tokenizer.def(src), known = this.lexer.tokens.links;
    if (token && !known[token.tag]) known[token.tag] = {href: token.href, title: token.title};
    return token;
  },
};

marked.use({
  extensions: [...mathExtensions, definition],
  // A footnote's text is no address.
  tokenizer: {def: src => /^ {0,3}\[\^/.test(src) ? undefined : false},
});

const plain = raw => ({type: 'plain', raw});

// Backslashes that Markdown takes away; before other characters they may belong to a formula or a path.
const escaped = /^\\[\\`*_#+.!~|<>$-]$/;

function linkOf(token, depth) {
  const {type, raw, href} = token;
  if (!addressOf(href)) return plain(raw);
  const label = (/\]\[([^\]]+)\]$/.exec(raw) || [])[1];
  return {
    type, href, title: token.title || '', label: label ? '[' + label + ']' : '',
    ...(type === 'link' ? {tokens: token.tokens.map(inner => inlineOf(inner, depth + 1))} : {text: token.text}),
  };
}

function inlineOf(token, depth) {
  take();
  const {type, raw} = token;
  const nested = () => token.tokens.map(inner => inlineOf(inner, depth + 1));
  if (token.tokens && depth >= depthMax) return plain(raw);
  switch (type) {
    case 'strong': case 'em': case 'del': return {type, tokens: nested()};
    case 'link': case 'image': return linkOf(token, depth);
    case 'codespan': return {type, text: token.text};
    case 'math': return mathOf(token);
    case 'br': return {type};
    case 'escape': return plain(escaped.test(raw) ? raw.slice(1) : raw);
    case 'text': return token.tokens ? {type, tokens: nested()} : {type, raw};
    default: return plain(raw);
  }
}

/// The inline tokens of a block; `raw` is its source.
function runOf(tokens, raw, depth) {
  if (raw.length > runMax) return [plain(raw)];
  const run = tokens.map(token => inlineOf(token, depth + 1));
  return keeps(raw, run) ? run : [plain(raw)];
}

/// An item of a list; its mark is what stands before it.
function itemOf({raw, task, checked, tokens}, depth) {
  take();
  const number = /^\s*(\d{1,9})[.)]/.exec(raw);
  const mark = (number ? number[1] : '') + (checked ? ' x' : '');
  return {task, checked, mark, tokens: blocksOf(tokens, depth + 1)};
}

function cellOf({text, tokens}, depth) {
  take();
  return runOf(tokens, text, depth);
}

/// A program. While it grows it has no colours, so that what was read is not read again.
function codeOf({lang, text, raw}, grows) {
  const language = decode(lang || '');
  const isOpen = grows && !/\n {0,3}[`~]{3,}\s*$/.test(raw);
  const parts = isOpen ? null : colouredOf(text, language.split(/[\s,{:]/)[0].toLowerCase());
  return {type: 'code', lang: language, ...(parts ? {parts} : {}), text};
}

/// null for what shows nothing. `grows`: more of it may come.
function blockOf(token, depth, grows) {
  take();
  const {type, raw} = token;
  if (depth >= depthMax) return plain(raw);
  switch (type) {
    case 'space': return null;
    case 'hr': return {type};
    case 'code': return codeOf(token, grows);
    case 'math': return mathOf(token);
    case 'heading': return {type, depth: token.depth, tokens: runOf(token.tokens, raw, depth)};
    case 'paragraph': return {type, tokens: runOf(token.tokens, raw, depth)};
    case 'text': {
      const tokens = runOf(token.tokens || [{type, raw}], raw, depth);
      return {type: depth ? type : 'paragraph', tokens};
    }
    case 'blockquote': return {type, tokens: blocksOf(token.tokens, depth + 1, grows)};
    case 'list': {
      const {ordered, start, items} = token;
      return {type, ordered, start, items: items.map(item => itemOf(item, depth))};
    }
    case 'table': {
      const rowOf = cells => cells.map(cell => cellOf(cell, depth));
      return {type, align: token.align, header: rowOf(token.header), rows: token.rows.map(rowOf)};
    }
    default: return plain(raw.trimEnd());
  }
}

function blocksOf(tokens, depth, grows) {
  return tokens.map((token, i) => {
    const block = blockOf(token, depth, grows && i === tokens.length - 1);
    return block && !keeps(token.raw, [block]) ? plain(token.raw.trimEnd()) : block;
  }).filter(Boolean);
}

/// Whether marked would need memory out of all proportion to the text.
function isBomb(text) {
  if (tooDeep.test(text)) return true;
  const lines = text.split('\n');
  let most = 0;
  for (const line of lines) most = Math.max(most, line.split('|').length);
  return most * lines.length > cellsMax;
}

let links = Object.create(null);  // what the pieces of this answer so far define

/// The blocks of a piece as JSON, each by itself, or {plain}. A piece that is not whole defines nothing for
/// others.
function read(text, whole) {
  if (isBomb(text)) return {plain: true};
  const lexer = new marked.Lexer({...marked.defaults, gfm: true, mangle: false});
  const known = Object.keys(links).length;
  lexer.tokens.links = whole ? links : Object.assign(Object.create(null), links);
  const tokens = lexer.lex(text), defines = Object.keys(lexer.tokens.links).length > known;
  left = tokensMax;
  nodesLeft = nodesMax;
  isWhole = whole;
  coloursLeft = coloursMax;
  try {
    return {defines, blocks: blocksOf(tokens, 0, !whole).map(block => JSON.stringify(block))};
  } catch (e) {
    if (e instanceof TooMany) return {defines, plain: true};
    throw e;
  }
}

onmessage = ({data}) => {
  if (data.begins) {
    links = Object.create(null);
    finishing = 0;
    answerLeft = answerNodesMax;
  }
  const begin = performance.now();
  try {
    const told = read(data.text, data.whole);
    postMessage({...told, took: performance.now() - begin});  // the page may be late to hear of it
  } catch {
    postMessage({failed: true});  // marked is in a state that nobody knows
  }
};

postMessage({ready: true});
