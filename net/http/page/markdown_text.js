// An answer that grows, shown as Markdown. It is cut into pieces that are read one by one in a Worker
// (markdown_reader.js); a piece that is complete is read once. Where there is no Worker, it fails or takes
// too long, or an answer is too long, the text from there on is shown as it is.

let readingMax = 3000;        // milliseconds in which an answer must be read,
const readingShare = 0.25;    // and this part of the time that it takes to come
const patience = 250;         // milliseconds after which a text is shown as it is until it has been read
const markdownMax = 200000;   // characters of an answer that are read
const pieceMin = 2000;        // characters of a piece, where the text goes on,
const formulaWeight = 100;    // and each mark of a formula counts as so many more
const pieceMax = 65536;
const sliceMax = 20000;       // characters that tell of blocks which are made without a pause, or of one block

/// The address of the reader's source, or null where it cannot be had. This is the one address of a script
/// that the page's Trusted Types allow, and it is made before anything else has come into the page.
const readerSource = (() => {
  const source = $('reader').textContent;
  if (!source.trim()) return null;
  try {
    const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
    if (!window.trustedTypes) return address;
    return trustedTypes.createPolicy('reader', {createScriptURL: () => address}).createScriptURL('');
  } catch {
    return null;
  }
})();

// Workers are few and are lent: to start one, with all its libraries, costs more than to read most answers.
const workersMax = 3;      // at a time; an answer that gets none waits, and is shown as it is until then
const idleMax = 1;         // that wait for the next answer
const startMax = 20000;    // milliseconds in which one must have started
const workers = {idle: [], made: 0, waiting: []};

function startWorker() {
  return new Promise((resolve, reject) => {
    const worker = new Worker(readerSource);
    const timer = setTimeout(() => worker.onerror(new Event('error')), startMax);
    worker.onmessage = () => {
      clearTimeout(timer);
      resolve(worker);
    };
    worker.onerror = event => {
      event.preventDefault();
      clearTimeout(timer);
      worker.terminate();
      reject(new Error('there is no reader'));
    };
  });
}

async function lendWorker() {
  if (workers.idle.length) return workers.idle.pop();
  if (workers.made >= workersMax) return new Promise(resolve => workers.waiting.push(resolve));
  ++workers.made;
  try {
    return await startWorker();
  } catch (e) {
    workerIsGone();
    throw e;
  }
}

function workerIsGone() {
  --workers.made;
  if (workers.waiting.length) workers.waiting.shift()(lendWorker());
}

function giveBack(worker) {
  if (workers.waiting.length) return workers.waiting.shift()(worker);
  if (workers.idle.length < idleMax) return workers.idle.push(worker);
  worker.terminate();
  workerIsGone();
}

/// Reads the pieces of one answer in their order, by a Worker that it has for itself from the first one on.
class MarkdownReader {
  constructor() {
    this.worker = null;
    this.begun = 0;
    this.spent = 0;
    this.failed = false;
  }
  /// What markdown_reader.js answers; fails when the Worker does or when the time of this answer is over.
  async read(text, whole) {
    const begins = !this.worker;
    if (begins) {
      this.worker = await lendWorker();
      this.begun = performance.now();
    }
    try {
      return await this.ask({text, whole, begins});
    } catch (e) {
      this.failed = true;
      throw e;
    }
  }
  ask(message) {
    const begin = performance.now(), {worker} = this;
    return new Promise((resolve, reject) => {
      const left = readingMax + (begin - this.begun) * readingShare - this.spent;
      const timer = setTimeout(() => reject(new Error('it takes too long')), Math.max(left, 0));
      worker.onerror = event => {
        event.preventDefault();
        reject(new Error('it cannot be read'));
      };
      worker.onmessage = ({data}) => {
        clearTimeout(timer);
        this.spent += data.took;
        data.failed ? reject(new Error('it cannot be read')) : resolve(data);
      };
      worker.postMessage(message);
    });
  }
  end() {
    const {worker} = this;
    this.worker = null;
    if (!worker) return;
    if (!this.failed) return giveBack(worker);
    worker.terminate();
    workerIsGone();
  }
}

const listMark = /^ {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)/;
const fenceMark = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const htmlMark = /^ {0,3}<(?:(script|pre|style|textarea)[\s>]|!--)/i;

