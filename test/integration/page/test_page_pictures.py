"""The plots of the last ten minutes and the timeline of an answer."""
import re

from worker_process import PATIENCE, wait_until


def label(tab, name: str) -> str:
    return tab.page.locator('#plots p', has_text=name).first.text_content()


def most(tab, name: str) -> float:
    found = re.search(r'at most ([\d.]+)', label(tab, name))
    return float(found[1]) if found else 0


def test_plots_follow_the_worker(tab, worker):
    wait_until(lambda: label(tab, 'Slots busy') == 'Slots busy: 0, at most 0', PATIENCE, 'two samples')
    assert label(tab, 'Waiting').startswith('Waiting: 0')
    tab.go_on()
    tab.set('Tokens of an answer', '6000')
    tab.say('Once upon a time')
    wait_until(lambda: 'at most 1' in label(tab, 'Slots busy'), PATIENCE, 'the job is plotted')
    wait_until(lambda: most(tab, 'Tokens/s') > 1, PATIENCE, 'its rate')
    wait_until(lambda: most(tab, 'KV pages') > 0, PATIENCE, 'its pages')
    wait_until(lambda: re.search(r': \d+ ms', label(tab, 'First token')), PATIENCE, 'the first token')
    tab.page.keyboard.press('Escape')
    wait_until(lambda: label(tab, 'Slots busy').startswith('Slots busy: 0, at most 1'), PATIENCE, 'its end')
    pictures = tab.page.locator('#plots svg')
    assert pictures.count() == 5
    for picture in pictures.all():
        assert picture.get_attribute('role') == 'img'
        assert picture.get_attribute('aria-label').endswith('in the last ten minutes')
        assert picture.locator('.line').get_attribute('d').startswith('M')


def test_samples_older_than_ten_minutes_go(tab):
    kept = tab.page.evaluate('''() => {
      const plot = new Plot('Test', v => v.toFixed(0));
      for (let s = 0; s <= 900; ++s) plot.add(s * 1000, s < 100 ? 7 : s === 500 ? null : 3);
      return [plot.samples.length, plot.label.textContent, plot.line.getAttribute('d').split('M').length - 1];
    }''')
    assert kept == [601, 'Test: 3, at most 3', 1]
    pieces = tab.page.evaluate('''() => {
      const plot = new Plot('Gaps', v => v.toFixed(0));
      for (const s of [0, 1, 2, 60, 61, 300]) plot.add(s * 1000, 1);
      return plot.line.getAttribute('d').split('M').length - 1;
    }''')
    assert pieces == 3, 'where nobody looked there is no line'
    told = tab.page.evaluate('''() => {
      const plot = new Plot('Waiting', v => v.toFixed(0)), told = [];
      for (const value of [null, 0, 0, 37]) {
        plot.add(told.length * 1000, value);
        told.push([plot.label.textContent, plot.frame.hidden, plot.top.textContent]);
      }
      return told;
    }''')
    assert told == [['Waiting: none yet', True, ''], ['Waiting: 0', True, ''],
                    ['Waiting: 0, at most 0', True, ''],
                    ['Waiting: 37, at most 37', False, '50']], 'no picture of nothing; axes that can be read'


def test_a_timeline_tells_where_the_time_went(tab):
    tab.go_on()
    tab.set('Temperature', '0')
    tab.set('Tokens of an answer', '200')
    tab.say('word ' * 300)
    tab.wait_done()
    caption = tab.page.locator('.timeline figcaption')
    first = re.fullmatch(r'waited .+s, prompt .+s \((\d+) of (\d+) tokens cached\), answer .+s',
                         caption.text_content())
    assert first and int(first[2]) > 300
    widths = tab.page.locator('.timeline rect:not(.time-cached)').evaluate_all(
        'all => all.map(r => Number(r.getAttribute("width")))')
    assert len(widths) == 3 and abs(sum(widths) - 100) < 0.01 and min(widths) >= 0
    tab.button('New chat').click()
    tab.say('word ' * 300)
    wait_until(lambda: tab.page.locator('.timeline').count() == 1, PATIENCE, 'the second answer')
    again = re.search(r'\((\d+) of', caption.text_content())
    assert int(again[1]) >= 256, 'a page of the same prompt is in the cache'


def test_the_part_of_a_prompt_that_was_cached_is_drawn(tab):
    widths = tab.page.evaluate('''() => {
      const times = {asked: 1000, begun: 1010, first: 1050, last: 1200};
      const drawn = timelineOf(times, {prompt_tokens: 400, prompt_tokens_details: {cached_tokens: 100}});
      const rects = [...drawn.querySelectorAll('rect')];
      return rects.map(r => [r.getAttribute('class'), r.getAttribute('width')]);
    }''')
    assert widths == [
        ['time-waited', '5'], ['time-prompt', '20'], ['time-cached', '5'], ['time-answer', '75']]
