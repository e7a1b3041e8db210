"""worker-orcd-pod: what it writes is what it wrote before, and what the Kubernetes API takes; what it
refuses, it refuses in words."""
import copy
import json
import os
import subprocess
from pathlib import Path

import pytest

from policies import Policy, documents
from worker_process import BUILD, PROJECT

POD = BUILD / 'worker-orcd-pod'
ETC = PROJECT / 'etc' / 'kubernetes'
DATA = PROJECT / 'test' / 'data' / 'kubernetes'
CASES = sorted(path.stem for path in DATA.glob('*.yaml'))


def run(*words: str, text: str = '') -> subprocess.CompletedProcess:
    return subprocess.run([str(POD), *words], input=text.encode(), capture_output=True, timeout=60)


def generated(spec: Path) -> dict:
    made = run('generate', str(spec))
    assert made.returncode == 0, made.stderr.decode()
    return json.loads(made.stdout)


def of_kind(manifest: dict, kind: str) -> dict:
    return next(item for item in manifest['items'] if item['kind'] == kind)


@pytest.mark.parametrize('case', CASES)
def test_reconciliation_gives_the_manifest_that_is_kept(case, schemas):
    """ORCD_WRITE_GOLDENS=1 writes them anew; the difference is then read by whoever commits it."""
    made = run('generate', str(DATA / f'{case}.yaml'))
    assert made.returncode == 0 and not made.stderr, made.stderr.decode()
    golden = DATA / f'{case}.json'
    if os.environ.get('ORCD_WRITE_GOLDENS'):
        golden.write_bytes(made.stdout)
    assert made.stdout.decode() == golden.read_text()
    for item in json.loads(made.stdout)['items']:
        schemas(item)


def test_a_misspelt_field_would_be_seen(schemas):
    deployment = of_kind(generated(DATA / 'failover.yaml'), 'Deployment')
    for container in ('containers', 'initContainers'):
        wrong = copy.deepcopy(deployment)
        wrong['spec']['template']['spec'][container][0]['startupProb'] = {}
        with pytest.raises(ValueError, match='startupProb'):
            schemas(wrong)


def test_the_example_is_generated(schemas):
    for item in generated(ETC / 'failover-spec.yaml')['items']:
        schemas(item)


def test_a_specification_from_standard_input():
    text = (DATA / 'failover.yaml').read_text()
    assert run('generate', '-', text=text).stdout == run('generate', str(DATA / 'failover.yaml')).stdout
    assert run('validate', '-', text=text).stdout == b''


@pytest.mark.parametrize('change, told', [
    (('componentType: worker', 'componentType: frontend'), 'failover is only valid on componentType worker'),
    (('replicas: 1', 'multinode: {nodeCount: 2}'), 'failover is not supported with multinode deployments'),
    (('gpu: "1"', 'gpu: "0"'), 'failover requires resources.limits.gpu >= 1'),
    (('replicas: 1', 'replica: 1'), 'replica: unknown field'),
    (('"--model", ', ''), 'args: no --model says what is served'),
    (('replicas: 1', 'weights: none'), "weights: is 'none'; it must be shared or own"),
    (('replicas: 1', 'nodeSelector: {pool: 1}'),
     'nodeSelector.pool: must be a string; numbers and true or false need quotes'),
    (('replicas: 1', 'tolerations: [{operator: Equal}]'),
     'tolerations[0].key: is missing; only operator Exists needs none'),
    (('enabled: true', 'enabled: yes'), 'failover.enabled: must be true or false'),
])
def test_refusals_are_one_line_each(change, told):
    text = (DATA / 'failover.yaml').read_text()
    assert change[0] in text
    for command in ('validate', 'generate'):
        refused = run(command, '-', text=text.replace(*change))
        assert (refused.returncode, refused.stdout) == (1, b'')
        assert refused.stderr.decode().splitlines() == [f'-: {told}']


