// Nothing that was said is lost: what a block would show is compared with its source. Part of the Worker that
// reads Markdown.

function wordsOf(text) {
  const said = text.includes('&') ? decode(text) : text;
  // For most texts the first does what the second does, in a part of the time.
  return /^[\x00-\x7f]*$/.test(said) ? said.replace(/[^A-Za-z0-9]+/g, '')
                                    : said.replace(/[^\p{L}\p{N}\p{M}\p{So}]+/gu, '');
}

/// What is seen of tokens as they go to the page, in its order; an address is seen by who points at it.
function seenOf(token) {
  const all = tokens => (tokens || []).map(seenOf).join('');
  switch (token.type) {
    case 'plain': case 'math': return token.raw;
    case 'text': return token.tokens ? all(token.tokens) : token.raw;
    case 'codespan': return token.text;
    case 'code': return token.lang + '\n' + token.text;
    case 'link': return all(token.tokens) + ' ' + token.href + ' ' + token.title + token.label;
    case 'image': return token.text + ' ' + token.href + ' ' + token.title + token.label;
    case 'list': return token.items.map(item => item.mark + ' ' + all(item.tokens)).join(' ');
    case 'table': return [token.header, ...token.rows].map(row => row.map(all).join(' ')).join(' ');
    default: return all(token.tokens);
  }
}

/// Whether every letter and digit of `raw` is seen, in its order.
function keeps(raw, tokens) {
  const wanted = wordsOf(raw), seen = wordsOf(tokens.map(seenOf).join(' '));
  if (wanted === seen) return true;
  let at = 0;
  for (let i = 0; i < seen.length && at < wanted.length; ++i) {
    if (seen[i] === wanted[at]) ++at;
  }
  return at === wanted.length;
}
