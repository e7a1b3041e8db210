
const rows = new Map();
function show(name, value) {
  if (!rows.has(name)) {
    const cell = make('dd');
    rows.set(name, cell);
    $('facts').append(make('dt', '', name), cell);
  }
  if (rows.get(name).textContent !== value) rows.get(name).textContent = value;
}
const bytes = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + ' GiB' : (n / 2 ** 20).toFixed(1) + ' MiB';
const count = n => Number(n || 0).toLocaleString('en');

/// Counters and gauges without labels: {name: value}.
function readMetrics(text) {
  const out = {};
  for (const line of text.split('\n')) {
    const found = /^([a-z_:]+) (\S+)$/.exec(line);
    if (found) out[found[1]] = Number(found[2]);
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
  $('model').textContent = h.model;
  const good = h.status === 'healthy' && (h.state === 'ready' || h.state === 'busy');
  setPill(h.state + (h.status === 'healthy' ? '' : ', ' + h.status), good);
  show('State', h.state);
  show('Model', h.model + (h.quant_kind ? ' (' + h.quant_kind + ')' : ''));
  show('Device', h.gpu_name || h.backend);
  show('VRAM', h.vram_bytes ? bytes(h.vram_bytes) : 'none');
  show('KV cache', bytes(h.kv_bytes));
  show('Pages used', count(h.kv_pages_used) + ' of ' + count(h.kv_pages));
  show('Context', count(h.context_tokens) + ' tokens');
  show('Slots', count(h.running) + ' of ' + count(h.slots) + ' busy');
  show('Waiting', count(h.waiting));
}

function setPill(text, good) {
  if ($('pill').textContent !== text) $('pill').textContent = text;
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
    show('Tokens/s', rate.toFixed(1));
    plotMetrics(now, rate, m);
    show('Tokens out', count(m.worker_tokens_generated_total));
    show('Cache hits', count(m.worker_prefix_cache_hits_total) + ' of ' + count(m.worker_prefix_cache_queries_total));
    show('Tokens saved', count(m.worker_prefix_cache_hit_tokens_total));
  } catch {
    before = null;
    setPill('unreachable', false);
  }
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
document.addEventListener('visibilitychange', watch);

if (matchMedia('(max-width: 48rem)').matches) $('state').open = $('recent').open = false;
showMode();
watch();
$('input').focus();