def test_wrong_usage_ends_with_2(tmp_path):
    for words in ((), ('generate',), ('apply', 'x'), ('generate', 'a', 'b'),
                  ('validate', str(tmp_path / 'no')), ('validate', str(tmp_path))):
        refused = run(*words)
        assert refused.returncode == 2, words
        assert refused.stderr.startswith(b'worker-orcd-pod: ') and not refused.stdout
    os.mkfifo(tmp_path / 'pipe')
    refused = run('validate', str(tmp_path / 'pipe'))
    assert refused.returncode == 2 and b'/pipe: is a pipe; it must be a plain file' in refused.stderr
    assert run('--help').returncode == 0 and run('--version').stdout.startswith(b'worker-orcd-pod ')


def test_the_policies_are_objects_of_the_api(schemas):
    for document in documents(ETC / 'failover-policy.yaml'):
        schemas(document)


@pytest.fixture(scope='module')
def policies(schemas):
    return [Policy(d) for d in documents(ETC / 'failover-policy.yaml')
            if d['kind'] == 'ValidatingAdmissionPolicy']


@pytest.fixture
def refusals(policies):
    return lambda one: [text for policy in policies for text in policy.refusals(one)]


@pytest.mark.parametrize('case', CASES)
def test_the_policy_takes_what_is_generated(case, refusals):
    for item in generated(DATA / f'{case}.yaml')['items']:
        assert refusals(item) == []


def labels_of(deployment):
    return deployment['spec']['template']['metadata']['labels']


def drop_claims(deployment):
    pod = deployment['spec']['template']['spec']
    del pod['resourceClaims']


def same_engine_twice(deployment):
    containers = deployment['spec']['template']['spec']['containers']
    containers[1] = copy.deepcopy(containers[0])


@pytest.mark.parametrize('change, told', [
    (lambda d: labels_of(d).update({'app.kubernetes.io/component': 'frontend'}),
     'failover is only valid on componentType worker'),
    (drop_claims, 'failover requires resources.limits.gpu >= 1'),
    (lambda d: d['spec']['template']['spec']['containers'][0]['resources'].pop('claims'),
     'failover requires resources.limits.gpu >= 1'),
    (same_engine_twice,
     'failover needs one engine with ENGINE_ID 0 and one with 1, or worker-orcd-holder --run'),
    (lambda d: d['spec']['template']['spec']['initContainers'][0].pop('restartPolicy'),
     'failover needs the holder as an init container with restartPolicy Always'),
    (lambda d: d['spec']['template']['spec'].pop('shareProcessNamespace'),
     'failover needs shareProcessNamespace, without which the holder cannot end an engine that hangs'),
    (lambda d: d['spec']['template']['spec'].pop('initContainers'),
     'failover needs the holder as an init container with restartPolicy Always'),
])
def test_the_policy_refuses_what_the_validator_refuses(change, told, refusals):
    deployment = of_kind(generated(DATA / 'failover.yaml'), 'Deployment')
    change(deployment)
    assert refusals(deployment) == [told]
    labels_of(deployment)['worker-orcd/failover'] = 'disabled'
    assert refusals(deployment) == []


def test_the_policy_wants_a_gpu_without_claims_too(refusals):
    deployment = of_kind(generated(DATA / 'failover-one-container.yaml'), 'Deployment')
    container = deployment['spec']['template']['spec']['containers'][0]
    container['resources']['limits']['nvidia.com/gpu'] = '0'
    assert refusals(deployment) == ['failover requires resources.limits.gpu >= 1']


def test_the_policy_knows_groups_of_nodes(refusals):
    template = of_kind(generated(DATA / 'failover.yaml'), 'Deployment')['spec']['template']
    group = {'apiVersion': 'leaderworkerset.x-k8s.io/v1', 'kind': 'LeaderWorkerSet',
             'spec': {'leaderWorkerTemplate': {'size': 2, 'workerTemplate': template}}}
    assert refusals(group) == ['failover is not supported with multinode deployments']
    template['metadata']['labels']['worker-orcd/failover'] = 'disabled'
    assert refusals(group) == []
