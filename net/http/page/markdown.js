// Markdown as elements. What a text means is read elsewhere (markdown_reader.js); what is shown is made here
// from a fixed set of elements and text nodes, so that nothing a model says becomes markup or script.

/// A link, or only its text where the address is none that may be followed; its title and label come after it.
function addLink(into, {href, title, label}, fill) {
  const address = addressOf(href), node = make(address ? 'a' : 'span');
  if (address) {
    node.href = address;
    node.target = '_blank';
    node.rel = 'noopener noreferrer';
    node.title = address;
  }
  fill(node);
  into.append(node);
  const said = (title && ' (' + decode(title) + ')') + label;
  if (said) into.append(make('span', 'of-link', said));
}

function addInline(into, tokens) {
  for (const token of tokens) {
    const nested = node => addInline(node, token.tokens);
    if (['strong', 'em', 'del'].includes(token.type)) {
      const node = make(token.type);
      nested(node);
      into.append(node);
    } else if (token.type === 'link') {
      addLink(into, token, nested);
    } else if (token.type === 'image') {
      // Images are not fetched: their address is something that the model chose.
      const named = '[image: ' + (decode(token.text) || token.href) + ']';
      addLink(into, token, node => node.append(named));
    } else if (token.type === 'codespan') {
      into.append(make('code', '', decode(token.text)));
    } else if (token.type === 'br') {
      into.append(make('br'));
    } else if (token.type === 'math') {
      into.append(formulaOf(token));
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

/// Parts of a program that highlight.js told apart (markdown_code.js).
function addColoured(into, parts) {
  for (const part of parts) {
    if (typeof part === 'string') {
      into.append(part);
    } else {
      const node = make('span', /^[\w-]{1,40}$/.test(part[0]) ? part[0] : '');
      addColoured(node, part.slice(1));
      into.append(node);
    }
  }
}

function codeBlock(token) {
  const block = make('div', 'code'), bar = make('div', 'code-bar'), copy = make('button', '', 'Copy');
  const text = make('pre'), program = make('code');
  copy.type = 'button';
  copy.setAttribute('aria-label', 'Copy code');
  copy.addEventListener('click', () => copyText(token.text, copy));
  bar.append(make('span', '', token.lang || 'code'), copy);
  text.tabIndex = 0;  // long lines scroll, by keyboard too
  token.parts ? addColoured(program, token.parts) : program.append(token.text);
  text.append(program);
  block.append(bar, text);
  return block;
}

function listOf(token) {
  const list = make(token.ordered ? 'ol' : 'ul');
  if (token.ordered && token.start !== 1) list.start = token.start;
  // Markdown counts, whatever numbers stand there; all the same means that it shall, and others are kept.
  const numbers = token.items.map(item => parseInt(item.mark, 10));
  const keep = token.ordered && numbers.some(n => n !== numbers[0]);
  token.items.forEach((item, i) => {
    const node = make('li');
    if (keep && numbers[i] !== token.start + i) node.value = numbers[i];
    if (item.task) node.append(item.checked ? '\u2611 ' : '\u2610 ');
    addBlocks(node, item.tokens);
    list.append(node);
  });
  return list;
}

function tableOf(token) {
  const box = make('div', 'table'), table = make('table'), head = make('thead'), body = make('tbody');
  const rowOf = (cells, tag) => {
    const row = make('tr');
    cells.forEach((cell, i) => {
      const node = make(tag, token.align[i] || '');
      if (tag === 'th') node.scope = 'col';
      addInline(node, cell);
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

/// The element of one block.
function elementOf(token) {
  const withInline = node => {
    addInline(node, token.tokens);
    return node;
  };
  switch (token.type) {
    case 'hr': return make('hr');
    case 'code': return codeBlock(token);
    case 'math': return formulaOf(token);
    case 'list': return listOf(token);
    case 'table': return tableOf(token);
    // The page has levels 1 and 2 of its own.
    case 'heading': return withInline(make('h' + Math.min(token.depth + 2, 6)));
    case 'paragraph': return withInline(make('p'));
    case 'blockquote': {
      const quote = make('blockquote');
      addBlocks(quote, token.tokens);
      return quote;
    }
    default: {
      const box = make('div', 'source');
      new PlainText(box).append(token.raw);
      return box;
    }
  }
}

function addBlocks(into, tokens) {
  for (const token of tokens) {
    if (token.type === 'text') {
      addInline(into, token.tokens);
    } else {
      into.append(elementOf(token));
    }
  }
}
