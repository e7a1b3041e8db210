"""The token pipe as a process: how soon it answers after its start, and whether it grows.

    python3 bench/pipe.py --build DIR --model FOLDER [--turns 10000] [--starts 5] [--json FILE]

FOLDER is as `inference` takes it; what the SDK would say of its model is asked of worker-orcd-inspect. The
start is measured from the process's creation to its first token, with the model's file in the page cache. A
turn sends 12 tokens and gets 4, in conversations of ten turns; memory is RssAnon of /proc/PID/status after a
tenth of the turns and after all.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
END = 0


def read_all(folder: Path) -> int:
    """Brings the model's files into the page cache; their bytes."""
    total = 0
    for path in folder.iterdir():
        with open(path, 'rb') as file:
            while part := file.read(1 << 24):
                total += len(part)
    return total


def request(tokens, reset: int, limit: int) -> bytes:
    return ''.join(f'{v}\n' for v in (len(tokens), reset, 0, 0, 1, 1, 0, limit, *tokens)).encode()


class Pipe:
    def __init__(self, command):
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, tokens, reset: int, limit: int) -> float:
        """When the first line came; the answer is read to its end."""
        self.process.stdin.write(request(tokens, reset, limit))
        self.process.stdin.flush()
        lines = [self.process.stdout.readline()]
        first = time.monotonic()
        while int(lines[-1]) != END:
            lines.append(self.process.stdout.readline())
        self.process.stdout.readline()
        return first

    def anonymous(self) -> int:
        for line in Path(f'/proc/{self.process.pid}/status').read_text().split('\n'):
            if line.startswith('RssAnon:'):
                return int(line.split()[1])
        raise RuntimeError('no RssAnon')

    def descriptors(self) -> int:
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def end(self) -> float:
        begin = time.monotonic()
        self.process.stdin.write(b'0\n')
        self.process.stdin.flush()
        if self.process.wait() != 0:
            raise RuntimeError('it did not end well')
        return time.monotonic() - begin


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument('--build', type=Path, required=True)
    arguments.add_argument('--model', type=Path, required=True)
    arguments.add_argument('--turns', type=int, default=10_000)
    arguments.add_argument('--starts', type=int, default=5)
    arguments.add_argument('--json', type=Path)
    given = arguments.parse_args()
    os.environ['ORCD_BUILD_DIR'] = str(given.build)
    tests = HERE.parent / 'test' / 'integration'
    sys.path[:0] = [str(tests), str(tests / 'pipe')]
    from pipe_client import config_of, words_of
    command = [str(given.build / 'inference'), str(given.model), *words_of(config_of(given.model, [END]))]
    size = read_all(given.model)
    starts, ends = [], []
    for _ in range(given.starts):
        pipe = Pipe(command)
        starts.append(pipe.ask([1, 2, 3], 1, 2) - pipe.begun)
        ends.append(pipe.end())
    pipe, memory, took = Pipe(command), [], []
    for turn in range(given.turns):
        begin = time.monotonic()
        pipe.ask([2 + (turn + i) % 50 for i in range(12)], int(turn % 10 == 0), 4)
        took.append(time.monotonic() - begin)
        if turn + 1 in (given.turns // 10, given.turns):
            memory.append((pipe.anonymous(), pipe.descriptors()))
    pipe.end()
    result = {'model_bytes': size, 'start_to_first_token_s': [round(s, 3) for s in starts],
              'end_ms': round(1000 * max(ends), 1), 'turns': given.turns,
              'turn_ms_median': round(1000 * statistics.median(took), 3),
              'anonymous_kib': [m[0] for m in memory], 'descriptors': [m[1] for m in memory]}
    print(json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
