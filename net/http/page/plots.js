// The last ten minutes as small plots, and where the time of an answer went.

// The name of a vocabulary, which is never fetched: nothing in the page may look like an address that is.
const svgNames = 'http' + '://www.w3.org/2000/svg';
const svg = (tag, attributes) => {
  const node = document.createElementNS(svgNames, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
/// A picture that is stretched to the box it is in.
const pictureOf = (width, height) =>
  svg('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img'});
const plotSpan = 600000;  // milliseconds
const plotGap = 5000;     // a longer time without a sample is left open
const plotWidth = 300, plotHeight = 36;

/// One figure over time. A sample without a value (nothing happened) leaves a gap.
class Plot {
  constructor(name, format) {
    this.name = name;
    this.format = format;
    this.samples = [];
    this.box = make('div', 'plot');
    this.label = make('p');
    this.picture = pictureOf(plotWidth, plotHeight);
    this.line = svg('path', {});
    this.picture.append(this.line);
    this.box.append(this.label, this.picture);
    $('plots').append(this.box);
  }
  add(at, value) {
    this.samples.push({at, value});
    while (this.samples[0].at < at - plotSpan) this.samples.shift();
    this.draw(at);
  }
  draw(now) {
    const known = this.samples.filter(s => s.value !== null);
    const most = Math.max(...known.map(s => s.value), 0);
    const last = known.at(-1);
    const text = this.name + ': ' + (last ? this.format(last.value) : 'none yet') +
                 (known.length > 1 ? ', at most ' + this.format(most) : '');
    if (this.label.textContent !== text) {
      this.label.textContent = text;
      this.picture.setAttribute('aria-label', text + ' in the last ten minutes');
    }
    let path = '', before = -Infinity;
    for (const {at, value} of known) {
      const x = plotWidth * (1 - (now - at) / plotSpan), height = (plotHeight - 2) * (most ? value / most : 0);
      const point = x.toFixed(1) + ' ' + (plotHeight - 1 - height).toFixed(1);
      // A single sample is a dot: a line of no length with round ends.
      path += (at - before > plotGap ? `M${point}h0` : '') + `L${point}`;
      before = at;
    }
    this.line.setAttribute('d', path);
  }
}

const plots = {
  rate: new Plot('Tokens/s', v => v.toFixed(1)),
  first: new Plot('First token', v => v.toFixed(0) + ' ms'),
  pages: new Plot('KV pages', v => v.toFixed(0)),
  slots: new Plot('Slots busy', v => v.toFixed(0)),
  queue: new Plot('Waiting', v => v.toFixed(0)),
};

/// Mean of a histogram's values since the call before; null where there were none.
class MeanOf {
  constructor(name) { this.name = name; }
  of(metrics) {
    const sum = metrics[this.name + '_sum'] || 0, count = metrics[this.name + '_count'] || 0;
    const before = this.before;
    this.before = {sum, count};
    return before && count > before.count ? (sum - before.sum) / (count - before.count) : null;
  }
}
const firstToken = new MeanOf('worker_time_to_first_token_seconds');

function plotMetrics(at, rate, m) {
  const mean = firstToken.of(m);
  plots.rate.add(at, rate);
  plots.first.add(at, mean === null ? null : mean * 1000);
  plots.pages.add(at, m.worker_kv_blocks_used || 0);
  plots.slots.add(at, m.worker_requests_running || 0);
  plots.queue.add(at, m.worker_requests_waiting || 0);
}

const milliseconds = ms => ms < 1000 ? ms.toFixed(0) + ' ms' : (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + ' s';

/// Where the time of one answer went, as this page saw it: waiting, the prompt (with the part of it that came
/// from the prefix cache), the answer. `times` has asked, begun, first and last in milliseconds.
function timelineOf(times, usage) {
  if (!times.first || !times.begun) return null;
  const waited = times.begun - times.asked, read = times.first - times.begun, wrote = times.last - times.first;
  const prompt = usage ? usage.prompt_tokens : 0;
  const cached = usage ? (usage.prompt_tokens_details || {}).cached_tokens || 0 : 0;
  const all = Math.max(waited + read + wrote, 1);
  const part = prompt ? ` (${cached} of ${prompt} tokens cached)` : '';
  const text = `waited ${milliseconds(waited)}, prompt ${milliseconds(read)}${part}, answer ${milliseconds(wrote)}`;
  const box = make('figure', 'timeline');
  const picture = pictureOf(100, 8);
  picture.setAttribute('aria-label', 'Time of this answer: ' + text);
  let x = 0;
  for (const [name, time] of [['waited', waited], ['prompt', read], ['answer', wrote]]) {
    const width = 100 * time / all;
    picture.append(svg('rect', {class: 'time-' + name, x, width, y: 0, height: 8}));
    if (name === 'prompt' && prompt) {
      picture.append(svg('rect', {class: 'time-cached', x, width: width * cached / prompt, y: 5, height: 3}));
    }
    x += width;
  }
  box.append(picture, make('figcaption', '', text));
  return box;
}
