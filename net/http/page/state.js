// What the worker says of itself, once a second while the page is seen: at a glance in the head of the page,
// in full in the panel.

const state = {model: '', context: 0, version: '', engine: null, takeovers: 0, reached: null};

const factRows = new Map();
function show(name, value, list = $('facts')) {
  const key = list.id + ' ' + name;
  if (!factRows.has(key)) {
    const cell = make('dd');
    factRows.set(key, cell);
    list.append(make('dt', '', name), cell);
  }
  if (factRows.get(key).textContent !== value) factRows.get(key).textContent = value;
}
const bytes = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + ' GiB' : (n / 2 ** 20).toFixed(1) + ' MiB';
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

/// Counters and gauges without labels, {name: value}, and under `adapters` those of adapters, {name: {metric:
/// value}}.
function readMetrics(text) {
  const out = {adapters: {}};
  for (const line of text.split('\n')) {
    const found = /^([a-z_:]+) (\S+)$/.exec(line);
    if (found) out[found[1]] = Number(found[2]);
    const adapter = /^worker_lora_adapter_([a-z_]+)\{adapter="((?:[^"\\]|\\.)*)"\} (\S+)$/.exec(line);
    if (!adapter) continue;
    const name = adapter[2].replace(/\\(.)/g, (all, c) => c === 'n' ? '\n' : c);
    out.adapters[name] = {...out.adapters[name], [adapter[1]]: Number(adapter[3])};
  }
  return out;
}

let before = null;  // {at, tokens} of the poll before
function rateOf(metrics, at) {
  // Counted token by token, unlike worker_tokens_generated_total, which rises when a job ends.
  const tokens = metrics.worker_inter_token_latency_seconds_count || 0;
  const rate = before && tokens >= before.tokens ? (tokens - before.tokens) * 1000 / (at - before.at) : 0;
  before = {at, tokens};
  return rate;
}

function showHealth(h) {
  document.title = h.model + ' - worker-orcd';
  setText($('model'), h.model);
  const good = h.status === 'healthy' && (h.state === 'ready' || h.state === 'busy');
  setPill(h.state + (h.status === 'healthy' ? '' : ', ' + h.status), good);
  $('pill').title = h.reason || '';
  const places = count(h.running) + ' of ' + count(h.slots) + ' busy';
  setText($('busy'), places + (h.waiting ? ', ' + count(h.waiting) + ' waiting' : ''));
  show('State', h.state + (h.reason ? ': ' + h.reason : ''));
  show('Model', h.model + (h.quant_kind ? ' (' + h.quant_kind + ')' : ''));
  show('Device', h.gpu_name || h.backend);
  show('VRAM', h.vram_bytes ? bytes(h.vram_bytes) : 'none');
  show('KV cache', bytes(h.kv_bytes));
  show('Pages used', count(h.kv_pages_used) + ' of ' + count(h.kv_pages));
  show('Pages cached', count(h.kv_pages_cached));
  show('Context', count(h.context_tokens) + ' tokens');
  show('Slots', places);
  show('Waiting', count(h.waiting));
  noteChanges(h);
}

/// What is not as it was: another model, another version, another engine.
function noteChanges(h) {
  const known = state.model !== '';
  if (known && state.model !== h.model) {
    showNotice(`Another model serves now: ${h.model}. Earlier answers say which model gave them.`);
  }
  if (known && state.version !== h.version)
    showNotice(
      `The worker is now of version ${h.version}, this page of ${state.version}.`, 'Load its page',
      () => location.reload());
  if (h.engine_id !== undefined && state.engine !== null && state.engine !== h.engine_id) {
    ++state.takeovers;
    showNotice(`Engine ${h.engine_id} has taken over from engine ${state.engine}.`);
  }
  const other = state.model !== h.model;
  Object.assign(
    state, {model: h.model, context: h.context_tokens, version: h.version, engine: h.engine_id ?? null});
  if (other || !known) {
    settings.known = false;
    if ($('settings').open) settings.loadDefaults();
    chat.showMode();
    if (known || chat.views.size) chat.refreshFeet();
  }
}

