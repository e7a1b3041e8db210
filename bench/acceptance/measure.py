"""Measures each figure once. Every function returns samples in the unit of its goal."""
import subprocess
import threading
import time
from typing import List, Optional, Tuple

from client import Client, Failure, Process

PROMPT = 'Write a haiku about GPU computing'
MIB = 1 << 20
DRAIN = 3  # --drain-timeout of the started workers: M0-W-1630 has five seconds for all of a shutdown
LEAK_REQUESTS = 100


def tokens(client: Client, requests: int, length: int) -> Tuple[List[float], List[float]]:
    """First token, and between tokens, in ms."""
    first, between = [], []
    for number in range(requests):
        stream = client.execute(prompt=PROMPT, max_tokens=length, seed=number)
        times = stream.finish()
        if not times:
            raise Failure('a job had no token')
        first.append((times[0] - stream.begin) * 1e3)
        between += [(b - a) * 1e3 for a, b in zip(times, times[1:])]
    return first, between


def health(client: Client, requests: int) -> List[float]:
    """Over one connection; a new job begins whenever one has ended."""
    took: List[float] = []
    connection = client.connect()
    while len(took) < requests:
        stream = client.execute(prompt=PROMPT, max_tokens=256)
        for number, _ in enumerate(stream.token_times()):
            if number % 4 == 0 and len(took) < requests:
                begin = time.perf_counter()
                client.get('/health', connection)
                took.append((time.perf_counter() - begin) * 1e3)
            if len(took) == requests:
                break
        stream.close()
    connection.close()
    return took


def wait_idle(client: Client) -> None:
    connection = client.connect()
    deadline = time.monotonic() + 60
    while client.metric('worker_requests_running', connection) > 0:
        if time.monotonic() > deadline:
            raise Failure('the worker is busy with other jobs')
    connection.close()


def disconnect(client: Client, times: int) -> List[float]:
    took = []
    connection = client.connect()
    for number in range(times):
        stream = client.execute(prompt=PROMPT)  # as many tokens as fit
        for seen, _ in enumerate(stream.token_times()):
            if seen == number % 5:
                break
        begin = time.perf_counter()
        stream.close()
        while client.metric('worker_requests_running', connection) > 0:
            pass
        took.append((time.perf_counter() - begin) * 1e3)
    connection.close()
    return took


def shutdown(process: Process, client: Client) -> float:
    """Seconds, beside a job of as many tokens as fit, whose client reads to the end: the worker would wait a
    second for one that does not."""
    stream = client.execute(prompt=PROMPT)
    tokens_seen = stream.token_times()
    next(tokens_seen)

    def read_on() -> None:
        try:
            for _ in tokens_seen:
                pass
        except (Failure, OSError):
            pass  # the drain may end it with an error
        stream.close()
    reader = threading.Thread(target=read_on)
    reader.start()
    took = process.terminate()
    reader.join()
    return took


def gpu_used(uuid: str) -> Optional[int]:
    """Bytes in use on that GPU by all processes; None where nvidia-smi does not say."""
    query = ['nvidia-smi', f'--id={uuid}', '--query-gpu=memory.used', '--format=csv,noheader,nounits']
    try:
        said = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                              check=True)
        return int(said.stdout) * MIB
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def requests_for_leaks(client: Client) -> None:
    for number in range(LEAK_REQUESTS):
        stream = client.execute(prompt=f'{PROMPT} {"and more " * (number % 20)}', max_tokens=16,
                                cache_prompt=number % 2 == 0, seed=number)
        if number % 10 == 9:
            next(stream.token_times())
            stream.close()
        else:
            stream.finish()
    wait_idle(client)


def vram(client: Client, process: Optional[Process]) -> Tuple[List[float], str]:
    """MiB that 100 requests, ten of them broken off, leave behind, and what was looked at."""
    state = client.health()
    on_host = state['backend'] == 'host'

    def used() -> Tuple[Optional[int], str]:
        if on_host:
            return (process.resident_bytes(), '') if process else (None, '')
        seen = gpu_used(state['gpu_uuid'])
        if seen is not None:
            return seen, 'all that is used on the GPU'
        return client.health()['vram_bytes'], 'as the worker counts it: nvidia-smi does not say'
    requests_for_leaks(client)  # the first ones fill the prefix cache and the heap
    before, _ = used()
    requests_for_leaks(client)
    after, how = used()
    if not on_host:
        return [max(0.0, (after - before) / MIB)], how
    grown = f'; resident memory grew by {(after - before) / MIB:.1f} MiB' if process else ''
    return [], 'no goal on the host backend, which has no VRAM' + grown
