"""The alerts in a fleet of four hosts with a pair of engines each, evaluated by promtool: what happens at one
host is told of that host, by the alerts that are about it alone; what clients do wrong is told by none."""
import json
from pathlib import Path
from typing import Dict, List

import pytest

from test_metrics import PROMTOOL
from test_monitoring import RULES, promtool

HOSTS = ['host1', 'host2', 'host3', 'host4']
MINUTES = 70        # of which the state that is asked about has lasted the last half hour
BEGIN = 40
ALERTS = [line.split()[-1] for line in RULES.read_text().splitlines() if '- alert:' in line]
# Alerts, but for their labels: severity, summary.
TOLD = {
    'WorkerDown': ('critical', '{instance} does not answer'),
    'WorkerUnhealthy': ('critical', '{instance} is unhealthy: reason in its /health says why'),
    'WorkerDegraded': ('warning', '{instance} goes on with less: reason in its /health says why'),
    'WorkerDoesNotMove': ('critical', '{instance} has a job and took no step for 45s'),
    'WorkerNotResident': ('critical', '{instance} has not all of the model in VRAM'),
    'WorkerAllocatedAfterReady': ('warning',
                                  '{instance} allocated device memory after it was ready, which is a defect'),
    'WorkerErrors': ('critical', '20% of the requests of {instance} fail'),
    'WorkerRefuses': ('warning', '{instance} has no room for 20% of its requests'),
    'WorkerQueueStands': ('warning', 'Requests have waited at {instance} for 15 minutes without a pause'),
    'WorkerFirstTokenSlow': ('warning', 'One in twenty first tokens of {instance} takes over 9.75s'),
    'WorkerConnectionsRefused': ('warning',
                                 '{instance} has as many connections as it may have, in all or from one '
                                 'address'),
    'FailoverNobodyServes': ('critical', 'No engine of {pair} serves'),
    'FailoverNoStandby': ('warning', 'Nobody would take over from the engine of {pair}'),
    'FailoverHolderAway': ('warning',
                           'The connections of {pair} would end with its engine: its holder is away'),
    'FailoverConflicts': ('warning',
                          '{instance} closed connections of which journal and kernel say different things'),
    'FailoverOften': ('warning', 'Engines of {pair} took over more than three times in an hour'),
}
LABELS = {'WorkerUnhealthy': {'status': 'unhealthy'}, 'WorkerDegraded': {'status': 'degraded'}}


def steady(value: float) -> str:
    return f'{value}x{MINUTES}'


def then(before: str, after: str) -> str:
    """One value until BEGIN, another from then on; '_': there is no sample."""
    return f'{before}x{BEGIN - 1} {after}x{MINUTES - BEGIN + 1}'


def rising(by: float) -> str:
    """A counter that rises by this much a minute."""
    return f'0+{by}x{MINUTES}'


class Engine:
    """The series of one engine, by name with labels but for job and instance."""

    def __init__(self, instance: str, serves: bool, labels: Dict[str, str]):
        self.labels = {'job': 'worker-orcd', 'instance': instance, **labels}
        self.series: Dict[str, str] = {
            'up': steady(1), 'worker_resident': steady(1), 'worker_gpu_step_age_seconds': steady(0),
            'worker_post_ready_allocations_total': steady(0), 'worker_requests_waiting': steady(0),
            'worker_connections_refused_total': steady(0), 'orcd_failover_holder_connected': steady(1),
            'worker_info{backend="cuda"}': steady(1),
        }
        self.is_in('ACTIVE' if serves else 'STANDBY')
        self.health('healthy')
        state = 'busy' if serves else 'starting'
        self.series[f'worker_state{{state="{state}"}}'] = steady(1)
        for outcome in ('completed', 'error', 'timeout', 'cancelled', 'disconnected', 'refused'):
            self.counts('worker_requests_total', 'outcome', outcome,
                        80 if serves and outcome == 'completed' else 0)
        for cause in ('client', 'deadline', 'overload', 'unavailable', 'fault'):
            self.counts('worker_request_failures_total', 'cause', cause, 0)
        self.takes(0.1 if serves else 0)
        self.series['orcd_failover_transitions_total{to="ACTIVE"}'] = steady(1 if serves else 0)
        if serves:
            self.series['orcd_failover_conflicts_total'] = steady(0)
            self.series['orcd_failover_state_age_seconds'] = rising(60)

    def is_in(self, state: str) -> None:
        for one in ('INIT', 'STANDBY', 'ACTIVE'):
            self.series[f'orcd_failover_state{{state="{one}"}}'] = steady(int(one == state))

    def health(self, status: str) -> None:
        for one in ('healthy', 'degraded', 'unhealthy'):
            self.series[f'worker_health{{status="{one}"}}'] = steady(int(one == status))

    def counts(self, name: str, label: str, value: str, by: float) -> None:
        self.series[f'{name}{{{label}="{value}"}}'] = rising(by)

    def takes(self, seconds: float) -> None:
        """To its first tokens."""
        for bound in ('0.1', '5', '10', '+Inf'):
            self.series[f'worker_time_to_first_token_seconds_bucket{{le="{bound}"}}'] = rising(
                80 if 0 < seconds <= float(bound.replace('+', '')) else 0)

    def dies(self) -> None:
        """Its last samples are those before BEGIN, but for up."""
        self.series = {name: then(values.split('x')[0], '_') for name, values in self.series.items()}
        self.series['up'] = then('1', '0')

    def written(self) -> List[Dict[str, str]]:
        own = ','.join(f'{k}="{v}"' for k, v in self.labels.items())
        out = []
        for name, values in self.series.items():
            base, _, labels = name.rstrip('}').partition('{')
            out.append({'series': f'{base}{{{own}{"," if labels else ""}{labels}}}', 'values': values})
        return out