function showFailover(m) {
  $('failover').hidden = state.engine === null;
  if (state.engine === null) return;
  const list = $('failover-facts');
  show('Serving', 'engine ' + state.engine, list);
  show('Takeovers seen here', count(state.takeovers), list);
  if (m.orcd_failover_streams_resumed_total !== undefined)
    show('Answers gone on with', count(m.orcd_failover_streams_resumed_total), list);
  if (m.orcd_failover_holder_connected !== undefined)
    show('Connections', m.orcd_failover_holder_connected ? 'held' : 'not held: the holder is gone', list);
}

function showAdapters({adapters, worker_lora_adapters_max: room}) {
  const names = Object.keys(adapters);
  $('adapters').hidden = !room;
  if (names.join('\n') !== state.adapters) {
    state.adapters = names.join('\n');
    settings.showAdapters(names);
    $('adapter-rows').replaceChildren();
  }
  if (!room) return;
  setText($('adapter-room'), `${count(names.length)} of ${count(room)} places taken`);
  names.forEach((name, i) => {
    const {bytes: size, requests, requests_total: all} = adapters[name];
    const text = `${bytes(size || 0)}, ${count(requests)} now, ${count(all)} in all`;
    if (!$('adapter-rows').children[i]) {
      const item = make('li');
      item.append(make('span', 'title', name), make('span', 'day'));
      $('adapter-rows').append(item);
    }
    setText($('adapter-rows').children[i].lastChild, text);
  });
}

function setPill(text, good) {
  setText($('pill'), text);
  $('pill').dataset.good = good ? 'yes' : 'no';
}

async function poll() {
  const signal = AbortSignal.timeout(5000);
  try {
    const [health, metrics] = await Promise.all([fetch('health', {signal}), fetch('metrics', {signal})]);
    // /health describes an unhealthy worker with 503, too.
    showHealth(await health.json());
    const m = readMetrics(await metrics.text());
    const now = performance.now(), rate = rateOf(m, now);
    setText($('speed'), rate ? (rate < 10 ? rate.toFixed(1) : rate.toFixed(0)) + ' tokens/s' : 'idle');
    const asked = m.worker_prefix_cache_query_tokens_total || 0,
          hits = m.worker_prefix_cache_hit_tokens_total || 0;
    setText($('cached'), asked ? (100 * hits / asked).toFixed(0) + ' % cached' : 'nothing cached yet');
    $('cached').title = `${count(hits)} of ${count(asked)} tokens of prompts came from the cache`;
    show('Tokens/s', rate.toFixed(1));
    plotMetrics(now, rate, m);
    show('Tokens out', count(m.worker_tokens_generated_total));
    const found = m.worker_prefix_cache_hits_total, looked = m.worker_prefix_cache_queries_total;
    show('Cache hits', count(found) + ' of ' + count(looked));
    show('Tokens saved', count(hits));
    showFailover(m);
    showAdapters(m);
    if (state.reached === false) {
      clearGone();
      showNotice('The worker is there again.');
      settings.known = false;
    }
    state.reached = true;
  } catch {
    before = null;
    setPill('unreachable', false);
    for (const id of ['busy', 'speed', 'cached']) setText($(id), '');
    if (state.reached !== false) sayGone();
    state.reached = false;
  }
}
function sayGone() {
  $('gone').textContent = state.reached ?
    'The worker is gone. It may be restarting: the page goes on looking for it, and nothing is lost.' :
    'The worker cannot be reached. The page goes on looking for it.';
}
function clearGone() {
  $('gone').textContent = '';
}

let polling = false;
async function watch() {
  if (polling) return;
  polling = true;
  while (document.visibilityState === 'visible') {
    await poll();
    await new Promise(wake => setTimeout(wake, 1000));
  }
  polling = false;
  before = null;
}
