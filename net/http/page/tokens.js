// The tokens of an answer with their probabilities: what is kept of them, and how they are looked at.

const tokensKept = 20000;   // of one answer
const tokensBlock = 400;    // that are laid out together

/// A token as it is kept: [text, log probability, [[text, log probability], ...]].
const keptToken =
  entry => [entry.token, entry.logprob, (entry.top_logprobs || []).map(top => [top.token, top.logprob])];
const percent = logprob => {
  const part = 100 * Math.exp(logprob);
  return part >= 10 ? part.toFixed(0) + ' %' : part >= 0.1 ? part.toFixed(1) + ' %' : 'below 0.1 %';
};
/// White space and marks are seen, too.
const visible = text =>
  text.replace(/\n/g, '\u21b5').replace(/\t/g, '\u21e5').replace(/ /g, '\u00b7') || '(nothing)';
/// 0 for a token that was nearly certain to 4 for one that was hardly expected.
const doubtOf = logprob => [-0.105, -0.693, -1.61, -3].filter(limit => logprob < limit).length;

/// Tokens to be looked at with pointer and keyboard: the one that is pointed at or has the focus is explained
/// in a box beside it.
class TokenView {
  constructor(list, left) {
    this.list = list;
    this.box = make('div', 'tokens');
    this.box.tabIndex = 0;
    this.box.setAttribute('role', 'group');
    this.box.setAttribute('aria-label', 'Tokens of this answer. Arrow keys go from one to the next.');
    this.bubble = make('div', 'token-bubble');
    this.bubble.hidden = true;
    this.said = make('p', 'unseen');
    this.said.setAttribute('aria-live', 'polite');
    this.at = -1;
    this.spans = [];
    let block = null;
    list.forEach(([text, logprob], i) => {
      if (i % tokensBlock === 0) block = this.box.appendChild(make('div', 'token-block'));
      const span = make('span', 'token doubt-' + doubtOf(logprob), text);
      span.dataset.at = i;
      block.append(span);
      this.spans.push(span);
    });
    if (left) this.box.append(make('p', 'facts', left + ' more tokens were not kept'));
    this.box.append(this.bubble, this.said);
    this.box.addEventListener('pointerover', event => {
      const span = event.target.closest('.token');
      if (span) this.show(Number(span.dataset.at), false);
    });
    this.box.addEventListener('pointerleave', () => this.hide());
    this.box.addEventListener('blur', () => this.hide());
    this.box.addEventListener('keydown', event => this.press(event));
  }
  press(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity};
    if (event.key === 'Escape' && !this.bubble.hidden) {
      this.hide();
    } else if (steps[event.key] && !event.altKey && !event.ctrlKey && !event.metaKey) {
      this.show(Math.min(Math.max(this.at + steps[event.key], 0), this.list.length - 1), true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
  show(at, aloud) {
    if (!this.list.length) return;
    if (this.spans[this.at]) this.spans[this.at].classList.remove('at');
    this.at = at;
    const span = this.spans[at], [text, logprob, top] = this.list[at];
    span.classList.add('at');
    const table = make('table'), head = make('caption', '', visible(text) + ': ' + percent(logprob));
    table.append(head);
    for (const [other, value] of top) {
      const row = make('tr', other === text ? 'chosen' : ''), bar = make('td'), fill = make('span', 'bar');
      fill.style.width = 100 * Math.exp(value) + '%';
      bar.append(fill);
      row.append(make('th', '', visible(other)), bar, make('td', '', percent(value)));
      row.firstChild.scope = 'row';
      table.append(row);
    }
    this.bubble.replaceChildren(table);
    this.bubble.hidden = false;
    const place = span.getBoundingClientRect(), base = this.box.getBoundingClientRect();
    const left =
      Math.min(Math.max(place.left - base.left, 0), Math.max(base.width - this.bubble.offsetWidth, 0));
    this.bubble.style.left = left + 'px';
    this.bubble.style.top = place.bottom - base.top + this.box.scrollTop + 4 + 'px';
    if (aloud) {
      const others =
        top.filter(([other]) => other !== text).map(([other,
                                                      value]) => visible(other) + ' ' + percent(value));
      this.said.textContent =
        visible(text) + ', ' + percent(logprob) + (others.length ? '; instead ' + others.join(', ') : '');
      span.scrollIntoView({block: 'nearest'});
    }
  }
  hide() {
    this.bubble.hidden = true;
    if (this.spans[this.at]) this.spans[this.at].classList.remove('at');
  }
}
