"""Templates of requests, where they are allowed: what they cost is charged before it is spent, so that the
answer is there in time, /live answers meanwhile, and nothing ends."""
import os
import time

from canary import watch_probe
from client import chat_body, encoded, request, status_of
from crowd import CORES, WORKER_CORE, Crowd
from judge import ms, probe
from probes_floods import flood
from loads import hammer
from worker_process import SANITIZED, STRETCH

WITHIN = 2.0       # seconds for the whole answer
LIVE_WITHIN = 0.1  # the longest that /live may be kept waiting by one template

CHAT = '/v1/chat/completions'
BIG = "{% set a = 'a' * 2000000 %}{% set b = 'a' * 4000000 %}"
NEST = "{% set ns = namespace(a=[1]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}"
TWINS = ("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}"
         "{% set ns.b = [ns.b, ns.b] %}{% endfor %}")
STRINGS = ("{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = ns.l + ['a' * 10000] %}"
           "{% endfor %}")
TEMPLATES = {
    # searches whose work is the product of two lengths
    'in': BIG + "{{ (a + 'b') in b }}",
    'find': BIG + "{{ b.find(a + 'b') }}",
    'rfind': BIG + "{{ b.rfind(a + 'b') }}",
    'index': BIG + "{{ b.index(a + 'b') }}",
    'replace': BIG + "{{ b.replace(a + 'b', 'x') | length }}",
    'replace filter': BIG + "{{ (b | replace(a + 'b', 'x')) | length }}",
    'split': BIG + "{{ b.split(a + 'b') | length }}",
    'rsplit': BIG + "{{ b.rsplit(a + 'b') | length }}",
    'search of what almost repeats': "{% set p = ('ab' * 500 ~ 'c') * 500 %}{{ (p ~ 'd') in p * 8 }}",
    'search that fails at its beginning': BIG + "{{ ('b' ~ a) in b }}{{ b.find('b' ~ a) }}",
    'search that fails in the middle': BIG + "{{ (a ~ 'b' ~ a) in (b ~ b) }}",
    'many searches of middle length': "{% set h = 'a' * 100000 %}{% set n = 'a' * 50000 ~ 'b' %}"
                                      "{% for i in range(1000) %}{{ 'x' if n in h }}{% endfor %}",
    'count': BIG + "{{ b.count(a + 'b') }}",
    'partition': BIG + "{{ b.partition(a + 'b') | length }}",
    'startswith in a loop': BIG + "{% for i in range(200000) %}{{ 'x' if b.startswith(a) }}{% endfor %}",
    'strip of many characters':
        "{% set c = 'bcdefgh' * 100000 + 'a' %}{{ ('a' * 1000000).strip(c) | length }}",
    'trim': "{% for i in range(3000) %}{{ (' ' * 1000000) | trim }}{% endfor %}",
    'splitlines': "{% for i in range(1000) %}{{ ('\\n' * 1000000).splitlines() | length }}{% endfor %}",
    'replace that grows': "{% set ns = namespace(s='a') %}{% for i in range(64) %}"
                          "{% set ns.s = ns.s.replace('a', 'aaaaaaaa') %}{% endfor %}{{ ns.s | length }}",
    'replace of nothing': "{{ ('a' * 4000000).replace('', 'b' * 100) | length }}",
    # loops, recursion, memory, output
    'nested loops': "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    'a range of 10^18': "{% for a in range(1000000000000000000) %}{% endfor %}",
    'a range of steps of 0': "{% for a in range(0, 9, 0) %}{% endfor %}",
    'a macro of itself': "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    'two macros of each other':
        "{% macro f() %}{{ g() }}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}"
                                "{{ f() }}",
    'a recursive loop': "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    'a string of 10^12': "{{ 'a' * 1000000000000 }}",
    'a string that doubles':
        "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
                             "{% endfor %}{{ ns.s | length }}",
    'a list of 10^9': "{{ ([0] * 1000000000) | length }}",
    'a list that doubles':
        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}"
                           "{% endfor %}{{ ns.l | length }}",
    'output without end': "{% for i in range(100000000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}",
    'a format of 10^9 places': "{{ '%1000000000d' % 1 }}",
    'a format of 10^9 decimals': "{{ '%.1000000000f' % 1.5 }}",
    'format filter': "{{ '%999999999s' | format('a') }}",
    'round to 10^9 places': "{{ 1.5 | round(1000000000) }}",
    'round to -10^9 places': "{{ 1.5 | round(-1000000000) }}",
    'a power tower': "{{ 9 ** 9 ** 9 }}",
    'a power of floats': "{{ 2.0 ** 100000 }}",
    'the least integer negated': "{{ -(-9223372036854775807 - 1) }}{{ (-9223372036854775807 - 1) // -1 }}",
    'modulo by zero': "{{ 1 % 0 }}{{ 1 // 0 }}{{ 1 / 0 }}",
    'center of 10^9': "{{ 'a' | center(1000000000) }}",
    'indent of 10^9': "{{ ('a\\n' * 10000) | indent(1000000000) }}",
    'slice of 10^9': "{{ [1] | slice(1000000000) | list | length }}",
    'batch filled to 10^9': "{{ [1] | batch(1000000000, 0) | list | length }}",
    'times of a date': "{{ strftime_now('%c' * 500000) | length }}",
    # values that are shared or deep
    'depth 10^5 printed': NEST + "{{ ns.a }}",
    'depth 10^5 as JSON': NEST + "{{ ns.a | tojson }}",
    'depth 10^5 compared': NEST + "{% set a = ns.a %}" + NEST + "{{ ns.a == a }}",
    'depth 10^5 let go': NEST,
    '2^40 by sharing, compared': TWINS + "{{ ns.a == ns.b }}",
    '2^40 by sharing, printed': TWINS + "{{ ns.a }}",
    '2^40 by sharing, as JSON': TWINS + "{{ ns.a | tojson }}",
    '2^40 by sharing, searched': TWINS + "{{ ns.b in [ns.a] }}",
    '2^40 by sharing, sorted': TWINS + "{{ [ns.a, ns.b] | sort }}",
    '2^40 by sharing, as a key': TWINS + "{{ {ns.a: 1} }}",
    'itself in a namespace':
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}{{ ns == ns }}{{ ns | tojson }}",
    # comparisons within sorts and sets
    'sort of 2,000 strings of 10,000': STRINGS + "{{ (ns.l | sort) | length }}",
    'unique of 2,000 strings of 10,000': STRINGS + "{{ (ns.l | unique | list) | length }}",
    'groupby':
        "{% set ns = namespace(l=[]) %}{% for i in range(3000) %}{% set ns.l = ns.l + [{'k': 'a' * 3000}] %}"
               "{% endfor %}{{ ns.l | groupby('k') | length }}",
    'max of long strings': STRINGS + "{{ (ns.l | max) | length }}",
    'join of 10^5': "{{ (['a' * 1000] * 100000) | join(', ') | length }}",
    'tojson of control characters': "{{ ('\\u0001' * 1000000) | tojson | length }}",
    'escape that grows': "{{ ('<' * 1000000) | escape | escape | escape | length }}",
    'urlencode that grows': "{{ ('<' * 1000000) | urlencode | length }}",
    'a dictionary of long keys':
        "{% set ns = namespace(d={}) %}{% for i in range(3000) %}{% set ns.d = dict(ns.d, "
                                 "**{'k' * 1000 ~ i: i}) %}{% endfor %}{{ ns.d | length }}",
    'reversed strings in a loop': BIG + "{% for i in range(10000) %}{{ b[::-1] | length }}{% endfor %}",
    'upper in a loop': BIG + "{% for i in range(10000) %}{{ b | upper | length }}{% endfor %}",
    'capitalize of a word of 4 MB': BIG + "{{ b | title | length }}{{ b | capitalize | length }}",
    'wordcount in a loop': BIG + "{% for i in range(10000) %}{{ b | wordcount }}{% endfor %}",
    'list of a string': BIG + "{{ b | list | length }}",
    # sources
    'brackets 10^5 deep': '{{ ' + '(' * 100_000 + '1' + ')' * 100_000 + ' }}',
    'lists 10^5 deep': '{{ ' + '[' * 100_000 + ']' * 100_000 + ' }}',
    'not 10^5 times': '{{ ' + 'not ' * 100_000 + '1 }}',
    'minus 10^5 times': '{{ ' + '-' * 100_000 + '1 }}',
    'attributes 10^5 long': '{{ a' + '.b' * 100_000 + ' }}',
    'filters 10^5 long': '{{ 1' + '|abs' * 100_000 + ' }}',
    'sums 10^5 long': '{{ 1' + '+1' * 100_000 + ' }}',
    'powers 10^5 long': '{{ 1' + '**1' * 100_000 + ' }}',
    'joins 10^5 long': '{{ 1' + '~1' * 100_000 + ' }}',
    'conditions 10^5 long': '{{ ' + '1 if 1 else ' * 60_000 + '1 }}',
    'if 10^5 deep': '{% if 1 %}' * 60_000,
    'elif 10^5 long': '{% if 0 %}' + '{% elif 0 %}' * 60_000 + '{% endif %}',
    'comments begun 10^5 times': '{#' * 300_000,
    'tags begun 10^5 times': '{{' * 300_000,
    'raw begun 10^5 times': '{% raw %}' * 80_000,
    '100,000 tags': '{{1}}' * 100_000,
    'a number of 10^5 digits': '{{ ' + '9' * 100_000 + ' }}',
    'a string of 10^5 escapes': "{{ '" + '\\x41' * 200_000 + "' }}",
    'nothing': '',
    'a NUL': '{{ "\x00" }}\x00',
}


