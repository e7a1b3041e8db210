// Colours of programs, by highlight.js. Part of the Worker that reads Markdown. Its markup becomes plain data:
// texts, and [class, ...parts].

const colouredMax = 20000;      // characters of a program that is coloured
const colouredLineMax = 500;    // characters of a line of it
const colourPartsMax = 4000;    // parts of a program with a colour, and
const coloursMax = 8000;        // of all programs of a piece

let coloursLeft = 0;
const coloured = new Map();  // what need not be read again when the piece that has it has grown

if (typeof hljs !== 'undefined') {
  // It would tell the console that there is a later version; this one is looked after by Debian.
  hljs.configure({hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: true});
}

/// The parts that highlight.js's markup says: nothing but spans with a class, and three entities.
function partsOf(markup) {
  const top = [''], open = [top];
  for (const [said, name] of markup.matchAll(/<span class="([^"]*)">|<\/span>|[^<]+/g)) {
    const into = open[open.length - 1];
    if (said === '</span>') {
      open.pop();
    } else if (name !== undefined) {
      const part = [name];
      into.push(part);
      open.push(part);
    } else {
      into.push(said.replace(/&(lt|gt|amp|quot|#x27);/g, (all, which) =>
        ({lt: '<', gt: '>', amp: '&', quot: '"', '#x27': "'"})[which]));
    }
  }
  return top.slice(1);
}

const textOf = parts => parts.map(part => typeof part === 'string' ? part : textOf(part.slice(1))).join('');

/// The coloured parts of a program, or null where it stays as it is: in a language that is not known, too
/// long, or not what highlight.js gave back.
function colouredOf(text, language) {
  if (typeof hljs === 'undefined' || text.length > colouredMax || !hljs.getLanguage(language)) return null;
  if (text.split('\n').some(line => line.length > colouredLineMax)) return null;
  const key = language + '\n' + text;
  if (!coloured.has(key)) {
    if (coloured.size >= keptMax) coloured.clear();
    const markup = inTime(() => hljs.highlight(language, text, true).value);
    if (!markup) return null;
    const spans = markup.split('<span').length - 1, parts = spans > colourPartsMax ? null : partsOf(markup);
    coloured.set(key, {spans, parts: parts && textOf(parts) === text ? parts : null});
  }
  const {spans, parts} = coloured.get(key);
  return (coloursLeft -= spans) < 0 ? null : parts;
}
