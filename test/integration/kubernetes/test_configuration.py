"""What lies in etc/ for clusters: objects that the API takes, names that are there, a recipe without faults.
Objects of the inference gateway have no schema that could be had here: what they point to is checked."""
import json
import re
import subprocess
from pathlib import Path

import pytest

from policies import KUBERNETES, documents
from test_generate import CASES, DATA, generated, of_kind
from worker_process import BUILD, PROJECT, Worker

yaml = pytest.importorskip('yaml')
ETC = PROJECT / 'etc'
GAUGES = ('queuedRequestsSpec', 'runningRequestsSpec', 'kvUsageSpec')


def one_of(path: Path, kind: str) -> dict:
    return next(d for d in documents(path) if d['kind'] == kind)


@pytest.fixture(scope='module')
def deployment() -> dict:
    return one_of(ETC / 'kubernetes' / 'worker.yaml', 'Deployment')


def pod_templates() -> list:
    made = [of_kind(generated(DATA / f'{case}.yaml'), 'Deployment') for case in CASES]
    return [d['spec']['template'] for d in
            [one_of(ETC / 'kubernetes' / 'worker.yaml', 'Deployment'), *made]]


def selects(selector: dict, labels: dict) -> bool:
    """matchLabels and NotIn, which are all that is used here."""
    for rule in selector.get('matchExpressions', []):
        assert rule['operator'] == 'NotIn'
        if labels.get(rule['key']) in rule['values']:
            return False
    return all(labels.get(key) == value for key, value in selector.get('matchLabels', {}).items())


def ports_of(template: dict) -> dict:
    """Of ordinary containers: those by which monitors find ports."""
    return {port['name']: port['containerPort'] for container in template['spec']['containers']
            for port in container['ports']}


def test_the_deployment_is_taken(schemas):
    for document in documents(ETC / 'kubernetes' / 'worker.yaml'):
        schemas(document)


def test_a_pod_has_the_time_to_drain(deployment):
    pod = deployment['spec']['template']['spec']
    container = pod['containers'][0]
    drain = int(container['args'][container['args'].index('--drain-timeout') + 1])
    notice = container['lifecycle']['preStop']['sleep']['seconds']
    assert pod['terminationGracePeriodSeconds'] >= notice + drain + 5
    assert {'startupProbe', 'livenessProbe', 'readinessProbe'} <= set(container)


def test_the_service_finds_its_pods(deployment):
    service = one_of(ETC / 'kubernetes' / 'worker.yaml', 'Service')
    template = deployment['spec']['template']
    assert selects({'matchLabels': service['spec']['selector']}, template['metadata']['labels'])
    assert service['spec']['ports'][0]['targetPort'] in ports_of(template)


@pytest.mark.parametrize('name', ['pod-monitor.yaml'])
def test_monitors_are_taken(name, schemas):
    """Fields that the operator's model does not know would be missing in what it gives back."""
    from cloudcoil.models.prometheus_operator import v1
    for document in documents(ETC / 'kubernetes' / name):
        model = getattr(v1, document['kind']).model_validate(document)
        assert model.model_dump(mode='json', by_alias=True, exclude_none=True) == document


def test_every_pod_is_monitored_by_one_monitor_at_ports_that_it_has():
    monitors = documents(ETC / 'kubernetes' / 'pod-monitor.yaml')
    for template in pod_templates():
        found = [m for m in monitors if selects(m['spec']['selector'], template['metadata']['labels'])]
        assert len(found) == 1, template['metadata']
        for endpoint in found[0]['spec']['podMetricsEndpoints']:
            assert endpoint['port'] in ports_of(template)


def test_the_pool_finds_the_workers():
    path = ETC / 'kubernetes' / 'inference-gateway.yaml'
    pool, route = one_of(path, 'InferencePool'), one_of(path, 'HTTPRoute')
    backend = route['spec']['rules'][0]['backendRefs'][0]
    assert (backend['group'], backend['name']) == (pool['apiVersion'].split('/')[0], pool['metadata']['name'])
    for template in [t for t in pod_templates() if t['metadata']['labels'].get(
            'app.kubernetes.io/instance') != 'alone']:  # which has a port of its own
        assert selects(pool['spec']['selector'], template['metadata']['labels'])
        containers = template['spec']['containers'] + template['spec'].get('initContainers', [])
        assert pool['spec']['targetPorts'][0]['number'] in {
            port['containerPort'] for container in containers for port in container['ports']}


def test_the_gateway_passes_no_orders_on():
    rules = one_of(ETC / 'kubernetes' / 'inference-gateway.yaml', 'HTTPRoute')['spec']['rules']
    prefixes = [match['path']['value'] for rule in rules for match in rule['matches']]
    assert '/v1/chat/completions' in prefixes

    def passes(path: str) -> bool:
        return any((path + '/').startswith(prefix.rstrip('/') + '/') for prefix in prefixes)
    for path in ('/shutdown', '/metrics', '/lora-adapters', '/v1/load_lora_adapter',
                 '/v1/unload_lora_adapter'):
        assert not passes(path), path


