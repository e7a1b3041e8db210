#!/usr/bin/env python3
"""Figures around bench_cuda_decode: the time a worker takes to be ready, and one file for all models.

    gpu_figures.py ready WORKER MODEL.gguf NAME OUT.json [WORKER OPTION...]
    gpu_figures.py merge OUT.json PART.json...

`ready` starts the worker three times and writes the median of process start to GET /ready answering 200.
`merge` joins flat objects; the GPU, driver and commit must agree, the ceiling is the median of the parts'.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

STARTS = 3
READY_SECONDS_MAX = 40.0
POLL_SECONDS = 0.005
COMMON = ('gpu', 'driver', 'commit')
CEILING = 'ceiling_tb_s'


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def start_once(command):
    port = free_port()
    begin = time.monotonic()
    process = subprocess.Popen(command + ['--port', str(port)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    try:
        while not answers(f'http://127.0.0.1:{port}/ready'):
            if process.poll() is not None:
                tail = process.stderr.read().decode(errors='replace')[-500:]
                raise SystemExit(f'the worker ended with {process.returncode}: {tail}')
            if time.monotonic() - begin > READY_SECONDS_MAX:
                raise SystemExit(f'the worker was not ready after {READY_SECONDS_MAX:.0f} s')
            time.sleep(POLL_SECONDS)
        return time.monotonic() - begin
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def write(path, figures):
    with open(path + '.partial', 'w') as out:
        json.dump(figures, out, indent=2)
        out.write('\n')
    os.replace(path + '.partial', path)


def ready(worker, model, name, out, *options):
    seconds = [start_once([worker, '--model', model, *options]) for _ in range(STARTS)]
    print(f'{name}/ready_s: ' + ', '.join(f'{s:.3f}' for s in seconds))
    write(out, {f'{name}/ready_s': round(statistics.median(seconds), 4)})


def merge(out, *parts):
    merged, ceilings = {}, []
    for path in parts:
        with open(path) as part:
            figures = json.load(part)
        if CEILING in figures:
            ceilings.append(figures.pop(CEILING))
        for key, value in figures.items():
            if merged.setdefault(key, value) != value:
                what = 'differs between the parts' if key in COMMON else 'is there twice'
                raise SystemExit(f'{path}: {key} {what}: {merged[key]!r} and {value!r}')
    first = {key: merged.pop(key) for key in COMMON if key in merged}
    if ceilings:
        first[CEILING] = statistics.median(ceilings)
    write(out, {**first, **merged})
    print(f'{out}: {len(first) + len(merged)} figures of {len(parts)} files')


def main(arguments):
    if len(arguments) >= 5 and arguments[0] == 'ready':
        return ready(*arguments[1:])
    if len(arguments) >= 3 and arguments[0] == 'merge':
        return merge(*arguments[1:])
    sys.stderr.write(__doc__)
    return 2


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
