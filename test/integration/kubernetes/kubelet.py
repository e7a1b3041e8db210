"""A small kubelet: runs the containers of one pod as processes of this machine, where no cluster is at hand.

Kept as in Kubernetes: the order of init containers and containers, init containers that go on running
(restartPolicy Always), startup, liveness and readiness probes with their periods, timeouts and thresholds,
restarts with growing delays, environment, commands, a fresh folder for each emptyDir, preStop and the grace
period. A container is ready when it runs, has started and its readiness probe says so; a pod, when all of its
containers are.

Not kept: images, users, limits and GPUs. Where a container has a mount path or a port in its words, the pod's
own folder or port of this machine stands there instead, since processes share both. Periods pass faster by
`speed`, timeouts do not.
"""
import http.client
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional

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
            words = [self.container.pod.local(word) for word in self.spec['exec']['command']]
            try:
                done = subprocess.run(words, env=self.container.environment(), timeout=self.timeout,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            except (subprocess.TimeoutExpired, FileNotFoundError):
                return False
            return done.returncode == 0
        asked = self.spec['httpGet']
        connection = http.client.HTTPConnection('127.0.0.1', self.container.port(asked['port']),
                                                timeout=self.timeout)
        try:
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
        self.process: Optional[subprocess.Popen] = None
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
                return self.pod.ports[port['containerPort']]
        raise AssertionError(f'{self.name} has no port {name}')

    def environment(self) -> Dict[str, str]:
        given = {e['name']: self.pod.local(e['value']) for e in self.spec.get('env', [])}
        return {'PATH': f'{self.pod.programs}:/usr/bin:/bin', **self.pod.extra, **given}

    def _probe(self, kind: str) -> Optional[Probe]:
        return Probe(self.spec[kind], self) if kind in self.spec else None

    def _spawn(self) -> None:
        words = [self.pod.local(word) for word in self.spec['command'] + self.spec.get('args', [])]
        log = open(self.pod.folder / f'{self.name}.log', 'ab')
        with log:
            self.process = subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def _run(self) -> None:
        delay = BACK_OFF_S
        while not self._ending.is_set():
            self._spawn()
            self._watch()
            self.started = self.ready = False
            self.exits.append(self.process.wait())
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
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


class Pod:
    """One pod of a template: `spec` is its PodSpec. `files` gives a folder for each other volume."""

    def __init__(self, spec: dict, folder: Path, programs: Path, files: Dict[str, Path],
                 free_port: Callable[[], int], extra: Dict[str, str], speed: float = 10.0,
                 without: tuple = ()):
        self.folder, self.programs, self.speed, self.extra = folder, programs, speed, extra
        self.grace = spec.get('terminationGracePeriodSeconds', 30)
        inits = [c for c in spec.get('initContainers', []) if c['name'] not in without]
        assert all(c.get('restartPolicy') == 'Always' for c in inits), 'others are not used here'
        self.sidecars = [Container(c, self) for c in inits]
        self.main = [Container(c, self) for c in spec['containers']]
        self._folders: Dict[str, Path] = {}
        for volume in spec.get('volumes', []):
            place = files.get(volume['name'])
            if 'emptyDir' in volume:
                place = folder / volume['name']
                place.mkdir()
                place.chmod(0o777)
            self._folders[volume['name']] = place
        self._paths = {mount['mountPath']: self._folders[mount['name']]
                       for container in inits + spec['containers'] for mount in container['volumeMounts']}
        wanted = [port['containerPort'] for container in inits + spec['containers']
                  for port in container.get('ports', [])]
        # Those that the words of the containers name beside them, since the holder may be left out.
        wanted += [int(e['value']) for c in spec['containers'] for e in c.get('env', [])
                   if e['name'].endswith('_PORT')]
        self.ports: Dict[int, int] = {}
        for port in dict.fromkeys(wanted):
            taken = set(self.ports.values())
            self.ports[port] = next(p for p in iter(free_port, None) if p not in taken)

    def local(self, word: str) -> str:
        """A word of a container as it is on this machine."""
        for path, folder in self._paths.items():
            if word == path or word.startswith(path + '/'):
                return str(folder) + word[len(path):]
        return str(self.ports[int(word)]) if word.isdigit() and int(word) in self.ports else word

    @property
    def all(self) -> List[Container]:
        return self.sidecars + self.main

    def __getitem__(self, name: str) -> Container:
        return next(c for c in self.all if c.name == name)

    @property
    def ready(self) -> bool:
        return all(c.started and c.ready for c in self.all)

    def start(self, wait: Callable) -> 'Pod':
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

    def logs(self) -> str:
        return '\n'.join(f'== {path.stem}\n{path.read_text()[-2000:]}' for path in self.folder.glob('*.log'))


def process_environment() -> Dict[str, str]:
    """What sanitizers and loaders need; nothing that would configure a worker."""
    return {k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS') or k == 'LD_LIBRARY_PATH'}