def test_the_deployment_serves_the_names_of_its_service(deployment, tiny_model):
    service = one_of(ETC / 'kubernetes' / 'worker.yaml', 'Service')['metadata']['name']
    variables = {e['name']: e for e in deployment['spec']['template']['spec']['containers'][0]['env']}
    assert variables['ORCD_POD_NAMESPACE']['valueFrom'] == {'fieldRef': {'fieldPath': 'metadata.namespace'}}
    names = variables['WORKER_ORCD_ALLOW_HOST']['value'].replace('$(ORCD_POD_NAMESPACE)', 'chat')
    environment = {'WORKER_ORCD_ALLOW_HOST': names,
                   'WORKER_ORCD_HOST': variables['WORKER_ORCD_HOST']['value']}
    with Worker('--model', tiny_model, environment=environment) as worker:
        for host, status in ((service, 200), (f'{service}.chat', 200), (f'{service}.chat.svc:8080', 200),
                             (f'{service}.chat.svc.cluster.local', 200), ('10.96.1.2:8080', 200),
                             (f'{service}.other', 403), ('evil.example', 403)):
            with worker.connect() as connection:
                connection.send(f'GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
                assert connection.read_response().status == status, host


@pytest.mark.parametrize('name', ['inference-gateway.yaml', 'llm-d.yaml'])
def test_endpoint_pickers_read_metrics_that_a_worker_has(name, tiny, schemas):
    config_map = one_of(ETC / 'kubernetes' / name, 'ConfigMap')
    schemas(config_map)
    config = yaml.safe_load(config_map['data']['epp.yaml'])
    plugins = {p.get('name', p['type']): p for p in config['plugins']}
    engines = [e for p in plugins.values() for e in p.get('parameters', {}).get('engineConfigs', [])]
    assert [e['name'] for e in engines] == ['worker-orcd']
    types = dict(re.findall(r'^# TYPE (\S+) (\S+)$', tiny.get('/metrics').body.decode(), re.M))
    for field in GAUGES:
        assert types.get(engines[0][field]) == 'gauge', engines[0][field]
    # What is named by another part of the configuration is there.
    referred = [p['pluginRef'] for profile in config['schedulingProfiles'] for p in profile['plugins']]
    for source in config['dataLayer']['sources']:
        referred += [source['pluginRef'], *(e['pluginRef'] for e in source['extractors'])]
    assert set(referred) <= set(plugins)


def test_the_listed_endpoints_are_a_list():
    listed = yaml.safe_load(one_of(ETC / 'kubernetes' / 'llm-d.yaml', 'ConfigMap')['data']['endpoints.yaml'])
    for endpoint in listed['endpoints']:
        assert set(endpoint) == {'name', 'address', 'port'} and endpoint['port'].isdigit()


# --- the image: tools/image_check.sh builds it; here the recipe is linted and what it installs is compared
# with what the programs load.

RECIPE = ETC / 'container' / 'Containerfile'


def lint(path: Path) -> subprocess.CompletedProcess:
    if not KUBERNETES:
        pytest.skip('the linter is not here: set ORCD_KUBERNETES (tools/python_packages.sh kubernetes)')
    return subprocess.run([f'{KUBERNETES}/bin/hadolint', '--format', 'json', str(path)], capture_output=True,
                          timeout=60)


def test_the_recipe_has_no_findings(tmp_path):
    checked = lint(RECIPE)
    assert checked.returncode == 0, checked.stdout.decode()
    bad = tmp_path / 'Containerfile'
    bad.write_text(RECIPE.read_text().replace('USER 10001:10001', 'USER root'))
    assert [finding['code'] for finding in json.loads(lint(bad).stdout)] [:1] == ['DL3002']


def test_the_recipe_installs_what_the_programs_load():
    text = RECIPE.read_text()
    installed = set(re.search(r'--no-install-recommends ([^&]*?) && \\\n    rm', text).group(1).split())
    ours = {path.stem for path in (PROJECT / 'app' / 'main').glob('worker_orcd*.cpp')}
    base = {'libc6', 'libgcc-s1'}
    for program in (BUILD / name.replace('_', '-') for name in ours):
        if not program.exists():
            continue
        dynamic = subprocess.run(['objdump', '-p', str(program)], capture_output=True, check=True, timeout=60)
        needed = re.findall(r'^\s+NEEDED\s+(\S+)$', dynamic.stdout.decode(), re.M)
        assert needed, program
        found = subprocess.run(['dpkg-query', '-S', *(f'*/{name}' for name in needed)], capture_output=True,
                               timeout=60).stdout.decode()
        for name in needed:
            owners = {line.split(':')[0] for line in found.splitlines() if line.endswith(f'/{name}')}
            if name.startswith(('libasan', 'libtsan', 'libubsan')):
                continue  # a sanitizer's build is not shipped
            assert owners & (installed | base), (program.name, name, owners)
