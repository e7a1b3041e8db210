// The last ten minutes as small plots, and where the time of an answer went.

/// A picture that is stretched to the box it is in.
const pictureOf = (width, height) =>
  svg('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img'});
const plotSpan = 600000;  // milliseconds
const plotGap = 5000;     // a longer time without a sample is left open
const plotWidth = 300, plotHeight = 60;

/// The end of an axis that has room for `most`: 1, 2 or 5 and zeros.
function axisEnd(most) {
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].find(n => n * unit >= most * 0.999) * unit;
}

/// One figure over time. A sample without a value (nothing happened) leaves a gap; where there was nothing at
/// all, or nothing but zeros, there is no picture.
class Plot {
  constructor(name, format) {
    this.name = name;
    this.format = format;
    this.samples = [];
    this.box = make('div', 'plot');
    this.label = make('p');
    this.frame = make('div', 'plot-frame');
    this.top = make('span', 'axis-top');
    const bottom = make('span', 'axis-bottom', '0'), past = make('span', 'axis-past', '10 min ago'),
          now = make('span', 'axis-now', 'now');
    this.picture = pictureOf(plotWidth, plotHeight);
    this.line = svg('path', {class: 'line'});
    this.picture.append(
      svg('path', {
        class: 'grid',
        d: `M0 1H${plotWidth}M0 ${plotHeight / 2}H${plotWidth}M${plotWidth / 2} 0V${plotHeight}`
      }),
      this.line);
    for (const node of [this.top, bottom, past, now]) node.setAttribute('aria-hidden', 'true');
    this.frame.append(this.top, bottom, this.picture, past, now);
    this.frame.hidden = true;
    this.box.append(this.label, this.frame);
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
    this.frame.hidden = most === 0;
    const end = most ? axisEnd(most) : 1;
    if (most) this.top.textContent = this.format(end);
    let path = '', before = -Infinity;
    for (const {at, value} of known) {
      const x = plotWidth * (1 - (now - at) / plotSpan), height = (plotHeight - 2) * value / end;
      const point = x.toFixed(1) + ' ' + (plotHeight - 1 - height).toFixed(1);
      // A single sample is a dot: a line of no length with round ends.
      path += (at - before > plotGap ? `M${point}h0` : '') + `L${point}`;
      before = at;
    }
    this.line.setAttribute('d', path);
  }
}

const plots = {
  rate: new Plot('Tokens/s', v => v < 10 ? v.toFixed(1) : v.toFixed(0)),
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
  plots.rate.add(at, rate || null);
  plots.first.add(at, mean === null ? null : mean * 1000);
  plots.pages.add(at, m.worker_kv_blocks_used || 0);
  plots.slots.add(at, m.worker_requests_running || 0);
  plots.queue.add(at, m.worker_requests_waiting || 0);
}

const milliseconds = ms => ms < 1000 ? ms.toFixed(0) + ' ms' : (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + ' s';

/// Where the time of one answer went: waiting for a place, the prompt (with the part of it that came from the
/// prefix cache), the answer. `times` has asked, begun, first and last in milliseconds.
function timelineOf(times, usage) {
  if (!times || !times.first || !times.begun) return null;
  const waited = times.begun - times.asked, read = times.first - times.begun,
        wrote = times.last - times.first;
  const prompt = usage ? usage.prompt_tokens : 0;
  const cached = usage ? (usage.prompt_tokens_details || {}).cached_tokens || 0 : 0;
  const all = Math.max(waited + read + wrote, 1);
  const part = prompt ? ` (${cached} of ${prompt} tokens cached)` : '';
  const text =
    `waited ${milliseconds(waited)}, prompt ${milliseconds(read)}${part}, answer ${milliseconds(wrote)}`;
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
