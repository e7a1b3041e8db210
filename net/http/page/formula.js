// Formulas as elements. KaTeX ran in the Worker that reads Markdown; what it made comes as plain data and
// becomes elements here, of a fixed list and with fixed properties: a policy without unsafe-inline allows no
// style in markup, and nobody has to trust what came.

const formulaTags = {span: document.createElement.bind(document, 'span')};
const formulaSpace = (name, tags) => {
  for (const tag of tags.split(' ')) formulaTags[tag] = () => document.createElementNS(name, tag);
};
formulaSpace('http' + '://www.w3.org/2000/svg', 'svg path line');
formulaSpace('http' + '://www.w3.org/1998/Math/MathML',
      'math semantics annotation mrow mi mo mn ms mtext mspace mfrac msqrt mroot msub msup msubsup munder ' +
      'mover munderover mmultiscripts mtable mtr mlabeledtr mtd mstyle mpadded mphantom menclose merror');
const formulaAttributes = new Set(
  ('aria-hidden encoding display mathvariant stretchy fence separator lspace rspace minsize maxsize width ' +
   'height depth voffset linethickness columnalign columnspacing rowspacing columnlines rowlines displaystyle ' +
   'scriptlevel notation accent accentunder movablelimits form side symmetric largeop viewBox ' +
   'preserveAspectRatio d x1 x2 y1 y2 stroke-width').split(' '));
// No colours: what has that of the page's ground could not be read.
const formulaStyles = new Set(
  ('height width minWidth top left right bottom verticalAlign position marginLeft marginRight marginTop ' +
   'marginBottom paddingLeft paddingRight paddingTop paddingBottom borderStyle borderWidth borderTopWidth ' +
   'borderBottomWidth borderLeftWidth borderRightWidth borderRightStyle borderBottomStyle').split(' '));
const formulaLength = /^(?:-?\d{0,6}(?:\.\d{0,9})?(?:e-\d\d?)?(?:em|ex|px|pt|%)?|relative|solid|dashed|baseline)$/;

function formulaPart(part) {
  if (typeof part === 'string') return document.createTextNode(part);
  const [tag, name, style, attributes, ...children] = part;
  if (!Object.hasOwn(formulaTags, tag)) throw new Error('no element of a formula: ' + tag);
  const node = formulaTags[tag]();
  if (name) node.setAttribute('class', name);
  for (const [key, value] of Object.entries(style)) {
    if (formulaStyles.has(key) && formulaLength.test(value)) node.style[key] = value;
  }
  for (const [key, value] of Object.entries(attributes)) {
    if (formulaAttributes.has(key) && /^[\w\s.,%+*/-]*$/.test(value)) node.setAttribute(key, value);
  }
  node.append(...children.map(formulaPart));
  return node;
}

/// KaTeX's style sheet and fonts, which wait as text in the page until there is a formula. A sheet that a
/// script makes is none of the markup that the policy is about; its fonts are in it.
let formulaSheet = null;
function wantFormulaSheet() {
  if (formulaSheet) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync($('formula-sheet').textContent);
  document.adoptedStyleSheets.push(sheet);
  formulaSheet = sheet;
}

/// A formula; what it was made of is its title, and what is copied of it.
function formulaOf({raw, display, tree}) {
  const node = make('span', display ? 'formula display' : 'formula');
  try {
    wantFormulaSheet();
    node.append(formulaPart(tree));
    node.title = raw;
    if (display && raw.length > 40) node.tabIndex = 0;  // a long one scrolls, by keyboard too
  } catch {
    node.replaceChildren(raw);  // of an older browser, or nothing that KaTeX makes
  }
  return node;
}

/// The text of what is selected, with the source of each formula that is a part of it.
function copiedText(selection) {
  const parts = selection.getRangeAt(0).cloneContents();
  for (const formula of parts.querySelectorAll('.formula')) {
    if (formula.title) formula.replaceChildren(formula.title);
  }
  for (const button of parts.querySelectorAll('button')) button.remove();
  const box = make('div', 'answer copied');
  box.append(parts);
  document.body.append(box);  // only what is laid out has lines
  const text = box.innerText;
  box.remove();
  return text;
}
document.addEventListener('copy', event => {
  const selection = document.getSelection();
  if (!selection.rangeCount || !selection.getRangeAt(0).cloneContents().querySelector('.formula')) return;
  event.clipboardData.setData('text/plain', copiedText(selection));
  event.preventDefault();
});
