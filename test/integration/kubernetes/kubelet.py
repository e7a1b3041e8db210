"""A small kubelet: runs the containers of one pod as processes of this machine, where no cluster is at hand.

Kept as in Kubernetes: name spaces (a network of the pod, processes of each container or, with
shareProcessNamespace, of the pod, a root of each container that may be written to as the pod says), users
and groups without capabilities, the order of init containers and containers, init containers that go on
running (restartPolicy Always), startup, liveness and readiness probes with their periods, timeouts and
thresholds, restarts with growing delays, environment, commands, a fresh folder for each emptyDir, Secrets,
preStop and the grace period. A container is ready when it runs, has started and its readiness probe says so;
a pod, when all of its containers are.

Not kept: images, in whose place programs and libraries of this machine are seen, limits, and who gets which
GPU. Periods pass faster by `speed`, timeouts do not.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

from spaces import Process

BACK_OFF_S, BACK_OFF_MAX_S = 10.0, 300.0


class Probe:
    """One probe of a container, asked in a thread of its caller."""

    def __init__(self, spec: dict, container: 'Container'):
        self.spec, self.container = spec, container
        self.period = spec.get('periodSeconds', 10)
        self.timeout = spec.get('timeoutSeconds', 1)
        self.failures = spec.get('failureThreshold', 3)
        self.grace = spec.get('terminationGracePeriodSeconds')

    def succeeds(self) -> bool:
        if 'exec' in self.spec:
            words = self.container.inside(self.spec['exec']['command'])
            try:
                return subprocess.run(words, env=self.container.environment(), timeout=self.timeout,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
            except subprocess.TimeoutExpired:
                return False
        asked = self.spec['httpGet']
        connection = http.client.HTTPConnection('127.0.0.1', self.container.port(asked['port']),
                                                timeout=self.timeout)
        try:
            with self.container.pod.network():
                connection.connect()
            connection.request('GET', asked['path'])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Container:
    """Runs, watches and restarts one container; one thread."""

    def __init__(self, spec: dict, pod: 'Pod'):
        self.spec, self.pod, self.name = spec, pod, spec['name']
        self.process: Optional[Process] = None
        self.started = self.ready = False
        self.restarts, self.exits = 0, []
        self.killed_for: List[str] = []  # why the kubelet ended it: startup, liveness
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def port(self, name) -> int:
        for port in self.spec.get('ports', []):
            if port['name'] == name:
                return port['containerPort']
        raise AssertionError(f'{self.name} has no port {name}')

    def environment(self) -> Dict[str, str]:
        given: Dict[str, str] = {}
        for e in self.spec.get('env', []):
            value = e['value'] if 'value' in e else self.pod.value_from(e['valueFrom'])
            # Variables that stand before it.
            given[e['name']] = re.sub(r'\$\((\w+)\)', lambda found: given.get(found[1], found[0]), value)
        return {'PATH': f'{self.pod.programs}:/usr/bin:/bin', **self.pod.extra, **given}

    def inside(self, words: List[str]) -> List[str]:
        """A command that runs in the container."""
        return self.process.inside(self.pod.user, self.pod.group, words)

    def _probe(self, kind: str) -> Optional[Probe]:
        return Probe(self.spec[kind], self) if kind in self.spec else None

    def _spawn(self) -> None:
        root = self.pod.folder / f'{self.name}.root'
        root.mkdir(exist_ok=True)
        context = self.spec.get('securityContext', {})
        wanted = {'words': self.spec['command'] + self.spec.get('args', []), 'root': str(root),
                  'environment': self.environment(), 'directory': self.spec.get('workingDir', '/'),
                  'read_only': context.get('readOnlyRootFilesystem', False),
                  'mounts': [(m['mountPath'], str(self.pod.folders[m['name']]), m.get('readOnly', False))
                             for m in self.spec.get('volumeMounts', [])],
                  **self.pod.wanted()}
        with open(self.log, 'ab') as log:
            self.process = Process('run', wanted, log)

    @property
    def log(self) -> Path:
        return self.pod.folder / f'{self.name}.log'

    def events(self, name: str) -> List[dict]:
        """Of its log, of all its starts."""
        told = [json.loads(line) for line in self.log.read_text().splitlines(True)
                if line.startswith('{') and line.endswith('}\n')]
        return [one for one in told if one.get('event') == name]

    def _run(self) -> None:
        delay = BACK_OFF_S
        while not self._ending.is_set():
            self._spawn()
            self._watch()
            self.started = self.ready = False
            self.exits.append(self.process.wait())
            self.process.close()
            if self._ending.wait(delay / self.pod.speed):
                return
            delay = min(2 * delay, BACK_OFF_MAX_S)
            self.restarts += 1

    def _watch(self) -> None:
        """Until the process has ended."""
        if not self._pass('startupProbe'):
            return
        self.started = True
        kinds = {kind: self._probe(kind) for kind in ('livenessProbe', 'readinessProbe')}
        self.ready = kinds['readinessProbe'] is None
        failed, due = {kind: 0 for kind in kinds}, {kind: 0.0 for kind in kinds}
        while self.process.poll() is None:
            now = time.monotonic()
            for kind, probe in kinds.items():
                if probe is None or now < due[kind]:
                    continue
                good = probe.succeeds()
                failed[kind] = 0 if good else failed[kind] + 1
                due[kind] = time.monotonic() + probe.period / self.pod.speed
                if kind == 'readinessProbe':
                    self.ready = good or (self.ready and failed[kind] < probe.failures)
                elif failed[kind] >= probe.failures and not self._ending.is_set():
                    self._kill('liveness', probe)
                    return
            time.sleep(0.02)

    def _pass(self, kind: str) -> bool:
        """Whether the process lives and its startup probe has succeeded."""
        probe = self._probe(kind)
        failed = 0
        while self.process.poll() is None:
            if probe is None or probe.succeeds():
                return True
            failed += 1
            if failed >= probe.failures and not self._ending.is_set():
                self._kill('startup', probe)
                return False
            time.sleep(probe.period / self.pod.speed)
        return False

    def _kill(self, why: str, probe: Probe) -> None:
        self.killed_for.append(why)
        self.end_process(probe.grace if probe.grace is not None else self.pod.grace)

    def end_process(self, grace: float) -> None:
        """preStop, SIGTERM, and SIGKILL when the grace period, which begins with preStop, is over."""
        deadline = time.monotonic() + grace
        notice = self.spec.get('lifecycle', {}).get('preStop', {}).get('sleep', {}).get('seconds', 0)
        time.sleep(min(notice / self.pod.speed, grace))
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            self.process.send_signal(sign)
            try:
                self.process.wait(max(deadline - time.monotonic(), 0.1) if sign == signal.SIGTERM else 30)
            except subprocess.TimeoutExpired:
                continue

    def end(self) -> None:
        self._ending.set()
        if self.process is not None:
            self.end_process(self.pod.grace)
        self._thread.join(60)

    def abandon(self) -> None:
        """Whatever happened, no process is left."""
        self._ending.set()
        for _ in range(2):  # it may just have been started anew
            if self.process is not None:
                self.process.abandon()
            if self._thread.is_alive():
                self._thread.join(60)


class Pod:
    """One pod of a template: `spec` is its PodSpec. `files` gives a folder for each volume that is neither an
    emptyDir nor a Secret, `secrets` has the data of those. `programs` and `also` are folders of this machine
    that are seen in the containers where they are here."""

    def __init__(self, spec: dict, folder: Path, programs: Path, files: Dict[str, Path],
                 extra: Dict[str, str], also: tuple = (),
                 secrets: Optional[Dict[str, Dict[str, str]]] = None, speed: float = 10.0):
        self.folder, self.programs, self.speed, self.extra = folder, programs, speed, extra
        self._seen = [str(one) for one in (*also, programs)]
        self._secrets = secrets or {}
        self._shares_processes = spec.get('shareProcessNamespace', False)
        context = spec['securityContext']
        self.user, self.group = context['runAsUser'], context['runAsGroup']
        self._volume_group: Optional[int] = context.get('fsGroup')
        self.pause: Optional[Process] = None
        self.grace = spec.get('terminationGracePeriodSeconds', 30)
        inits = spec.get('initContainers', [])
        assert all(c.get('restartPolicy') == 'Always' for c in inits), 'others are not used here'
        self.sidecars = [Container(c, self) for c in inits]
        self.main = [Container(c, self) for c in spec['containers']]
        self.folders = {volume['name']: self._folder_of(volume, files)
                        for volume in spec.get('volumes', [])}

    def _folder_of(self, volume: dict, files: Dict[str, Path]) -> Path:
        """Open as the pod's group makes it; other volumes are for reading, and seen by everybody."""
        if 'emptyDir' not in volume and 'secret' not in volume:
            return files[volume['name']]
        place = self.folder / volume['name']
        place.mkdir()
        for item in volume.get('secret', {}).get('items', []):
            file = place / item['path']
            file.write_text(self._secrets[volume['secret']['secretName']][item['key']])
            file.chmod(volume['secret']['defaultMode'])
        for one in (place, *place.iterdir()):
            os.chown(one, 0, self._volume_group or 0)
        place.chmod(0o2777 if 'emptyDir' in volume else 0o2750)
        return place

    def value_from(self, source: dict) -> str:
        if 'fieldRef' in source:
            assert source['fieldRef'] == {'fieldPath': 'metadata.namespace'}, 'others are not used here'
            return 'default'
        key = source['secretKeyRef']
        return self._secrets[key['name']][key['key']]

    def wanted(self) -> dict:
        """What container.py is to know of the pod."""
        return {'pause': self.pause.pid, 'processes': self._shares_processes, 'programs': self._seen,
                'user': self.user, 'group': self.group,
                'groups': [] if self._volume_group is None else [self._volume_group]}

    @contextmanager
    def network(self) -> Iterator[None]:
        """Connections that are made meanwhile, by this thread, are made within the pod."""
        with self.pause.network():
            yield

    @property
    def all(self) -> List[Container]:
        return self.sidecars + self.main

    def __getitem__(self, name: str) -> Container:
        return next(c for c in self.all if c.name == name)

    @property
    def ready(self) -> bool:
        return all(c.started and c.ready for c in self.all)

    def start(self, wait: Callable) -> 'Pod':
        with open(self.folder / 'pause.log', 'ab') as log:
            self.pause = Process('pause', {'processes': self._shares_processes}, log)
        assert self.pause.pid, (self.folder / 'pause.log').read_text()
        for sidecar in self.sidecars:
            sidecar.start()
            wait(lambda: sidecar.started, f'{sidecar.name} has started')
        for container in self.main:
            container.start()
        return self

    def delete(self) -> float:
        """Ends the containers together, then the sidecars, the last one first. Seconds that it took."""
        begin = time.monotonic()
        ends = [threading.Thread(target=c.end, daemon=True) for c in self.main]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join(self.grace + 60)
        for sidecar in reversed(self.sidecars):
            sidecar.end()
        return time.monotonic() - begin

    def abandon(self) -> None:
        for container in self.all:
            container.abandon()
        if self.pause is not None:
            self.pause.abandon()

    def logs(self) -> str:
        return '\n'.join(f'== {path.stem}\n{path.read_text()[-2000:]}' for path in self.folder.glob('*.log'))


def process_environment() -> Dict[str, str]:
    """What sanitizers and loaders need; nothing that would configure a worker."""
    return {k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS') or k == 'LD_LIBRARY_PATH'}
