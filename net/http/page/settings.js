// What is asked of the worker beside the messages. Each wrong value is said at its field before anything is
// sent.

const seedMax = 2 ** 31;  // of those that the page draws, so that they can be read and typed

class Settings {
  constructor() {
    this.fields = settingFields.filter(field => field.id);
    this.defaults = {};
    this.saving = 0;
    this.drawFields();
    $('defaults').addEventListener('click', () => this.reset());
    $('settings').addEventListener('toggle', () => {
      if ($('settings').open && !this.known) this.loadDefaults();
    });
  }
  drawFields() {
    let group = null;
    for (const field of settingFields) {
      if (field.group) {
        group = make('fieldset');
        group.append(make('legend', '', field.group));
        $('fields').append(group);
        continue;
      }
      const row = make('div', 'field field-' + field.kind), label = make('label', '', field.label),
            wrong = make('p', 'wrong');
      field.node = this.inputOf(field);
      field.node.id = label.htmlFor = field.id;
      wrong.id = field.id + '-wrong';
      field.node.setAttribute('aria-describedby', wrong.id);
      field.row = row;
      field.wrong = wrong;
      field.kind === 'switch' ? row.append(field.node, label, wrong) : row.append(label, field.node, wrong);
      group.append(row);
      if (field.id === 'system') group.append($('preset-row'));
      field.node.addEventListener('input', () => this.changed(field));
    }
    this.showDependents();
  }
  inputOf(field) {
    if (field.kind === 'choice') {
      const node = make('select');
      for (const [value, text] of field.choices) node.append(new Option(text, value));
      return node;
    }
    const node = make(field.kind === 'text' ? 'textarea' : 'input');
    if (field.kind === 'text') node.rows = field.rows;
    if (field.kind === 'number')
      node.inputMode = field.least < 0 ? 'text' : field.whole ? 'numeric' : 'decimal';
    if (field.kind === 'switch') { node.type = 'checkbox'; node.checked = field.on; }
    if (field.code || field.kind === 'number') { node.spellcheck = false; node.autocomplete = 'off'; }
    return node;
  }
  field(id) { return this.fields.find(one => one.id === id); }
  value(id) {
    const {node, kind} = this.field(id);
    return kind === 'switch' ? node.checked : node.value;
  }
  changed(field) {
    this.showDependents();
    this.showWrong(field, this.wrongIn(field));
    if (field.id === 'format') this.showWrong(this.field('form'), '');
    this.keep();
  }
  showDependents() {
    const kind = this.value('format');
    this.field('form').row.hidden = kind === '' || kind === 'json';
  }
  showWrong(field, message) {
    field.wrong.textContent = message;
    message ? field.node.setAttribute('aria-invalid', 'true') : field.node.removeAttribute('aria-invalid');
  }
  /// What is wrong with a field's value; '' where nothing is.
  wrongIn(field) {
    if (field.row.hidden) return '';
    const value = field.node.value.trim();
    if (field.kind === 'number') return value === '' ? '' : wrongNumber(field, value);
    if (field.id === 'tools') return value === '' ? '' : wrongTools(value);
    if (field.id === 'more') return value === '' ? '' : wrongObject(value);
    if (field.id === 'stop-texts') return wrongStops(stopTexts(field.node.value));
    if (field.id !== 'form') return '';
    if (!value) return 'what the answer is to follow is missing';
    if (this.value('format') === 'schema') return wrongObject(value);
    return '';
  }
  /// The fields of a request; throws WrongField for the first wrong one, and says all of them at their
  /// places.
  body() {
    let first = null;
    for (const field of this.fields) {
      const message = this.wrongIn(field);
      this.showWrong(field, message);
      if (message && !first) first = new WrongField(field, field.label.replace(/[,(].*/, '').trim(), message);
    }
    if (first) throw first;
    const out = {};
    for (const {id, kind, param, node} of this.fields) {
      if (kind === 'number' && node.value.trim()) out[param] = Number(node.value);
    }
    if (this.value('probabilities')) Object.assign(out, {logprobs: true, top_logprobs: 5});
    const stops = stopTexts($('stop-texts').value);
    if (stops.length) out.stop = stops;
    if ($('tools').value.trim()) out.tools = JSON.parse($('tools').value);
    const form = $('form').value;
    const forms = {
      json: {response_format: {type: 'json_object'}},
      grammar: {guided_grammar: form},
      regex: {guided_regex: form}
    };
    if (this.value('format') === 'schema') {
      out.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: JSON.parse(form)}};
    } else {
      Object.assign(out, forms[this.value('format')]);
    }
    if (this.value('thinking')) out.enable_thinking = this.value('thinking') === 'on';
    if (this.value('effort')) out.reasoning_effort = this.value('effort');
    if (this.value('adapter')) out.model = this.value('adapter');
    // A seed that the page draws is told with the answer, so that any answer can be asked for again.
    if (out.seed === undefined && !this.hasOwnSeed) out.seed = Math.floor(Math.random() * seedMax);
    return $('more').value.trim() ? {...out, ...JSON.parse($('more').value)} : out;
  }
  /// Shows what the worker said of a field at that field. True where there is one.
  blame(param, message) {
    const root = param.split(/[.[]/)[0];
    const field = this.fields.find(one => one.param === root && one.id !== 'format') ||
      this.fields.find(one => one.id === root);
    if (!field || root === 'messages') return false;
    this.showWrong(field.row.hidden ? this.field('format') : field, message);
    return true;
  }
  /// The fields, or null where one is wrong: then that is said, and nothing is to be sent.
  async checked() {
    if (!this.known) await this.loadDefaults();
    try {
      return this.body();
    } catch (e) {
      if (!(e instanceof WrongField)) throw e;
      this.goTo(e.field);
      showProblem(e, {});
      return null;
    }
  }
  goTo(field) {
    setPanel('panel', true);
    $('settings').open = true;
    (field || this.fields.find(one => one.node.hasAttribute('aria-invalid')) || this.fields[0]).node.focus();
  }
  /// The worker's own defaults, which hold where a field is empty. They are asked for when they are needed,
  /// since a worker with keys tells them only with one.
  async loadDefaults() {
    try {
      const props = await fetchJson('props');
      this.showDefaults(props);
      composer.modalities = props.modalities || {};
      this.known = true;
    } catch {
      this.known = false;
    }
  }
  showDefaults(props) {
    this.defaults = (props.default_generation_settings || {}).params || {};
    this.hasOwnSeed = Boolean(this.defaults.seed);
    for (const field of this.fields) {
      if (field.default && this.defaults[field.default] !== undefined)
        field.node.placeholder = 'default ' + this.defaults[field.default];
    }
    $('max-tokens').placeholder = 'what fits';
  }
  showAdapters(names) {
    const {node} = this.field('adapter'), chosen = node.value || this.wantedAdapter || '';
    node.replaceChildren(
      new Option('as the worker is set', ''), ...names.map(name => new Option(name, name)));
    node.value = names.includes(chosen) ? chosen : '';
    this.wantedAdapter = chosen;
    this.field('adapter').row.hidden = !names.length;
  }
  values() {
    return Object.fromEntries(this.fields.map(({id}) => [id, this.value(id)]));
  }
  async load() {
    const kept = (await store.one('settings', 'settings'))?.values || {};
    for (const {id, node, kind} of this.fields) {
      if (typeof kept[id] === 'boolean' && kind === 'switch') node.checked = kept[id];
      if (typeof kept[id] === 'string' && kind !== 'switch') node.value = kept[id];
    }
    this.wantedAdapter = kept.adapter || '';
    for (const field of this.fields)
      this.showWrong(field, field.id === 'form' && !field.node.value ? '' : this.wrongIn(field));
    this.showDependents();
    await presets.load();
  }
  keep() {
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.keepNow(), 300);
  }
  keepNow() {
    clearTimeout(this.saving);
    this.saving = 0;
    if (isPrivate()) return null;
    return store.write('', {settings: {put: [{name: 'settings', values: this.values()}]}});
  }
  keepLayout() {
    if (!this.ready) return;
    const kept = {name: 'layout'};
    for (const name of Object.keys(panels))
      kept[name] = isCover(name) ? this.layout?.[name] ?? true : isOpen(name);
    this.layout = kept;
    store.write('', {settings: {put: [kept]}});
  }
  reset() {
    const before = this.values();
    for (const field of this.fields) {
      if (field.id === 'system') continue;
      field.kind === 'switch' ? field.node.checked = field.on : field.node.value = '';
      this.showWrong(field, '');
    }
    this.showDependents();
    this.keep();
    showNotice('The settings are the worker\u2019s own again.', 'Undo', () => {
      for (const {id, node, kind} of this.fields)
        kind === 'switch' ? node.checked = before[id] : node.value = before[id];
      this.showDependents();
      this.keep();
    });
  }
}
const settings = new Settings();
