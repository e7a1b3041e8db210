// The fields of the settings: what each is called, what may stand in it, and where it goes in a request.

const numberField = (id, label, param, least, most, more = {}) =>
  ({id, label, param, least, most, kind: 'number', ...more});
// `default`: the name of the worker's own default in /props. `over`: the least value itself is not allowed.
const settingFields = [
  {group: 'What it is told'},
  {id: 'system', label: 'System prompt', kind: 'text', rows: 4, param: 'messages'},
  {id: 'tools', label: 'Tools, a JSON list (empty: none)', kind: 'text', rows: 3, code: true, param: 'tools'},
  {group: 'How it chooses'},
  numberField('temperature', 'Temperature, 0 to 2', 'temperature', 0, 2, {default: 'temperature'}),
  numberField('top-k', 'Top k (0: off)', 'top_k', 0, 1e9, {whole: true, default: 'top_k'}),
  numberField('top-p', 'Top p, up to 1 (1: off)', 'top_p', 0, 1, {over: true, default: 'top_p'}),
  numberField('min-p', 'Min p, 0 to 1 (0: off)', 'min_p', 0, 1, {default: 'min_p'}),
  numberField(
    'repetition', 'Repetition penalty, up to 2 (1: off)', 'repetition_penalty', 0, 2,
    {over: true, default: 'repeat_penalty'}),
  numberField(
    'presence', 'Presence penalty, -2 to 2', 'presence_penalty', -2, 2, {default: 'presence_penalty'}),
  numberField(
    'frequency', 'Frequency penalty, -2 to 2', 'frequency_penalty', -2, 2, {default: 'frequency_penalty'}),
  numberField(
    'last-n', 'Tokens that penalties look at (-1: all)', 'repeat_last_n', -1, 4096,
    {whole: true, default: 'repeat_last_n'}),
  numberField(
    'seed', 'Seed (empty: another one each time)', 'seed', -1, Number.MAX_SAFE_INTEGER, {whole: true}),
  {group: 'How long and in what form'},
  numberField(
    'max-tokens', 'Tokens of an answer at most (empty: what fits)', 'max_tokens', 1, 2 ** 31, {whole: true}),
  {id: 'stop-texts', label: 'Stop texts, one a line', kind: 'text', rows: 2, param: 'stop'},
  {
    id: 'format',
    label: 'Form of the answer',
    kind: 'choice',
    param: 'response_format',
    choices: [
      ['', 'free text'], ['json', 'any JSON object'], ['schema', 'JSON by a schema'],
      ['grammar', 'by a grammar (GBNF)'], ['regex', 'by a regular expression']
    ]
  },
  {
    id: 'form',
    label: 'Schema, grammar or expression',
    kind: 'text',
    rows: 4,
    code: true,
    param: 'response_format',
    only: 'format'
  },
  {group: 'Reasoning'},
  {
    id: 'thinking',
    label: 'Reasoning',
    kind: 'choice',
    param: 'enable_thinking',
    choices: [['', 'as the model does'], ['on', 'on'], ['off', 'off']]
  },
  {
    id: 'effort',
    label: 'Effort',
    kind: 'choice',
    param: 'reasoning_effort',
    choices: [['', 'as the model does'], ['low', 'low'], ['medium', 'medium'], ['high', 'high']]
  },
  numberField('budget', 'Tokens of reasoning at most', 'thinking_budget', 0, 2 ** 31, {whole: true}),
  {group: 'Worker'},
  {id: 'adapter', label: 'Adapter', kind: 'choice', param: 'model', choices: [['', 'as the worker is set']]},
  {
    id: 'more',
    label: 'Further fields of the request, a JSON object',
    kind: 'text',
    rows: 2,
    code: true,
    param: ''
  },
  {
    id: 'probabilities',
    label: 'Ask for the probabilities of tokens',
    kind: 'switch',
    param: 'top_logprobs',
    on: true
  },
];

/// What is wrong with a value; '' where nothing is.
function wrongNumber({least, most, whole, over}, text) {
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN;
  if (!Number.isFinite(number)) return 'this is no number: ' + text;
  if (whole && !Number.isInteger(number)) return 'it must be a whole number';
  if (over ? number <= least : number < least)
    return `it must be ${over ? 'more than' : 'at least'} ${least}`;
  if (number > most) return `it must be at most ${most}`;
  return '';
}
const stopTexts = text => text.split('\n').filter(line => line !== '');
function wrongStops(stops) {
  if (stops.length > 16) return 'at most 16 stop texts, not ' + stops.length;
  const long = stops.find(stop => new TextEncoder().encode(stop).length > 256);
  return long ? 'a stop text has at most 256 bytes: ' + long.slice(0, 30) + '\u2026' : '';
}
function wrongObject(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === 'object' && !Array.isArray(value) ? '' : 'this is no JSON object';
  } catch (e) {
    return 'this is no JSON: ' + e.message;
  }
}
function wrongTools(text) {
  let list;
  try { list = JSON.parse(text); } catch (e) { return 'this is no JSON: ' + e.message; }
  if (!Array.isArray(list)) return 'this is no list';
  const wrong = list.findIndex(
    tool => !tool || tool.type !== 'function' || !tool.function || typeof tool.function.name !== 'string');
  return wrong < 0 ? '' : `number ${wrong + 1} is no {"type": "function", "function": {"name": \u2026}}`;
}
