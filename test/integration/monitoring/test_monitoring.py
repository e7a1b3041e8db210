"""Rules and dashboard for Prometheus: every expression is evaluated by a real Prometheus that scrapes a pair
of engines which serve."""
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import List

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from engines import ask  # noqa: E402
from holders import Held  # noqa: E402
from ports import free_port  # noqa: E402
from worker_process import PATIENCE, PROJECT, STRETCH, wait_until  # noqa: E402
from test_metrics import PROMTOOL  # noqa: E402

RULES = PROJECT / 'etc' / 'monitoring' / 'rules.yml'
DASHBOARD = json.loads((PROJECT / 'etc' / 'monitoring' / 'dashboard.json').read_text())
UNIT_TESTS = PROJECT / 'test' / 'data' / 'monitoring' / 'rules_test.yml'
PANELS = [panel for panel in DASHBOARD['panels'] if panel['type'] != 'row']
OURS = re.compile(r'\b(?:worker|orcd)_[a-z0-9_]+\b(?!:)')
RECORDED = re.compile(r'\b(?:instance|pair):[a-z0-9_:]+')


def expressions() -> List[str]:
    return [target['expr'] for panel in PANELS for target in panel['targets']]


def promtool(*words: str) -> None:
    if not PROMTOOL:
        pytest.skip('promtool is not here (tools/promtool.sh)')
    checked = subprocess.run([PROMTOOL, *words], capture_output=True, timeout=120)
    assert checked.returncode == 0, (checked.stdout + checked.stderr).decode()


def test_rules_are_rules():
    promtool('check', 'rules', str(RULES))


def test_every_alert_fires_for_what_it_is_about():
    promtool('test', 'rules', str(UNIT_TESTS))
    alerts = set(re.findall(r'- alert: (\w+)', RULES.read_text()))
    assert alerts and alerts == set(re.findall(r'alertname: (\w+)', UNIT_TESTS.read_text()))


class Prometheus:
    """A server of its own that scrapes `targets` each second."""

    def __init__(self, folder: Path, targets: List[str]):
        self.port = free_port()
        configuration = {'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'},
                         'rule_files': [str(RULES)],
                         'scrape_configs': [{'job_name': 'worker-orcd',
                                             'static_configs': [{'targets': targets}]}]}
        path = folder / 'prometheus.yml'
        path.write_text(json.dumps(configuration))  # which is YAML too
        self.log = open(folder / 'prometheus.log', 'wb')
        self.process = subprocess.Popen(
            [str(Path(PROMTOOL).parent / 'prometheus'), f'--config.file={path}',
             f'--storage.tsdb.path={folder / "data"}', f'--web.listen-address=127.0.0.1:{self.port}'],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def get(self, path: str, **query: str):
        url = f'http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}'
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            told = json.load(answer)
        assert told['status'] == 'success', told
        return told['data']

    def query(self, expression: str) -> list:
        return self.get('query', query=expression)['result']

    def has(self, expression: str) -> bool:
        try:
            return bool(self.query(expression))
        except OSError:
            return False

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.log.close()


@pytest.fixture(scope='module')
def prometheus(tiny_model, tmp_path_factory):
    if not PROMTOOL or not (Path(PROMTOOL).parent / 'prometheus').exists():
        pytest.skip('prometheus is not here (tools/promtool.sh)')
    folder = tmp_path_factory.mktemp('monitoring')
    with Held(tiny_model, folder) as engines:
        engines.start_holder()
        active, standby = engines.pair()
        server = Prometheus(folder, [f'127.0.0.1:{engine.system}' for engine in (active, standby)])
        server.scraped = ask(active.system, '/metrics').body.decode()
        try:
            patience = PATIENCE * STRETCH
            wait_until(lambda: server.has('sum(count_over_time(up[1m])) >= 4'), patience, 'scraped', 0.1)
            for _ in range(3):
                active.execute(max_tokens=5, ignore_eos=True)
            # Its series are there from the first response on, and a rate needs two samples.
            done = 'count(rate(worker_http_responses_total[1m])) >= 1'
            wait_until(lambda: server.has(done), patience, 'requests are seen', 0.1)
            wait_until(lambda: server.has('count(instance:worker_requests_failed:ratio5m) >= 1'), patience,
                       'rules are evaluated', 0.1)
            yield server
        finally:
            server.end()


def filled_in(expression: str) -> str:
    """As Grafana does with its variables; all instances chosen."""
    filled = expression.replace('$__rate_interval', '1m').replace('$instance', '.*')
    assert not re.search(r'\$(?!\d)', filled), filled  # a digit is a part of label_replace()'s match
    return filled


@pytest.mark.parametrize('panel', PANELS, ids=lambda p: p['title'])
def test_every_panel_shows_something(panel, prometheus):
    for target in panel['targets']:
        assert prometheus.query(filled_in(target['expr'])), target['expr']


def test_every_series_of_the_rules_is_there(prometheus):
    recorded = set(re.findall(r'- record: (\S+)', RULES.read_text()))
    names = set()
    for line in RULES.read_text().splitlines():
        if not re.match(r'\s*- (record|alert):', line):
            names |= set(OURS.findall(RECORDED.sub('', line)))
            assert set(RECORDED.findall(line)) <= recorded, line
    assert len(names) > 10
    for name in names:
        assert re.search(rf'^{name}[ {{]', prometheus.scraped, re.M), name
    for name in recorded:
        assert prometheus.query(name), name


def test_a_pair_that_serves_raises_no_alarm(prometheus):
    groups = prometheus.get('rules')['groups']
    rules = [rule for group in groups for rule in group['rules']]
    assert len(rules) > 15
    assert [r['name'] for r in rules if r['health'] != 'ok'] == []
    assert [r['name'] for r in rules if r['type'] == 'alerting' and r['state'] != 'inactive'] == []


def test_the_dashboard_is_whole():
    ids = [panel['id'] for panel in DASHBOARD['panels']]
    assert len(ids) == len(set(ids)) and DASHBOARD['schemaVersion'] == 39 and DASHBOARD['uid']
    taken = set()
    for panel in DASHBOARD['panels']:
        at = panel['gridPos']
        cells = {(x, y) for x in range(at['x'], at['x'] + at['w']) for y in range(at['y'], at['y'] + at['h'])}
        assert not cells & taken and at['x'] + at['w'] <= 24, panel['title']
        taken |= cells
    variables = {v['name'] for v in DASHBOARD['templating']['list']}
    used = set(re.findall(r'\$\{?([a-z_]\w*)', json.dumps(DASHBOARD))) - {'__rate_interval', '__all'}
    assert used == variables
    assert all(panel['targets'] for panel in PANELS) and len(expressions()) > 40
