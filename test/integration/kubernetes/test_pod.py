"""Generated pods, run by the small kubelet of kubelet.py with real processes on ORCD_BACKEND's backend, each
container in name spaces of its own."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from engines import ask, status  # noqa: E402
from http_client import Connection  # noqa: E402
from kubelet import Pod, process_environment  # noqa: E402
from spaces import ONLY_ROOT  # noqa: E402
from worker_process import BACKEND, BUILD, PATIENCE, PROJECT, STRETCH, wait_until  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason=ONLY_ROOT)

SPEC = f"""
name: pair
failover: {{enabled: true}}
resources: {{limits: {{gpu: 1}}}}
image: example/worker-orcd:1
args: ["--backend", "{BACKEND}", "--model", "/models/tiny.gguf"]
drainTimeout: 10
model: {{persistentVolumeClaim: models}}
"""
# The kubelet ends an engine that hangs before the holder does, which waits for ten seconds.
IMPATIENT = SPEC + 'probes: {liveness: {timeoutSeconds: 2, failureThreshold: 2}}\n'
# The kubelet leaves it to the holder to end an engine that hangs.
PATIENT = SPEC + 'probes: {liveness: {failureThreshold: 100000}}\n'


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
        model.parent.chmod(0o755)  # the pod's user is another one
        pod = Pod(spec, tmp_path, BUILD, {'model': model.parent}, process_environment(), also=(PROJECT,),
                  **options)
        pods.append(pod)
        return pod.start(wait)
    yield start
    for pod in pods:
        pod.abandon()
        print(pod.logs())  # shown where the test failed


def complete(pod: Pod) -> Pod:
    wait(lambda: pod.ready and sorted(states(pod)) == ['ACTIVE', 'STANDBY'], 'one engine serves, one waits')
    return pod


@pytest.fixture
def pair(run_pod):
    """Both engines and the holder."""
    return complete(run_pod(template_of(SPEC)))


def state(pod: Pod, name: str):
    with pod.network():
        answer = ask(pod[name].port('system-' + name[-1]), '/health')
    return None if answer is None else answer.json()['failover_state']


def states(pod: Pod) -> list:
    return [str(state(pod, name)) for name in ('engine-0', 'engine-1')]


def answers(pod: Pod, path: str):
    """The status of the serving port."""
    with pod.network():
        return status(8080, path)


def serves(pod: Pod) -> bool:
    return answers(pod, '/ready') == 200


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


def test_an_engine_that_does_not_move_is_ended_by_its_probe(run_pod):
    pod = complete(run_pod(template_of(IMPATIENT)))
    serve_by(pod, 'engine-0')
    pod['engine-0'].process.send_signal(signal.SIGSTOP)
    wait(lambda: state(pod, 'engine-1') == 'ACTIVE', 'engine-1 serves')
    wait(lambda: serves(pod), 'requests are served')
    assert pod['engine-0'].killed_for == ['liveness'] and pod['holder'].events('engine_hangs') == []


def test_an_engine_that_does_not_move_is_ended_by_the_holder(run_pod):
    """From a container of its own, which sees the processes of the others. It is told once."""
    pod = complete(run_pod(template_of(PATIENT)))
    serve_by(pod, 'engine-0')
    pod['engine-0'].process.send_signal(signal.SIGSTOP)
    wait(lambda: state(pod, 'engine-1') == 'ACTIVE', 'engine-1 serves')
    wait(lambda: pod['engine-0'].restarts > 0, 'engine-0 is restarted')
    assert pod['engine-0'].exits[-1] == -signal.SIGKILL and pod['engine-0'].killed_for == []
    assert [one['engine_id'] for one in pod['holder'].events('engine_hangs')] == [0]
    assert pod['holder'].events('engine_not_killed') == []


def test_a_holder_that_sees_no_process_of_the_others_says_so(run_pod):
    """As pods without shareProcessNamespace are: the stand-by waits, and nobody is said to be killed."""
    pod = complete(run_pod({**template_of(PATIENT), 'shareProcessNamespace': False}))
    serve_by(pod, 'engine-0')
    pod['engine-0'].process.send_signal(signal.SIGSTOP)
    wait(lambda: pod['holder'].events('engine_not_killed'), 'the holder cannot end it')
    assert pod['holder'].events('engine_hangs') == [] and state(pod, 'engine-1') == 'STANDBY'
    pod['engine-0'].process.kill()
    wait(lambda: state(pod, 'engine-1') == 'ACTIVE', 'engine-1 serves')
    assert len(pod['holder'].events('engine_not_killed')) == 1


@pytest.mark.parametrize('dra', [True, False])
def test_engines_of_a_pod_share_their_weights(run_pod, dra):
    pod = run_pod(template_of(SPEC + ('' if dra else 'dra: false\n')))
    log = pod['engine-1' if dra else 'engines']
    wait(lambda: pod.ready and log.events('weights_imported'), 'one engine has what the other one loaded')
    assert log.events('weights_imported')[0]['kv_cache'] == 'shared'


def test_engines_with_weights_of_their_own(run_pod):
    pod = complete(run_pod(template_of(SPEC + 'weights: own\n')))
    assert not any(c.events('weights_imported') + c.events('weights_shared') for c in pod.main)


def test_keys_of_a_secret_are_asked_for(run_pod):
    spec = SPEC + """