def render_body(source: str) -> dict:
    return chat_body(chat_template=source, max_tokens=2)


def render(arena, source: str) -> tuple:
    """(status, seconds, the longest that /live waited meanwhile)."""
    port = arena.port('templates')
    prober = Crowd(watch_probe, port, '/live', observer=True)
    time.sleep(0.1)
    begin = time.monotonic()
    status = status_of(port, 'POST', CHAT, render_body(source), timeout=5.0 * STRETCH)
    took = time.monotonic() - begin
    if status == 'timeout':
        arena.kill('templates')  # nothing else would come through
    seen = prober.finish(10.0)[0]
    return status, took, max(seen['took'], default=0.0) if isinstance(seen, dict) else 0.0


def _one(name: str):
    source = TEMPLATES[name]

    def run(arena, checks) -> None:
        status, took, waited = render(arena, source)
        checks.expect(status in ('200', '400', '413'), status)
        checks.in_time(took, WITHIN * STRETCH, 'the answer')
        checks.in_time(waited, LIVE_WITHIN * STRETCH, '/live meanwhile')
        checks.note(f'{status} in {ms(took)}, /live at most {ms(waited)}')
    probe('templates', name)(run)


for _name in TEMPLATES:
    _one(_name)

LOADS = {'nested loops': TEMPLATES['nested loops'], 'big searches': BIG + "{{ (a + 'b') in b }}",
         'strings that double':
             TEMPLATES['a string that doubles'], 'shared values': TEMPLATES['2^40 by sharing, compared'],
         'templates of 300,000 comments': TEMPLATES['comments begun 10^5 times']}


