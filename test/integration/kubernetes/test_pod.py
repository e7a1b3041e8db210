"""Generated pods, run by the small kubelet of kubelet.py with real processes on the host backend."""
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from engines import ask, status  # noqa: E402
from kubelet import Pod, process_environment  # noqa: E402
from ports import free_port  # noqa: E402
from worker_process import BUILD, PATIENCE, PROJECT, STRETCH, wait_until  # noqa: E402

SPEC = """
name: pair
failover: {enabled: true}
resources: {limits: {gpu: 1}}
image: example/worker-orcd:1
args: ["--backend", "host", "--model", "/models/tiny.gguf"]
drainTimeout: 10
model: {persistentVolumeClaim: models}
"""
# Both sides of it: the program, and engines that know it.
HOLDER = (BUILD / 'worker-orcd-holder').exists() and b'--holder' in subprocess.run(
    [str(BUILD / 'worker-orcd'), '--help'], stdout=subprocess.PIPE, check=True, timeout=60).stdout


def wait(condition, what: str):
    return wait_until(condition, PATIENCE * STRETCH, what, 0.02)


def template_of(text: str) -> dict:
    made = subprocess.run([str(BUILD / 'worker-orcd-pod'), 'generate', '-'], input=text.encode(),
                          capture_output=True, timeout=60)
    assert made.returncode == 0, made.stderr.decode()
    deployment = next(i for i in json.loads(made.stdout)['items'] if i['kind'] == 'Deployment')
    return deployment['spec']['template']['spec']


@pytest.fixture
def run_pod(tmp_path, models):
    pods = []

    def start(spec: dict, **options) -> Pod:
        model = models('tiny', '--context', '1024')
        pod = Pod(spec, tmp_path, BUILD, {'model': model.parent}, free_port, process_environment(), **options)
        pods.append(pod)
        return pod.start(wait)
    yield start
    for pod in pods:
        pod.abandon()
        print(pod.logs())  # shown where the test failed


@pytest.fixture
def pair(run_pod):
    """Both engines and the holder; without the holder's program the engines have the serving port in turn."""
    pod = run_pod(template_of(SPEC), without=() if HOLDER else ('holder',))
    wait(lambda: pod.ready and sorted(states(pod)) == ['ACTIVE', 'STANDBY'], 'one engine serves, one waits')
    return pod


def state(pod: Pod, name: str):
    answer = ask(pod[name].port('system-' + name[-1]), '/health')
    return None if answer is None else answer.json()['failover_state']


def states(pod: Pod) -> list:
    return [str(state(pod, name)) for name in ('engine-0', 'engine-1')]


def serving_port(pod: Pod) -> int:
    return pod.ports[8080]


def serves(pod: Pod) -> bool:
    return status(serving_port(pod), '/ready') == 200


def serve_by(pod: Pod, name: str) -> None:
    """That engine is made the one that serves, and the other one its stand-by."""
    other = 'engine-1' if name == 'engine-0' else 'engine-0'
    if state(pod, name) != 'ACTIVE':
        pod[other].process.kill()
    wait(lambda: (state(pod, name), state(pod, other)) == ('ACTIVE', 'STANDBY'), f'{name} serves')


def test_engine_0_is_killed_and_engine_1_serves(pair):
    serve_by(pair, 'engine-0')
    wait(lambda: serves(pair), 'requests are served')
    restarts = pair['engine-0'].restarts
    pair['engine-0'].process.kill()
    wait(lambda: state(pair, 'engine-1') == 'ACTIVE', 'engine-1 serves')
    wait(lambda: serves(pair), 'requests are served again')
    assert pair['engine-1'].restarts <= 1
    # The other one comes back and waits; a pod with a container that starts is not ready until then.
    wait(lambda: pair['engine-0'].restarts == restarts + 1, 'engine-0 is restarted')
    wait(lambda: state(pair, 'engine-0') == 'STANDBY' and pair.ready, 'a pair again')
    assert pair['engine-0'].exits[-1] == -signal.SIGKILL


def test_an_engine_that_does_not_move_is_ended_by_its_probe(pair):
    serve_by(pair, 'engine-0')
    pair['engine-0'].process.send_signal(signal.SIGSTOP)
    wait(lambda: state(pair, 'engine-1') == 'ACTIVE', 'engine-1 serves')
    wait(lambda: serves(pair), 'requests are served')
    if not HOLDER:  # which ends such an engine itself, and may be first
        assert pair['engine-0'].killed_for == ['liveness']


def test_a_stand_by_may_end_without_anybody_noticing(pair):
    serve_by(pair, 'engine-0')
    wait(lambda: serves(pair), 'requests are served')
    pair['engine-1'].process.kill()
    for _ in range(20):
        assert state(pair, 'engine-0') == 'ACTIVE' and serves(pair)
    wait(lambda: state(pair, 'engine-1') == 'STANDBY', 'it is back')


def test_a_pod_that_is_deleted_is_gone_in_time(pair):
    took = pair.delete()
    assert took < pair.grace + STRETCH * 10
    assert [c.exits[-1] for c in pair.main] == [0, 0]
    assert status(serving_port(pair), '/live') is None


def test_a_model_that_is_missing_is_tried_again_and_never_ready(run_pod):
    pod = run_pod(template_of(SPEC.replace('tiny.gguf', 'none.gguf')), without=() if HOLDER else ('holder',),
                  speed=100.0)
    wait(lambda: all(c.restarts >= 2 for c in pod.main), 'both are restarted')
    assert not pod.ready and {code for c in pod.main for code in c.exits} == {1}


@pytest.mark.skipif(not HOLDER, reason='there is no holder, or engines do not know it')
def test_without_claims_one_container_runs_both(run_pod):
    pod = run_pod(template_of(SPEC + 'dra: false\n'))
    wait(lambda: pod.ready and serves(pod), 'one engine serves')
    ports = [pod.ports[9090], pod.ports[9091]]
    assert [c.name for c in pod.all] == ['engines'] and ports
    took = pod.delete()
    assert took < pod.grace + STRETCH * 10


def test_the_deployment_of_etc_runs_and_drains(run_pod):
    yaml = pytest.importorskip('yaml')
    documents = yaml.safe_load_all((PROJECT / 'etc' / 'kubernetes' / 'worker.yaml').read_text())
    spec = next(d for d in documents if d['kind'] == 'Deployment')['spec']['template']['spec']
    words = spec['containers'][0]['args']
    words[words.index('/models/model.gguf')] = '/models/tiny.gguf'
    pod = run_pod({**spec, 'containers': [{**spec['containers'][0], 'args': [*words, '--backend', 'host']}]})
    wait(lambda: pod.ready and serves(pod), 'it serves')
    took = pod.delete()
    assert took < pod.grace + STRETCH * 10 and pod.main[0].exits == [0]
