"""One etcd of Debian's package as a process, and its JSON gateway."""
import base64
import json
import os
import signal
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Dict, Optional

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from ports import free_port  # noqa: E402
from worker_process import PATIENCE, wait_until  # noqa: E402

ETCD = os.environ.get('ORCD_ETCD') or shutil.which('etcd')
PREFIX = '/worker-orcd'


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Etcd:
    def __init__(self, folder: Path):
        self.folder, self.port, self.peer = folder, free_port(), free_port()
        self.process: Optional[subprocess.Popen] = None
        self.start()

    @property
    def url(self) -> str:
        return f'etcd://127.0.0.1:{self.port}'

    def start(self) -> None:
        """With the data that it had."""
        client, peer = f'http://127.0.0.1:{self.port}', f'http://127.0.0.1:{self.peer}'
        with open(self.folder / 'etcd.log', 'ab') as log:
            self.process = subprocess.Popen(
                [ETCD, '--data-dir', str(self.folder / 'data'), '--listen-client-urls', client,
                 '--advertise-client-urls', client, '--listen-peer-urls', peer,
                 '--initial-advertise-peer-urls', peer, '--initial-cluster', f'default={peer}'],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={'PATH': '/usr/bin:/bin'})
        wait_until(self._answers, PATIENCE, 'etcd answers', 0.05)

    def _answers(self) -> bool:
        try:
            return 'header' in self.ask('/v3/kv/range', key=_base64('x'))
        except (OSError, urllib.error.URLError):
            return False

    def ask(self, path: str, **body) -> dict:
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}{path}', json.dumps(body).encode(),
                                         {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def entries(self) -> Dict[str, dict]:
        """What is listed: the worker's id to its entry, with the key's revision and lease."""
        found = self.ask('/v3/kv/range', key=_base64(PREFIX + '/'), range_end=_base64(PREFIX + '0'))
        listed = {}
        for kv in found.get('kvs', []):
            name = base64.b64decode(kv['key']).decode()[len(PREFIX) + 1:]
            listed[name] = {**json.loads(base64.b64decode(kv['value'])), 'lease': kv.get('lease')}
        return listed

    def put(self, worker_id: str, entry: dict) -> None:
        self.ask('/v3/kv/put', key=_base64(f'{PREFIX}/{worker_id}'), value=_base64(json.dumps(entry)))

    def seconds_left(self, lease: str) -> int:
        """Whole ones, before etcd ends that lease; below 0 when it has."""
        return int(self.ask('/v3/lease/timetolive', ID=lease).get('TTL', 0))  # a zero is left out

    def delete(self, worker_id: str) -> None:
        self.ask('/v3/kv/deleterange', key=_base64(f'{PREFIX}/{worker_id}'))

    def send_signal(self, sign: int) -> None:
        self.process.send_signal(sign)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