apiKeyFile: {secret: chat, key: all}
env: [{name: WORKER_ORCD_MODEL_NAME, valueFrom: {secretKeyRef: {name: chat, key: name}}}]
"""
    data = {'all': 'a-key-of-tests ours\n', 'name': 'alpha'}
    pod = complete(run_pod(template_of(spec), secrets={'chat': data}))
    told = {}
    for key in ('another', 'a-key-of-tests'):
        with pod.network(), Connection(8080, timeout=PATIENCE) as connection:
            connection.request('GET', '/v1/models', headers={'Authorization': f'Bearer {key}'})
            told[key] = connection.read_response()
    assert told['another'].status == 401 and told['a-key-of-tests'].status == 200
    assert 'alpha' in told['a-key-of-tests'].body.decode()
    assert not any(c.events('api_key_file_open') for c in pod.main)


def test_containers_are_apart_as_the_pod_says(pair):
    """Else the tests above would show nothing: who sees whose processes, and what can be written."""
    def told(container: str, script: str) -> str:
        words = pair[container].inside(['sh', '-c', script])
        return subprocess.run(words, capture_output=True, timeout=60, check=True).stdout.decode()
    programs = 'for one in /proc/[0-9]*; do tr "\\0" " " <$one/cmdline; echo; done'
    seen = told('holder', programs)
    assert len(re.findall(r'^worker-orcd .*--model', seen, re.M)) == 2 and 'pytest' not in seen
    assert told('engine-0', 'id -u; id -g').split() == ['10001', '10001']
    for place, works in {'/': False, '/models': False, '/etc': False, '/tmp': True, '/shared': True}.items():
        made = told('engine-0', f'cd {place} && touch mine 2>&1 && echo yes; true')
        assert (made == 'yes\n') == works, place
    assert told('engine-1', 'ls /tmp; cd /shared; ls mine').split() == ['mine', 'mine']
    # The holder has no /tmp of its own, and its root is for reading.
    assert told('holder', 'touch /tmp/mine 2>&1 && echo yes; true') != 'yes\n'
    assert told('holder', 'ls /models 2>/dev/null; true') == ''
    assert told('engine-0', 'grep CapEff /proc/1/status /proc/self/status | cut -f2').split()[1] == '0' * 16


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
    assert answers(pair, '/live') is None


def test_a_model_that_is_missing_is_tried_again_and_never_ready(run_pod):
    pod = run_pod(template_of(SPEC.replace('tiny.gguf', 'none.gguf')), speed=100.0)
    wait(lambda: all(c.restarts >= 2 for c in pod.main), 'both are restarted')
    assert not pod.ready and {code for c in pod.main for code in c.exits} == {1}


def test_without_claims_one_container_runs_both(run_pod):
    pod = run_pod(template_of(SPEC + 'dra: false\n'))
    wait(lambda: pod.ready and serves(pod), 'one engine serves')
    assert [c.name for c in pod.all] == ['engines']
    took = pod.delete()
    assert took < pod.grace + STRETCH * 10


def test_the_deployment_of_etc_runs_and_drains(run_pod):
    yaml = pytest.importorskip('yaml')
    documents = yaml.safe_load_all((PROJECT / 'etc' / 'kubernetes' / 'worker.yaml').read_text())
    spec = next(d for d in documents if d['kind'] == 'Deployment')['spec']['template']['spec']
    words = spec['containers'][0]['args']
    words[words.index('/models/model.gguf')] = '/models/tiny.gguf'
    pod = run_pod({**spec, 'containers': [{**spec['containers'][0], 'args': [*words, '--backend', BACKEND]}]})
    wait(lambda: pod.ready and serves(pod), 'it serves')
    took = pod.delete()
    assert took < pod.grace + STRETCH * 10 and pod.main[0].exits == [0]