/// For a line that begins what may go on over empty lines: says of a line whether it ends there. Else null.
function endOf(line) {
  const fence = fenceMark.exec(line);
  if (fence) {
    return other => {
      const marks = /^ {0,3}([`~]{3,}) *$/.exec(other);
      return marks !== null && marks[1].startsWith(fence[1]);
    };
  }
  const html = htmlMark.exec(line);
  if (!html) return null;
  const end = html[1] ? '</' + html[1].toLowerCase() + '>' : '-->';
  const ends = other => other.toLowerCase().includes(end);
  return ends(line) ? null : ends;
}

/// Cuts a text that grows into pieces that mean the same when they are read one by one: before lines that
/// follow an empty one, are not indented, and go on with nothing that began before (list, code, comment).
class Pieces {
  constructor() {
    this.from = 0;         // where the piece begins that is not complete
    this.line = 0;         // the first line that was not looked at
    this.marks = 0;        // of formulas, in the piece so far
    this.searched = 0;     // up to here it has no end
    this.ends = null;      // what the line before began
    this.empty = false;    // the line before is empty
    this.list = false;     // a list may go on
  }
  /// The next piece of `source` as {from, to, whole}, or null. One that is not whole goes on with what comes.
  next(source, ended) {
    for (;;) {
      const end = source.indexOf('\n', Math.max(this.line, this.searched));
      if (end < 0) break;
      const at = this.line, line = source.slice(at, end);
      const weight = at - this.from + formulaWeight * this.marks;
      this.line = end + 1;
      const begins = this.mayBegin(line) && weight >= pieceMin;
      if (begins) this.marks = 0;
      this.marks += (line.match(/\\[([]|\$|\\begin\{/g) || []).length;
      if (!begins) continue;
      const from = this.from;
      this.from = at;
      return {from, to: at, whole: true};
    }
    this.searched = source.length;
    const from = this.from;
    if (from === source.length) return null;
    if (ended) this.from = this.line = source.length;
    return {from, to: source.length, whole: ended};
  }
  /// Whether a piece may begin with this line, the next one.
  mayBegin(line) {
    if (this.ends) {
      if (this.ends(line)) this.ends = null;
      return false;
    }
    const followsEmpty = this.empty;
    this.empty = !line.trim();
    if (this.empty) return false;
    this.ends = endOf(line);
    const indented = /^[ \t]/.test(line), marked = listMark.test(line), goesOn = marked && this.list;
    if (marked) {
      this.list = true;
    } else if (followsEmpty && !indented) {
      this.list = false;
    }
    return followsEmpty && !indented && !goesOn;
  }
}

/// A piece on the page. Blocks that did not change are left as they are.
class Section {
  constructor() {
    this.box = make('div');
    this.blocks = [];
  }
  /// Done when all is shown; what is much is shown part by part, the first after `before`.
  async show(text, {blocks, plain}, before = () => {}) {
    const told = plain ? [JSON.stringify({type: 'plain', raw: text})] : blocks;
    let same = 0;
    while (same < this.blocks.length && this.blocks[same].told === told[same]) ++same;
    follow(() => {
      before();
      for (const old of this.blocks.splice(same)) old.node.remove();
      same = this.add(told, same);
    });
    while (same < told.length) {
      await new Promise(wake => setTimeout(wake, 0));
      follow(() => { same = this.add(told, same); });
    }
  }
  /// Makes blocks from that one on, for a short time; the first one that is left.
  add(told, from) {
    let at = from;
    for (let made = 0; at < told.length && (at === from || made + told[at].length <= sliceMax); ++at) {
      const node = elementOf(JSON.parse(told[at]));
      this.box.append(node);
      this.blocks.push({told: told[at], node});
      made += told[at].length;
    }
    return at;
  }
}

class MarkdownText {
  constructor(box) {
    this.box = box;
    this.box.source = '';
    this.ended = false;
    this.later = new Later(() => this.read());
    this.pieces = new Pieces();
    this.open = null;       // the section of the piece that is not complete
    this.complete = 0;      // characters before it
    this.seen = 0;          // characters that sections show
    this.early = null;      // what comes after them, as it is, where reading it takes long
    this.timer = 0;         // until then
    this.linking = [];      // complete sections that a definition of a link may change, and what they are of
    this.defines = false;   // there was a definition
    this.rest = null;       // what is not read any more
    this.reader = readerSource ? new MarkdownReader() : null;
    if (!this.reader) this.giveUp();
  }
  append(text) {
    this.box.source += text;
    if (this.rest) return this.rest.append(text);
    this.early ? this.early.append(text) : this.expect();
    this.later.wake();
  }
  /// Done when all of the text is shown.
  async finish() {
    this.ended = true;
    if (!this.rest) await this.later.now();
    if (!this.rest && this.defines) await this.readAgain();
    if (this.rest) await this.rest.finish();
    if (this.reader) this.reader.end();
  }
  async read() {
    while (!this.rest) {
      const piece = this.pieces.next(this.box.source, this.ended);
      if (!piece) return;
      if (piece.to - piece.from > pieceMax || piece.to > markdownMax) return this.giveUp();
      const text = this.box.source.slice(piece.from, piece.to);
      try {
        const told = await this.reader.read(text, piece.whole);
        await this.show(piece, text, told);
      } catch {
        return this.giveUp();
      }
      if (!piece.whole) return;
    }
  }
  async show({to, whole}, text, told) {
    this.seen = to;
    if (!this.open) this.open = new Section();
    await this.open.show(text, told, () => {
      this.dropEarly();
      if (!this.open.box.parentNode) this.box.append(this.open.box);
    });
    if (to < this.box.source.length) this.expect();
    if (!whole) return;
    this.defines = this.defines || told.defines;
    if (text.includes('[')) this.linking.push({section: this.open, text});
    this.complete = to;
    this.open = null;
  }
  /// A definition of a link may come after its use.
  async readAgain() {
    try {
      for (const {section, text} of this.linking) {
        const told = await this.reader.read(text, true);
        await section.show(text, told);
      }
    } catch {
      // What could be read in time is shown.
    }
  }
  expect() {
    if (this.timer) return;
    this.timer = setTimeout(() => follow(() => { this.early = this.plainFrom(this.seen); }), patience);
  }
  dropEarly() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.early) this.early.plain.box.remove();
    this.early = null;
  }
  giveUp() {
    if (this.reader) this.reader.end();
    this.reader = null;
    follow(() => {
      this.dropEarly();
      if (this.open) this.open.box.remove();
      this.rest = this.plainFrom(this.complete);
    });
  }
  plainFrom(at) {
    const box = make('div', 'source'), text = new GrowingText(box);
    this.box.append(box);
    text.append(this.box.source.slice(at));
    text.show();
    return text;
  }
}
