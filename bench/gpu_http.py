#!/usr/bin/env python3
"""Measures a worker on a GPU through HTTP and prints, and with --json writes, a flat object of figures.

    bench/gpu_http.py WORKER MODEL.gguf NAME [--json OUT.json] [--backend cuda]

NAME/http/ttft_p50_ms        request sent to first token, a prompt of some 512 tokens, nothing cached
NAME/http/tok_s              one stream of 512 tokens, median of 5
NAME/http/b8/tok_s           eight streams at once, all their tokens over the time of the longest
NAME/http/b8/gap_p99_ms      between two reads of a stream that carry tokens, eight streams
NAME/http/b8/gap_beside_ms   the largest such gap while a prompt of some 4,000 tokens arrives
The client is one thread that reads whole pieces and counts their token events.
"""
import argparse
import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

SLOTS, CONTEXT = 9, 4608
WORD = ' and more'


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Worker:
    def __init__(self, binary, model, backend):
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0))
            self.port = listener.getsockname()[1]
        command = [binary, '--model', model, '--backend', backend, '--port', str(self.port),
                   '--slots', str(SLOTS), '--context', str(CONTEXT)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{self.port}/ready', timeout=2).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit('the worker is not ready') from None
                time.sleep(0.01)

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class Stream:
    """A running /execute: when pieces with tokens came, and how many tokens each had."""
    PATH, TOKEN, END = '/execute', b'event: token', b'event: end'

    def __init__(self, worker, prompt, max_tokens, cache=False):
        self.send(worker, {'job_id': prompt[:12].replace(' ', '-'), 'prompt': prompt, 'temperature': 0,
                           'max_tokens': max_tokens, 'ignore_eos': True, 'cache_prompt': cache})

    def send(self, worker, request):
        body = json.dumps(request).encode()
        self.socket = socket.create_connection(('127.0.0.1', worker.port))
        self.begin = time.perf_counter()
        self.socket.sendall(b'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                            b'Content-Length: %d\r\n\r\n' % (self.PATH.encode(), len(body)) + body)
        self.pieces, self.tail, self.over = [], b'', False

    def read(self):
        piece = self.socket.recv(1 << 16)
        now = time.perf_counter()
        data = self.tail + piece
        count = data.count(self.TOKEN)
        if count:
            self.pieces.append((now, count))
        self.over = self.END in data
        if not piece or b'event: error' in data or b'"error"' in data:
            raise SystemExit('a stream ended badly: ' + data[-300:].decode(errors='replace'))
        last = max(data.rfind(self.TOKEN.split()[0]), len(data) - 400, 0)
        self.tail = data[last:].replace(self.TOKEN, b'')

    def gaps(self):
        return [(b[0] - a[0]) * 1e3 for a, b in zip(self.pieces, self.pieces[1:])]

    def tokens(self):
        return sum(count for _, count in self.pieces)


def read_all(streams):
    with selectors.DefaultSelector() as ready:
        for stream in streams:
            ready.register(stream.socket, selectors.EVENT_READ, stream)
        open_streams = len(streams)
        while open_streams:
            for key, _ in ready.select(60):
                key.data.read()
                if key.data.over:
                    ready.unregister(key.data.socket)
                    key.data.socket.close()
                    open_streams -= 1


def words_of(worker, tokens):
    """So many words that they are some `tokens` tokens."""
    body = json.dumps({'content': WORD * 100}).encode()
    asked = urllib.request.Request(f'http://127.0.0.1:{worker.port}/tokenize', body,
                                   {'Content-Type': 'application/json'})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return tokens * 100 // json.load(answer)['count']


def measure(worker, name):
    figures = {}
    short, long = words_of(worker, 500), words_of(worker, 4000)
    first, rates = [], []
    for i in range(12):
        stream = Stream(worker, f'Begin {i}.' + WORD * short, 8)
        read_all([stream])
        first.append((stream.pieces[0][0] - stream.begin) * 1e3)
    figures[f'{name}/http/ttft_p50_ms'] = percentile(first[2:], 0.5)
    for i in range(5):
        stream = Stream(worker, f'Count {i}', 512)
        read_all([stream])
        rates.append((stream.tokens() - stream.pieces[0][1]) / (stream.pieces[-1][0] - stream.pieces[0][0]))
    figures[f'{name}/http/tok_s'] = statistics.median(rates)
    streams = [Stream(worker, f'Stream {i}', 512) for i in range(8)]
    begin = time.perf_counter()
    read_all(streams)
    took = max(s.pieces[-1][0] for s in streams) - begin
    figures[f'{name}/http/b8/tok_s'] = sum(s.tokens() for s in streams) / took
    figures[f'{name}/http/b8/gap_p99_ms'] = percentile([g for s in streams for g in s.gaps()[4:]], 0.99)
    streams = [Stream(worker, f'Beside {i}', 512) for i in range(8)]
    late = Stream(worker, 'A long one.' + WORD * long, 1)
    read_all(streams + [late])
    until = late.pieces[0][0]
    gaps = [(b[0] - a[0]) * 1e3 for s in streams for a, b in zip(s.pieces, s.pieces[1:]) if a[0] < until]
    figures[f'{name}/http/b8/gap_beside_ms'] = max(gaps)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('worker')
    parser.add_argument('model')
    parser.add_argument('name')
    parser.add_argument('--json')
    parser.add_argument('--backend', default='cuda')
    chosen = parser.parse_args()
    worker = Worker(chosen.worker, chosen.model, chosen.backend)
    try:
        figures = measure(worker, chosen.name)
    finally:
        worker.end()
    for key, value in figures.items():
        print(f'{key:<44} {value:10.2f}')
    if chosen.json:
        with open(chosen.json, 'w', encoding='utf-8') as out:
            json.dump(figures, out, indent=2)
    return 0


if __name__ == '__main__':
    sys.exit(main())
