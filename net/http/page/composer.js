// Where a message is written: a field that grows, its draft, what is attached, and how much of the context is
// used.

const attachedMax = 1024 * 1024;  // bytes of a text that is attached; longer bodies are refused as a rule

class Composer {
  constructor() {
    this.field = $('input');
    this.attached = [];     // {name, text}, or media
    this.modalities = {};   // what the model takes, as /props says
    this.onDraft = () => {};
    this.timer = 0;
    this.field.addEventListener('input', () => {
      growField(this.field);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.onDraft(this.field.value), 300);
    });
    $('attach').addEventListener('click', () => $('attach-file').click());
    $('attach-file').addEventListener('change', () => {
      this.attach([...$('attach-file').files]);
      $('attach-file').value = '';
    });
    this.field.addEventListener('paste', event => {
      const files = [...event.clipboardData.files];
      if (!files.length) return;
      event.preventDefault();
      this.attach(files);
    });
    const composer = $('composer');
    document.addEventListener('dragover', event => {
      if (![...event.dataTransfer.types].includes('Files')) return;
      event.preventDefault();
      composer.classList.add('dropping');
    });
    document.addEventListener('dragleave', event => {
      if (!event.relatedTarget) composer.classList.remove('dropping');
    });
    document.addEventListener('drop', event => {
      composer.classList.remove('dropping');
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.attach([...event.dataTransfer.files]);
    });
  }
  /// The draft's end: what is not written yet is written now.
  flush() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = 0;
    this.onDraft(this.field.value);
  }
  fill(text) {
    clearTimeout(this.timer);
    this.timer = 0;
    this.field.value = text;
    growField(this.field);
  }
  async attach(files) {
    for (const file of files) {
      const head = new Uint8Array(await file.slice(0, 12).arrayBuffer()), type = mediumType(head, file.type);
      const kind = type ? mediaTypes[type] : file.type.split('/')[0];
      if (mediaKinds[kind]) {
        await this.attachMedium(file, type, mediaKinds[kind]);
      } else if (file.size > attachedMax) {
        showNotice(`${file.name} is too long to be attached: ${
          (file.size / attachedMax).toFixed(1)} MiB of at most 1.`);
      } else {
        await this.attachText(file);
      }
    }
    this.showAttached();
    this.field.focus();
  }
  async attachMedium(file, type, {taken, name, files}) {
    if (!settings.known) await settings.loadDefaults();
    if (!this.modalities[taken]) return showNotice(`This model takes no ${name}: ${file.name}`);
    if (!type) return showNotice(`${file.name} cannot be sent: ${name} are ${files} files.`);
    if (file.size > mediumMax) {
      return showNotice(
        `${file.name} is too long to be attached: ${(file.size / 1048576).toFixed(1)} MiB of at most 20.`);
    }
    this.attached.push(await readMedium(file, type));
  }
  async attachText(file) {
    try {
      const text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
      if (text.includes('\0')) throw new Error();
      this.attached.push({name: file.name, text});
    } catch {
      showNotice(`${file.name} is no text, and can be nothing else here.`);
    }
  }
  showAttached() {
    $('attached').replaceChildren(...this.attached.map(one => {
      const chip = make('span', 'chip', one.data ? one.name : `${one.name}, ${count(one.text.length)} characters`);
      if (one.data && mediaTypes[one.type] === 'image') chip.prepend(showMedium(one));
      chip.append(iconButton('close', 'Leave out ' + one.name, () => {
        this.attached = this.attached.filter(other => other !== one);
        this.showAttached();
      }));
      return chip;
    }));
  }
  /// What is sent: attached texts as fenced blocks, and then what was written.
  text() {
    const blocks = this.attached.filter(one => !one.data).map(({name, text}) => {
      let fence = '```';
      while (text.includes(fence)) fence += '`';
      return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}\n\n`;
    });
    return blocks.join('') + this.field.value;
  }
  media() { return this.attached.filter(one => one.data); }
  clear() {
    this.fill('');
    this.attached = [];
    this.showAttached();
  }
  showContext(used, all) {
    const meter = $('context');
    meter.hidden = !all || !used;
    if (meter.hidden) return;
    meter.textContent = `${count(used)} of ${count(all)} tokens of context`;
    meter.classList.toggle('full', used > 0.9 * all);
  }
}
const composer = new Composer();
