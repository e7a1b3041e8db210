"""Servers to load: each is started with a model, waited for, and ended."""
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

START_LIMIT = 300.0  # seconds
# Below the range from which clients' own ports come, so that none of theirs is in the way.
LLAMA_PORT = 18080


class Failure(Exception):
    """Why something was not measured, in words for the operator."""


def exit_on_sigterm():
    """Makes SIGTERM unwind this program, as an error does, so that the server that it started ends, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class RunningServer:
    """One that somebody else started."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port or 80)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class StartedServer:
    """A server's process; its last lines are told when it ends too early."""

    def __init__(self, command):
        self.last_lines = []
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.see(line)
            self.last_lines = self.last_lines[-9:] + [line.decode(errors='replace')]

    def see(self, line):
        """Called for each line that the server logs."""

    def wait_until(self, condition):
        deadline = time.monotonic() + START_LIMIT
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise Failure('the server is not ready: ' + ''.join(self.last_lines))
            time.sleep(0.05)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Worker(StartedServer):
    """worker-orcd, which binds a port of its own and tells it."""

    def __init__(self, binary, model, options):
        self.address = None
        super().__init__([binary, '--model', model, '--port', '0', '--log-format', 'json', *options])
        self.wait_until(lambda: self.address)

    def see(self, line):
        try:
            event = json.loads(line)
        except ValueError:
            return  # of a driver or a sanitizer
        if event.get('event') == 'ready':
            self.address = ('127.0.0.1', event['port'])


class LlamaServer(StartedServer):
    """llama.cpp's llama-server, of any build."""

    def __init__(self, binary, model, options):
        self.address = ('127.0.0.1', LLAMA_PORT)
        host, port = self.address
        super().__init__([binary, '-m', model, '--host', host, '--port', str(port), *options])
        self.wait_until(self._is_healthy)

    def _is_healthy(self):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{LLAMA_PORT}/health', timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False
