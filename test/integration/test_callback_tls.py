"""The ready callback over HTTPS: the pool manager's certificate is verified, chain and name.
Source: WORK-3014; the certificates are made here by the openssl program and trusted by SSL_CERT_FILE."""
import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from worker_process import Worker, run_to_exit

OPENSSL = shutil.which('openssl')
pytestmark = pytest.mark.skipif(OPENSSL is None, reason='the openssl program is not here')


def make_certificate(folder, name: str):
    """A self-signed certificate for one subject alternative name."""
    key, certificate = folder / 'key.pem', folder / 'certificate.pem'
    subprocess.run([OPENSSL, 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
                    '-nodes', '-keyout', key, '-out', certificate, '-days', '2', '-subj', '/CN=pool',
                    '-addext', f'subjectAltName={name}'], check=True, capture_output=True)
    return key, certificate


class TlsPoolManager:
    def __init__(self, key, certificate):
        self.messages = []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                manager.messages.append(json.loads(self.rfile.read(int(self.headers['content-length']))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(HTTPServer):
            def handle_error(self, *_):
                pass  # a client that refuses the certificate is what some tests want

        self.server = Server(('127.0.0.1', 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def pool(tmp_path):
    managers = []

    def start(name: str):
        key, certificate = make_certificate(tmp_path, name)
        managers.append(TlsPoolManager(key, certificate))
        return managers[-1], {'SSL_CERT_FILE': str(certificate)}
    yield start
    for manager in managers:
        manager.close()


@pytest.mark.parametrize('name, host', [('IP:127.0.0.1', '127.0.0.1'), ('DNS:localhost', 'localhost')])
def test_a_trusted_certificate(pool, tiny_model, name, host):
    manager, trust = pool(name)
    arguments = ('--model', tiny_model, '--callback-url', f'https://{host}:{manager.port}')
    with Worker(*arguments, environment=trust) as worker:
        worker.wait_event('ready')
    assert len(manager.messages) == 1 and manager.messages[0]['worker_id']


def test_an_unknown_certificate_is_refused(pool, tiny_model):
    manager, _ = pool('IP:127.0.0.1')
    code, worker = run_to_exit('--model', tiny_model, '--callback-url', f'https://127.0.0.1:{manager.port}')
    assert code == 1 and manager.messages == []
    assert 'TLS handshake' in json.dumps(worker.events('error'))


def test_the_name_must_match(pool, tiny_model):
    manager, trust = pool('DNS:other.example')
    code, worker = run_to_exit('--model', tiny_model, '--callback-url', f'https://127.0.0.1:{manager.port}',
                               environment=trust)
    assert code == 1 and manager.messages == []
