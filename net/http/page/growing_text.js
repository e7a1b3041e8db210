// Text that grows piece by piece. Each piece costs what is new, not what was there before.

const pauseMin = 40;       // milliseconds between two changes of what is shown,
const pauseMax = 500;
const pauseShare = 4;      // or, between these, this many times what the change before took
const chunkLength = 4000;  // characters of plain text that are laid out together

/// Calls `act` some time after `wake`, never twice at once, and as seldom as it is slow.
class Later {
  constructor(act) {
    this.act = act;
    this.timer = 0;
    this.lasted = 0;
    this.acting = null;
    this.wanted = false;
  }
  wake() {
    this.wanted = true;
    if (this.timer || this.acting) return;
    const pause = Math.min(Math.max(pauseMin, pauseShare * this.lasted), pauseMax);
    this.timer = setTimeout(() => this.now(), pause);
  }
  async now() {
    while (this.acting) await this.acting;
    clearTimeout(this.timer);
    this.timer = 0;
    this.wanted = false;
    this.acting = this.once();
    await this.acting;
    this.acting = null;
    if (this.wanted) this.wake();
  }
  async once() {
    const begin = performance.now();
    await this.act();
    this.lasted = performance.now() - begin;
  }
}

/// Text as it is, in small boxes, of which only the last one is laid out again when text comes.
class PlainText {
  constructor(box) {
    this.box = box;
    this.node = null;
  }
  append(text) {
    while (text) {
      if (!this.node) {
        const chunk = make('div', 'text');
        this.node = document.createTextNode('');
        chunk.append(this.node);
        this.box.append(chunk);
      }
      const cut = this.endOfChunk(text);
      this.node.appendData(cut < 0 ? text : text.slice(0, cut));
      if (cut < 0) return;
      text = text.slice(cut);
      this.node = null;
    }
  }
  /// Where in `text` the present chunk ends, or -1: after a line or, where none ends in time, after a word.
  endOfChunk(text) {
    const wanted = chunkLength - this.node.length, room = wanted + chunkLength;
    const head = text.slice(0, room), line = head.indexOf('\n', Math.max(0, wanted - 1));
    if (line >= 0) return line + 1;
    if (head.length < room) return -1;
    const space = head.lastIndexOf(' ');
    if (space >= 0) return space + 1;
    const halvesPair = /[\ud800-\udbff]$/.test(head);
    return room - (halvesPair ? 1 : 0);
  }
}

/// Plain text of which much may come at once: what came is shown together, now and then.
class GrowingText {
  constructor(box) {
    this.plain = new PlainText(box);
    this.waiting = '';
    this.later = new Later(() => follow(() => this.show()));
  }
  append(text) {
    this.waiting += text;
    this.later.wake();
  }
  show() {
    this.plain.append(this.waiting);
    this.waiting = '';
  }
  finish() {
    return this.later.now();
  }
}