class Pair:
    def __init__(self, host: str, ports=(9090, 9091), name: str = ''):
        labels = {'pair': name} if name else {}
        self.host, self.name = host, name
        self.active = Engine(f'{host}:{ports[0]}', True, labels)
        self.standby = Engine(f'{host}:{ports[1]}', False, labels)

    def written(self) -> List[Dict[str, str]]:
        return self.active.written() + self.standby.written()

    def told(self, alert: str, engine: Engine = None) -> dict:
        severity, summary = TOLD[alert]
        labels = {'job': 'worker-orcd', **({'pair': self.name} if self.name else {})}
        if alert == 'WorkerDown' or not engine:
            labels['host'] = self.host
        if engine:
            labels['instance'] = engine.labels['instance']
        pair = f'{self.host} pair {self.name}' if self.name else self.host
        return {'exp_labels': {'severity': severity, **LABELS.get(alert, {}), **labels},
                'exp_annotations': {'summary': summary.format(pair=pair, instance=labels.get('instance'))}}


def nothing(_: Pair) -> dict:
    return {}


def clients_mistakes(pair: Pair) -> dict:
    """Nine in ten requests are refused for what is in them; of the others many run into the client's own
    limit, or their clients go away."""
    serving = pair.active
    serving.counts('worker_requests_total', 'outcome', 'refused', 720)
    serving.counts('worker_request_failures_total', 'cause', 'client', 720)
    serving.counts('worker_request_failures_total', 'cause', 'deadline', 40)
    for outcome in ('timeout', 'disconnected', 'cancelled'):
        serving.counts('worker_requests_total', 'outcome', outcome, 40)
    return {}


def standby_starts(pair: Pair) -> dict:
    """It has loaded for four minutes, and is not asked to serve."""
    before, since = f'x{MINUTES - 4}', 'x3'
    pair.standby.series['worker_resident'] = f'1{before} 0{since}'
    pair.standby.series['orcd_failover_state{state="STANDBY"}'] = f'1{before} 0{since}'
    pair.standby.series['orcd_failover_state{state="INIT"}'] = f'0{before} 1{since}'
    return {}


def takeover(pair: Pair) -> dict:
    """The engine that served is gone, and the other serves: nobody is without service."""
    pair.active.dies()
    pair.standby.series['orcd_failover_state{state="ACTIVE"}'] = then('0', '1')
    pair.standby.series['orcd_failover_state{state="STANDBY"}'] = then('1', '0')
    return {'FailoverNoStandby': [pair.told('FailoverNoStandby')]}


def standby_gone(pair: Pair) -> dict:
    pair.standby.dies()
    return {'FailoverNoStandby': [pair.told('FailoverNoStandby')]}


def both_gone(pair: Pair) -> dict:
    pair.active.dies()
    pair.standby.dies()
    return {'WorkerDown': [pair.told('WorkerDown', engine) for engine in (pair.active, pair.standby)]}


def nobody_serves(pair: Pair) -> dict:
    pair.active.is_in('STANDBY')
    return {'FailoverNobodyServes': [pair.told('FailoverNobodyServes')]}


def holder_away(pair: Pair) -> dict:
    for engine in (pair.active, pair.standby):
        engine.series['orcd_failover_holder_connected'] = then('1', '0')
        engine.health('degraded')
    return {'FailoverHolderAway': [pair.told('FailoverHolderAway')]}


