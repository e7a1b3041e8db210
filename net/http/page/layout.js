// The frame of the page: panels that fold, a log that follows what is written, a composer that grows.

const log = $('log');
const follow = change => {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
};
// What is near the end gets its real height only when it is laid out: until nothing moves any more the end is
// gone to again, unless its user scrolls.
let settling = 0;
function goToEnd() {
  settling = 30;
  settle();
}
function settle() {
  if (!settling) return;
  --settling;
  if (log.scrollHeight - log.scrollTop - log.clientHeight > 1) log.scrollTop = log.scrollHeight;
  requestAnimationFrame(settle);
}
for (const kind of ['wheel', 'touchstart', 'pointerdown', 'keydown']) {
  log.addEventListener(kind, () => { settling = 0; }, {passive: true});
}
log.addEventListener('scroll', () => {
  $('to-end').hidden = log.scrollHeight - log.scrollTop - log.clientHeight < 200;
}, {passive: true});
$('to-end').addEventListener('click', () => { goToEnd(); $('input').focus(); });

for (const node of document.querySelectorAll('[data-icon]')) node.prepend(icon(node.dataset.icon));

// A panel that covers the conversation is closed by Escape, by a click beside it, and when something was
// chosen in it; one that stands beside it stays.
const covers = {list: matchMedia('(max-width: 60rem)'), panel: matchMedia('(max-width: 82rem)')};
const panels = {list: $('show-list'), panel: $('show-panel')};
const isOpen = name => document.body.dataset[name] === 'open';
const isCover = name => covers[name].matches;
const covering = () => Object.keys(panels).find(name => isOpen(name) && isCover(name));

function setPanel(name, open) {
  document.body.dataset[name] = open ? 'open' : 'shut';
  panels[name].setAttribute('aria-expanded', String(open));
  $(name).inert = !open;
  if (open && isCover(name)) {
    for (const other of Object.keys(panels))
      if (other !== name && isOpen(other) && isCover(other)) setPanel(other, false);
  }
  $('shade').hidden = !covering();
  document.querySelector('main').inert = Boolean(covering());
  settings.keepLayout();
}
function closeCover() {
  const name = covering();
  if (!name) return false;
  setPanel(name, false);
  panels[name].focus();
  return true;
}
function beginLayout(kept) {
  for (const [name, button] of Object.entries(panels)) {
    button.addEventListener('click', () => {
      setPanel(name, !isOpen(name));
      if (isOpen(name) && isCover(name)) $(name).focus();
    });
    // What stood beside the conversation must not cover it when the window gets narrow.
    covers[name].addEventListener('change', () => setPanel(name, !isCover(name) && kept[name] !== false));
    setPanel(name, !isCover(name) && kept[name] !== false);
  }
  // Where there is room, nothing has to be opened to see the state.
  $('state').open = !isCover('panel');
  $('shade').addEventListener('click', closeCover);
  for (const button of document.querySelectorAll('[data-close]'))
    button.addEventListener('click', closeCover);
}

/// A field as high as its text, up to a limit that the style says.
function growField(field) {
  field.style.height = 'auto';
  field.style.height = field.scrollHeight + 2 + 'px';
}

/// Says text to screen readers while it is written: whole sentences, and not more often than they can be
/// read.
class Speech {
  constructor(box, pause) {
    this.box = box;
    this.pause = pause;
    this.text = '';
    this.timer = 0;
  }
  add(text) {
    this.text += text;
    if (!this.timer) this.timer = setTimeout(() => this.say(false), this.pause);
  }
  /// All that is left.
  finish() {
    clearTimeout(this.timer);
    this.say(true);
  }
  say(all) {
    this.timer = 0;
    const end = all ?
      this.text.length :
      Math.max(...['. ', '! ', '? ', ': ', '\n'].map(mark => this.text.lastIndexOf(mark) + 1));
    const said = this.text.slice(0, end).trim();
    this.text = this.text.slice(end);
    if (said) this.box.append(make('p', '', said.slice(0, 2000)));
    while (this.box.children.length > 8) this.box.firstChild.remove();
    if (this.text && !all) this.timer = setTimeout(() => this.say(false), this.pause);
  }
}
const speech = new Speech($('spoken'), 1500);

async function copyAndSay(button, act) {
  let done = true;
  try { await act(); } catch { done = false; }
  const label = button.getAttribute('aria-label');
  const said = done ? 'Copied' : 'Not copied';
  button.title = said;
  button.setAttribute('aria-label', said);
  button.classList.toggle('done', done);
  setTimeout(() => {
    button.title = label;
    button.setAttribute('aria-label', label);
    button.classList.remove('done');
  }, 2000);
}
/// Copies text, and the same as HTML where `html` is given and the browser can.
async function copyPlain(text, html) {
  try {
    if (html && window.ClipboardItem) {
      const item = {
        'text/plain': new Blob([text], {type: 'text/plain'}),
        'text/html': new Blob([html], {type: 'text/html'})
      };
      await navigator.clipboard.write([new ClipboardItem(item)]);
    } else {
      await navigator.clipboard.writeText(text);
    }
  } catch {
    // Without TLS a browser has no clipboard for a page, but tells it when something is copied.
    const fill = event => {
      event.clipboardData.setData('text/plain', text);
      if (html) event.clipboardData.setData('text/html', html);
      event.preventDefault();
    };
    document.addEventListener('copy', fill, {once: true});
    const done = document.execCommand('copy');
    document.removeEventListener('copy', fill);
    if (!done) throw new Error('not copied');
  }
}
