"""The pod that failover was planned with, and what worker-orcd-pod writes for it: they differ in what is
listed (differences.yaml), each with its reason, and in nothing else. The plan stands as it was written
(pod.yaml); its names, image and command are what is asked for here."""
import json
import subprocess
from typing import Any, Dict, NamedTuple

import pytest

from worker_process import BUILD, PROJECT

yaml = pytest.importorskip('yaml')

DATA = PROJECT / 'test' / 'data' / 'kubernetes' / 'planned'
SPEC = """
name: vllm-failover-worker
componentType: worker
failover: {enabled: true}
resources: {limits: {gpu: "1"}}
image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:my-tag
command: ["python3", "-m", "dynamo.vllm"]
args: ["--model", "Qwen/Qwen3-0.6B"]
"""
ABSENT = 'absent'


class Difference(NamedTuple):
    planned: Any
    ours: Any


def keyed(value: Any) -> Any:
    """Lists of named things by their names: where one stands says nothing."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and 'name' in one for one in value):
        return {one['name']: {k: v for k, v in one.items() if k != 'name'} for one in value}
    return value


def differences(planned: Any, ours: Any, at: str = '') -> Dict[str, Difference]:
    """By their places; what only one of them has is one difference, however large it is."""
    if ABSENT in (planned, ours):
        return {at: Difference(planned, ours)}
    if at != 'initContainers':
        planned, ours = keyed(planned), keyed(ours)
    elif len(planned) == len(ours):
        planned, ours = dict(enumerate(planned)), dict(enumerate(ours))
    if not (isinstance(planned, dict) and isinstance(ours, dict)):
        return {} if planned == ours else {at: Difference(planned, ours)}
    found: Dict[str, Difference] = {}
    for key in [*planned, *(key for key in ours if key not in planned)]:
        found.update(differences(planned.get(key, ABSENT), ours.get(key, ABSENT),
                                 f'{at}.{key}' if at else str(key)))
    return found


def listed(probes: str) -> Dict[str, Difference]:
    """Of the pod with these probes. A place that begins with `engines` is one of both."""
    out: Dict[str, Difference] = {}
    for one in yaml.safe_load((DATA / 'differences.yaml').read_text()):
        assert one['why'] and set(one) <= {'at', 'planned', 'ours', 'why', 'probes'}, one
        if one.get('probes', probes) != probes:
            continue
        for number in ((0, 1) if one['at'].startswith('engines.') else (0,)):
            # Ports of both have their engine's number.
            this = yaml.safe_load(json.dumps(one).replace('system-N', f'system-{number}'))
            place = this['at'].replace('engines.', f'containers.engine-{number}.', 1)
            assert place not in out, f'{place} is listed twice'
            out[place] = Difference(this.get('planned', ABSENT), this.get('ours', ABSENT))
    return out


def generated(probes: str) -> dict:
    made = subprocess.run([str(BUILD / 'worker-orcd-pod'), 'generate', '-'],
                          input=f'{SPEC}probes: {probes}\n'.encode(), capture_output=True, timeout=60)
    assert made.returncode == 0, made.stderr.decode()
    (deployment,) = [item for item in json.loads(made.stdout)['items'] if item['kind'] == 'Deployment']
    return deployment['spec']['template']['spec']


@pytest.mark.parametrize('probes', ['seed', 'default'])
def test_nothing_differs_from_the_plan_but_what_is_listed(probes):
    planned = yaml.safe_load((DATA / 'pod.yaml').read_text())['spec']
    assert differences(planned, generated(probes)) == listed(probes)


def test_a_difference_is_seen_wherever_it_is():
    planned = yaml.safe_load((DATA / 'pod.yaml').read_text())['spec']

    def changed(change) -> Dict[str, Difference]:
        other = yaml.safe_load((DATA / 'pod.yaml').read_text())['spec']
        change(other)
        return differences(planned, other)

    assert changed(lambda pod: pod['containers'].reverse()) == {}
    assert changed(lambda pod: pod['containers'][0]['livenessProbe'].update(periodSeconds=6)) == {
        'containers.engine-0.livenessProbe.periodSeconds': (5, 6)}
    assert changed(lambda pod: pod['containers'][1]['env'].pop(0)) == {
        'containers.engine-1.env.ENGINE_ID': ({'value': '1'}, ABSENT)}
    assert changed(lambda pod: pod['initContainers'][0].update(name='other')) == {
        'initContainers.0.name': ('gms-weights', 'other')}
    assert changed(lambda pod: pod.update(hostNetwork=True)) == {'hostNetwork': (ABSENT, True)}
    assert list(changed(lambda pod: pod['initContainers'].clear())) == ['initContainers']