def crash_after_crash(pair: Pair) -> dict:
    """Engines die in turn, and come back as stand-bys that have not taken over yet."""
    count = 'orcd_failover_transitions_total{to="ACTIVE"}'
    pair.active.series[count] = '1x9 _x1 0x9 1x9 _x1 0x9 1x9 _x1 0x22'
    pair.standby.series[count] = '0x9 1x10 _x1 0x9 1x9 _x1 0x9 1x22'
    return {'FailoverOften': [pair.told('FailoverOften')]}


def conflicts(pair: Pair) -> dict:
    """An engine counts from its takeover on."""
    pair.active.series['orcd_failover_conflicts_total'] = then('_', '2')
    pair.active.series['orcd_failover_state_age_seconds'] = then('_', '0+60')
    return {'FailoverConflicts': [pair.told('FailoverConflicts', pair.active)]}


def serving(alert: str, change):
    """An alert about the engine that serves."""
    def happen(pair: Pair) -> dict:
        change(pair.active)
        return {alert: [pair.told(alert, pair.active)]}
    happen.__name__ = alert
    return happen


def among_mistakes(change):
    """Clients' mistakes do not hide what goes wrong."""
    def both(engine: Engine) -> None:
        engine.counts('worker_requests_total', 'outcome', 'refused', 7200)
        engine.counts('worker_request_failures_total', 'cause', 'client', 7200)
        change(engine)
    return both


def fails(engine: Engine) -> None:
    engine.counts('worker_requests_total', 'outcome', 'error', 20)
    engine.counts('worker_request_failures_total', 'cause', 'fault', 20)


def has(name: str, values: str):
    return lambda engine: engine.series.update({name: values})


CASES = [
    nothing, clients_mistakes, standby_starts, takeover, standby_gone, both_gone, nobody_serves, holder_away,
    crash_after_crash, conflicts,
    serving('WorkerUnhealthy', lambda engine: engine.health('unhealthy')),
    serving('WorkerDegraded', lambda engine: engine.health('degraded')),
    serving('WorkerDoesNotMove', has('worker_gpu_step_age_seconds', steady(45))),
    serving('WorkerNotResident', has('worker_resident', steady(0))),
    serving('WorkerAllocatedAfterReady', has('worker_post_ready_allocations_total', rising(1))),
    serving('WorkerErrors', among_mistakes(fails)),
    serving('WorkerRefuses', among_mistakes(
        lambda engine: engine.counts('worker_request_failures_total', 'cause', 'overload', 20))),
    serving('WorkerQueueStands', has('worker_requests_waiting', steady(3))),
    serving('WorkerFirstTokenSlow', lambda engine: engine.takes(8)),
    serving('WorkerConnectionsRefused', has('worker_connections_refused_total', rising(5))),
]


def judged(pairs: List[Pair], expected: dict) -> dict:
    asked = [{'alertname': alert, 'eval_time': f'{MINUTES}m', 'exp_alerts': expected.get(alert, [])}
             for alert in ALERTS]
    return {'interval': '1m', 'input_series': [series for pair in pairs for series in pair.written()],
            'alert_rule_test': asked}


def check(tests: List[dict], folder: Path) -> None:
    path = folder / 'fleet.yml'
    path.write_text(json.dumps({'rule_files': [str(RULES)], 'evaluation_interval': '1m', 'tests': tests}))
    promtool('test', 'rules', str(path))


@pytest.mark.parametrize('happen', CASES, ids=lambda case: case.__name__)
def test_a_host_has_its_alerts_and_no_other_has(happen, tmp_path):
    tests = []
    for at in (0, len(HOSTS) - 1):
        pairs = [Pair(host) for host in HOSTS]
        tests.append(judged(pairs, happen(pairs[at])))
    check(tests, tmp_path)


@pytest.mark.parametrize('happen', [case for case in CASES if case not in (nothing, clients_mistakes)],
                         ids=lambda case: case.__name__)
def test_two_pairs_of_a_host_are_told_apart_by_name(happen, tmp_path):
    pairs = [Pair('host1', (9090, 9091), 'a'), Pair('host1', (9092, 9093), 'b'), Pair('host2')]
    check([judged(pairs, happen(pairs[1]))], tmp_path)


def test_every_alert_has_a_case():
    pairs = {case.__name__: case(Pair('host')) for case in CASES}
    assert {alert for told in pairs.values() for alert in told} == set(ALERTS) == set(TOLD)


def test_the_sample_of_a_scrape_configuration_is_one():
    if not PROMTOOL:
        pytest.skip('promtool is not here (tools/promtool.sh)')
    promtool('check', 'config', str(RULES.parent / 'scrape.yml'))
