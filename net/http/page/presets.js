// System prompts that are kept by a name.

class Presets {
  constructor() {
    this.all = [];
    $('presets').addEventListener('change', () => this.use());
    $('preset-form').addEventListener('submit', event => {
      event.preventDefault();
      this.add();
    });
    $('preset-remove').addEventListener('click', () => this.remove());
  }
  async load() {
    this.all = (await store.one('settings', 'presets'))?.values || [];
    this.show();
  }
  keep() {
    if (!isPrivate()) store.write('', {settings: {put: [{name: 'presets', values: this.all}]}});
  }
  show() {
    $('presets').replaceChildren(
      new Option(this.all.length ? 'choose a kept prompt' : 'no prompt is kept yet', ''),
      ...this.all.map(({name}) => new Option(name, name)));
    $('preset-remove').hidden = !this.all.some(p => p.name === $('presets').value);
  }
  use() {
    const preset = this.all.find(p => p.name === $('presets').value);
    $('preset-remove').hidden = !preset;
    if (!preset) return;
    $('system').value = preset.text;
    settings.keep();
  }
  add() {
    const name = $('preset-name').value.trim(), text = $('system').value;
    if (!name || !text.trim()) return $(name ? 'system' : 'preset-name').focus();
    this.all = [...this.all.filter(p => p.name !== name), {name, text}].sort(
      (a, b) => a.name.localeCompare(b.name));
    $('preset-name').value = '';
    this.show();
    $('presets').value = name;
    $('preset-remove').hidden = false;
    this.keep();
  }
  remove() {
    const kept = this.all, name = $('presets').value;
    this.all = kept.filter(p => p.name !== name);
    this.show();
    this.keep();
    showNotice(`The prompt \u201c${name}\u201d was deleted.`, 'Undo', () => {
      this.all = kept;
      this.show();
      this.keep();
    });
  }
}
const presets = new Presets();