def _load(name: str, source: str):
    payload = encoded(render_body(source))
    flood(f'8 clients of {name}', hammer, lambda port: (request(port, 'POST', CHAT, payload),),
          kind='templates', worker='templates')


for _name in LOADS:
    _load(_name, LOADS[_name])


def spin(stop, core: int) -> int:
    """Somebody else on the worker's core."""
    if len(CORES) > 1:
        os.sched_setaffinity(0, {core})
    os.nice(-int(os.nice(0)))  # as important as the worker, as far as that is allowed
    while not stop.is_set():
        for _ in range(10_000):
            pass
    return 0


@probe('templates', 'an honest long chat on a machine that is busy')
def honest_on_a_busy_machine(arena, checks) -> None:
    """The budget counts work: what is honest at an idle moment is honest at a busy one."""
    port = arena.port('tiny')
    body = chat_body(messages=[{'role': 'user', 'content': ''}] * 4_000, max_tokens=2)
    quiet = status_of(port, 'POST', CHAT, body)
    rule = "{% for i in range(40000) %}{% if i % 7 == 3 %}{% endif %}{% endfor %}x"
    alone = status_of(arena.port('templates'), 'POST', CHAT, render_body(rule))
    times = 1 if SANITIZED else 4
    with Crowd(spin, WORKER_CORE, count=12) as crowd:
        time.sleep(0.5)
        statuses = [status_of(port, 'POST', CHAT, body, timeout=60.0) for _ in range(times)]
        ruled = [status_of(arena.port('templates'), 'POST', CHAT, render_body(rule), timeout=60.0)
                 for _ in range(times)]
        crowd.finish(10.0)
    checks.expect(set(statuses) == {quiet}, f'4,000 messages: {quiet} alone, {set(statuses)} beside others')
    checks.expect(set(ruled) == {alone}, f'a long loop: {alone} alone, {sorted(set(ruled))} beside 12 others')
    checks.note(f'{quiet} and {alone}')


@probe('templates', 'not allowed unless the operator says so')
def not_allowed(arena, checks) -> None:
    got = status_of(arena.port('tiny'), 'POST', CHAT, render_body('x'))
    checks.expect(got == '400', got)
