// Markdown as elements. The library marked (markedjs/marked on GitHub) only reads the text; what is shown is
// made here from a fixed set of elements and text nodes, so that nothing a model says becomes markup or script.
// Where marked is not in the page, fails or takes too long, a text is shown as it is.

const depthMax = 32;                 // what is nested deeper is shown as its source
const markdownMax = 200000;          // characters; a longer answer is shown as it is
const slowParse = 250;               // milliseconds

const entities = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0'};
const decode = text => text.replace(
  /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/gi, (all, decimal, hex, name) => {
    if (name) return entities[name.toLowerCase()];
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });

/// An absolute address that a browser may be sent to, or null.
function addressOf(href) {
  try {
    const url = new URL(decode(href || ''));
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/// A link, or only its text where the address is none that may be followed.
function linkTo(href, fill) {
  const address = addressOf(href), node = make(address ? 'a' : 'span');
  if (address) {
    node.href = address;
    node.target = '_blank';
    node.rel = 'noopener noreferrer';
    node.title = address;
  }
  fill(node);
  return node;
}

function addInline(into, tokens, depth) {
  for (const token of tokens) {
    const nested = node => addInline(node, token.tokens, depth + 1);
    if (token.tokens && depth >= depthMax) {
      into.append(token.raw);
    } else if (['strong', 'em', 'del'].includes(token.type)) {
      const node = make(token.type);
      nested(node);
      into.append(node);
    } else if (token.type === 'link') {
      into.append(linkTo(token.href, nested));
    } else if (token.type === 'image') {
      // Images are not fetched: their address is something that the model chose.
      const named = '[image: ' + (decode(token.text) || token.href) + ']';
      into.append(linkTo(token.href, node => node.append(named)));
    } else if (token.type === 'codespan') {
      into.append(make('code', '', decode(token.text)));
    } else if (token.type === 'br') {
      into.append(make('br'));
    } else if (token.type === 'escape') {
      into.append(token.raw.slice(1));
    } else if (token.type === 'text') {
      token.tokens ? nested(into) : into.append(decode(token.raw));
    } else {
      into.append(token.raw);
    }
  }
}

async function copyText(text, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // Without TLS a browser has no clipboard for a page, but copies what is selected.
    const box = make('textarea');
    box.value = text;
    document.body.append(box);
    box.select();
    done = document.execCommand('copy');
    box.remove();
    button.focus();
  }
  button.textContent = done ? 'Copied' : 'Not copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
}

function codeBlock(token) {
  const block = make('div', 'code'), bar = make('div', 'code-bar'), copy = make('button', '', 'Copy');
  const text = make('pre'), language = (token.lang || '').split(/\s/)[0];
  copy.type = 'button';
  copy.setAttribute('aria-label', 'Copy code');
  copy.addEventListener('click', () => copyText(token.text, copy));
  bar.append(make('span', '', language || 'code'), copy);
  text.tabIndex = 0;  // long lines scroll, by keyboard too
  text.append(make('code', '', token.text));
  block.append(bar, text);
  return block;
}

function listOf(token, depth) {
  const list = make(token.ordered ? 'ol' : 'ul');
  if (token.ordered && token.start !== 1) list.start = token.start;
  for (const item of token.items) {
    const node = make('li');
    if (item.task) node.append(item.checked ? '\u2611 ' : '\u2610 ');
    addBlocks(node, item.tokens, depth + 1);
    list.append(node);
  }
  return list;
}

function tableOf(token, depth) {
  const box = make('div', 'table'), table = make('table'), head = make('thead'), body = make('tbody');
  const rowOf = (cells, tag) => {
    const row = make('tr');
    cells.forEach((cell, i) => {
      const node = make(tag, token.align[i] || '');
      if (tag === 'th') node.scope = 'col';
      addInline(node, cell.tokens, depth + 1);
      row.append(node);
    });
    return row;
  };
  head.append(rowOf(token.header, 'th'));
  body.append(...token.rows.map(cells => rowOf(cells, 'td')));
  table.append(head, body);
  box.tabIndex = 0;
  box.append(table);
  return box;
}

/// The element of one block; null for what shows nothing.
function blockOf(token, depth) {
  const withInline = node => {
    addInline(node, token.tokens || [], depth + 1);
    return node;
  };
  if (depth >= depthMax) return make('p', 'text', token.raw);
  switch (token.type) {
    case 'space': case 'def': return null;
    case 'hr': return make('hr');
    case 'code': return codeBlock(token);
    case 'list': return listOf(token, depth);
    case 'table': return tableOf(token, depth);
    // The page has levels 1 and 2 of its own.
    case 'heading': return withInline(make('h' + Math.min(token.depth + 2, 6)));
    case 'paragraph': return withInline(make('p'));
    case 'blockquote': {
      const quote = make('blockquote');
      addBlocks(quote, token.tokens, depth + 1);
      return quote;
    }
    default: return make('p', 'text', token.raw.trimEnd());
  }
}

function addBlocks(into, tokens, depth) {
  for (const token of tokens) {
    if (token.type === 'text' && depth < depthMax) {
      addInline(into, token.tokens || [token], depth + 1);
      continue;
    }
    const node = blockOf(token, depth);
    if (node) into.append(node);
  }
}

/// A text that grows, shown as Markdown in `box`. Blocks that did not change are left as they are.
class MarkdownText {
  constructor(box) {
    this.box = box;
    this.box.source = '';
    this.blocks = [];
    this.timer = 0;
    this.lasted = 0;
    this.plain = typeof marked === 'undefined' ? document.createTextNode('') : null;
    if (this.plain) this.showPlain();
  }
  append(text) {
    this.box.source += text;
    if (this.plain) {
      this.plain.appendData(text);
    } else if (!this.timer) {
      this.timer = setTimeout(() => follow(() => this.render()), Math.max(40, 4 * this.lasted));
    }
  }
  finish() {
    if (!this.plain) this.render();
  }
  showPlain() {
    this.plain = document.createTextNode(this.box.source);
    this.box.classList.add('text');
    this.box.replaceChildren(this.plain);
  }
  render() {
    clearTimeout(this.timer);
    this.timer = 0;
    const begin = performance.now();
    try {
      if (this.box.source.length > markdownMax) return this.showPlain();
      const tokens = marked.lexer(this.box.source, {gfm: true, smartypants: false});
      this.show(tokens);
    } catch {
      return this.showPlain();
    }
    this.lasted = performance.now() - begin;
    if (this.lasted > slowParse) this.showPlain();
  }
  show(tokens) {
    // A definition of a link may come after its use.
    const linked = Object.keys(tokens.links || {}).length > 0;
    let same = 0;
    while (!linked && same < this.blocks.length && same < tokens.length &&
           this.blocks[same].raw === tokens[same].raw) ++same;
    for (const old of this.blocks.splice(same)) if (old.node) old.node.remove();
    for (const token of tokens.slice(same)) {
      const node = token.type === 'text' ? make('p') : blockOf(token, 0);
      if (token.type === 'text') addInline(node, token.tokens || [token], 1);
      if (node) this.box.append(node);
      this.blocks.push({raw: token.raw, node});
    }
  }
}
