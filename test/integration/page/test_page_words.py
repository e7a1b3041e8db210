"""No word of an answer is lost: what can be seen of it on the page is compared with what was said."""
import re
import urllib.parse

from answers import AS_IT_IS, all_answers
from test_page_markdown import TEXT

# Shows each text, whole or in pieces, and tells what is seen of it: texts, the addresses of links, the
# numbers of lists; of a formula its source, if something of it is drawn.
SEEN = """async ([texts, pieces]) => {
  const seenOf = node => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.matches('button')) return '';
    if (node.matches('.formula')) {
      const drawn = node.querySelector('.katex-html').getBoundingClientRect();
      return drawn.width && drawn.height ? node.title : '';
    }
    const inside = [...node.childNodes].map(seenOf).join('');
    if (node.matches('a')) return inside + ' ' + node.href + ' ';
    if (node.matches('ol > li')) {
      let at = node, counted = 0;
      for (; at && !at.value; at = at.previousElementSibling) ++counted;
      return '\\n' + (at ? at.value + counted : node.parentNode.start + counted - 1) + '. ' + inside;
    }
    return getComputedStyle(node).display === 'inline' ? inside : '\\n' + inside;
  };
  const box = log.appendChild(make('div')), seen = [];
  for (const text of texts) {
    const answer = box.appendChild(make('div', 'answer')), view = new MarkdownText(answer);
    const step = Math.ceil(text.length / pieces);
    for (let i = 0; i < text.length; i += step) {
      view.append(text.slice(i, i + step));
      if (pieces > 1) await view.later.now();
    }
    await view.finish();
    seen.push([seenOf(answer), view.box.source, view.rest !== null]);
    box.replaceChildren();
  }
  return seen;
}"""


def words(text: str) -> list:
    return re.findall(r'[^\W_]+', text)


def decoded(text: str) -> str:
    """Without the entities that the page knows."""
    names = {'lt': '<', 'gt': '>', 'amp': '&', 'quot': '"', 'nbsp': ' '}
    text = re.sub(r'&(lt|gt|amp|quot|nbsp);', lambda m: names[m[1]], text)
    numbers = r'&#(?:x([0-9A-Fa-f]{1,6})|(\d{1,7}));'
    return re.sub(numbers, lambda m: chr(int(m[1], 16) if m[1] else int(m[2])), text)


def missing(said: str, seen: str) -> list:
    """Words of what was said that are not seen behind those before them."""
    if said.strip() == seen.strip():
        return []
    at, lost = 0, []
    for word in words(re.sub(r'^[ \t>]*[-+*][ \t]+\[[xX]\]', '', decoded(said), flags=re.M)):
        found = seen.find(word, at)
        if found < 0:
            lost.append(word)
        else:
            at = found + len(word)
    return lost


def test_no_word_is_lost(tab):
    answers = all_answers(TEXT)
    assert len(answers) > 250
    for pieces in (1, 3):
        told = tab.page.evaluate(SEEN, [list(answers.values()), pieces])
        wrong = {}
        for (name, said), (seen, raw, is_plain) in zip(answers.items(), told):
            lost = missing(said, urllib.parse.unquote(seen))
            if lost or raw != said or is_plain:
                wrong[name] = (lost, seen, is_plain)
        assert wrong == {}, f'in {pieces} pieces'


def test_what_nobody_knows_is_shown_as_it_is(tab):
    told = tab.page.evaluate(SEEN, [AS_IT_IS, 1])
    wrong = {said: seen for said, (seen, _, _) in zip(AS_IT_IS, told) if seen.strip() != said.strip()}
    assert wrong == {}
