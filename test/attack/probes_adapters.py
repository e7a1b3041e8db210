"""Clients that may have LoRA adapters loaded from a folder: nothing outside of it is read, whatever lies
there or comes there meanwhile, and no file makes the worker wait, grow or end."""
import json
import os
import threading
import time

from client import ask, health
from judge import probe
from worker_process import STRETCH

SECRET = 'hunter2-is-the-password-of-the-database'
ANSWER_WITHIN = 5.0
GROWTH = 64 * 2**20
NO_TENSORS = b'\x02\0\0\0\0\0\0\0{}'


def load(port: int, path: str, name: str = 'x'):
    return ask(port, 'POST', '/v1/load_lora_adapter', {'lora_name': name, 'lora_path': path})


def config(**more) -> str:
    return json.dumps({'peft_type': 'LORA', 'r': 4, 'lora_alpha': 8, **more})


def secret_beside(folder):
    """A JSON file next to the folder, as another program's settings are."""
    outside = folder.parent / 'settings'
    outside.mkdir(exist_ok=True)
    for name in 'adapter_config.json', 'adapter_model.safetensors':
        (outside / name).write_text(config(password=SECRET, token=[SECRET]))
    return outside


def refused(checks, answer, what: str, statuses=(400, 403, 404)) -> None:
    checks.never(answer.status == 200, f'{what}: loaded')
    checks.expect(answer.status in statuses, f'{what}: {answer.status}')
    known = [word for word in (SECRET.encode(), b'password') if word in answer.body]
    checks.never(known != [], f'{what}: the answer tells what is in the file: {known}')
    checks.expect(len(answer.body) < 2000, f'{what}: an answer of {len(answer.body)} bytes')


@probe('adapters', 'paths out of the folder')
def paths(arena, checks) -> None:
    port, folder = arena.port('adapters'), arena.adapters
    outside = secret_beside(folder)
    for name, target in (('link', outside), ('file', outside / 'adapter_config.json'), ('up', '..'),
                         ('void', outside / 'nothing'), ('self', 'self'), ('root', '/root')):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    inner = folder / 'inner'
    inner.mkdir(exist_ok=True)
    for name in 'adapter_config.json', 'adapter_model.safetensors':
        if not (inner / name).is_symlink():
            (inner / name).symlink_to(outside / name)
    tried = [str(outside), '../settings', 'link', 'file', 'up/settings', 'void', 'void/x', 'self', 'self/x',
             'inner', 'root/.ssh/id_rsa', '/etc/passwd', '/proc/self/environ', '/proc/self/fd/0', '/dev/zero',
             '.', '..', './', 'nothing/..', 'nothing/../../settings', '//', 'inner/../..', '%2e%2e/settings']
    for path in tried:
        refused(checks, load(port, path), path)
    checks.note(f'{len(tried)} paths')


@probe('adapters', 'a link put there between the check and the opening')
def swapped(arena, checks) -> None:
    """A configuration that is now a file and now a link to another program's settings."""
    port, folder = arena.port('adapters'), arena.adapters
    outside = secret_beside(folder)
    shown = folder / 'swap'
    shown.mkdir(exist_ok=True)
    (shown / 'adapter_model.safetensors').write_bytes(NO_TENSORS)
    stop = threading.Event()

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            new = folder / 'next'
            if number % 2:
                new.write_text(config(inference_mode=True))
            else:
                new.symlink_to(outside / 'adapter_config.json')
            os.replace(new, shown / 'adapter_config.json')
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        end, count = time.monotonic() + 3.0 * STRETCH, 0
        while time.monotonic() < end:
            refused(checks, load(port, 'swap'), 'the swapped directory')
            count += 1
    finally:
        stop.set()
        swapper.join()
    checks.note(f'{count} tries')


@probe('adapters', 'pipes, devices and directories as files')
def kinds(arena, checks) -> None:
    port, folder = arena.port('adapters'), arena.adapters
    strange = folder / 'strange'
    strange.mkdir(exist_ok=True)
    for place in folder / 'pipe', strange / 'adapter_model.safetensors':
        if not place.exists():
            os.mkfifo(place)
    (strange / 'adapter_config.json').write_text(config())
    (folder / 'nested' / 'adapter_config.json').mkdir(parents=True, exist_ok=True)
    (folder / 'empty').write_bytes(b'')
    for path in 'pipe', 'strange', 'nested', 'empty':
        begin = time.monotonic()
        refused(checks, load(port, path), path)
        checks.in_time(time.monotonic() - begin, ANSWER_WITHIN * STRETCH, path)


@probe('adapters', 'files of gigabytes')
def huge(arena, checks) -> None:
    """Of holes: no disk has to have them."""
    worker, folder = arena.fresh('adapters'), arena.adapters
    before = worker.memory()['VmRSS']
    files = {'huge.gguf': (b'GGUF\x03\0\0\0' + b'\xff' * 16, 5 << 30),
             'large.gguf': (b'GGUF\x03\0\0\0', 3 << 30), 'large.lora': (b'TRLA\x01\0\0\0', 3 << 30)}
    for name, (head, size) in files.items():
        with (folder / name).open('wb') as file:
            file.write(head)
            file.truncate(size)
    wide = folder / 'wide'
    wide.mkdir(exist_ok=True)
    (wide / 'adapter_config.json').write_text(config())
    with (wide / 'adapter_model.safetensors').open('wb') as file:
        file.write((3 << 30).to_bytes(8, 'little') + b'{')
        file.truncate(4 << 30)
    for name in (*files, 'wide'):
        begin = time.monotonic()
        refused(checks, load(worker.port, name), name)
        checks.in_time(time.monotonic() - begin, ANSWER_WITHIN * STRETCH, name)
    grown = worker.memory()['VmRSS'] - before
    checks.expect(grown < GROWTH, f'{grown} bytes more')


@probe('adapters', 'configurations that are long, deep or full of names')
def configurations(arena, checks) -> None:
    worker, folder = arena.fresh('adapters'), arena.adapters
    names = ','.join(f'"{number}":null' for number in range(300_000))
    texts = {'names': '{"r":4,"lora_alpha":8,' + names + '}', 'deep': '[' * 1_000_000,
             'long': config(target_modules=['a' * 3_000_000]), 'more': config(x='y' * (5 << 20)),
             'twice': '{"r":4,"r":4}', 'numbers': '{"r":' + '9' * 1_000_000 + '}'}
    for name, text in texts.items():
        place = folder / f'config-{name}'
        place.mkdir(exist_ok=True)
        (place / 'adapter_config.json').write_text(text)
        (place / 'adapter_model.safetensors').write_bytes(NO_TENSORS)
        begin = time.monotonic()
        refused(checks, load(worker.port, place.name), name)
        checks.in_time(time.monotonic() - begin, ANSWER_WITHIN * STRETCH, name)


@probe('adapters', 'names and bodies')
def names(arena, checks) -> None:
    port = arena.port('adapters')
    long = ['n' * 255, 'n' * 256, 'n' * 4096, 'n' * 4097, 'n' * 15_000, '/'.join('n' * 2000), 'a\0b', 'a\nb',
            '']
    for path in long:
        refused(checks, load(port, path), f'a path of {len(path)} bytes')
    for name in ('n' * 257, 'n' * 15_000, '', 'a,b', 'a=b', 'a\nb', 'tiny', 'TINY.gguf'):
        refused(checks, load(port, 'nothing', name), f'a name of {len(name)} bytes')
        answer = ask(port, 'POST', '/v1/unload_lora_adapter', {'lora_name': name})
        refused(checks, answer, f'unload of {len(name)} bytes')
    bodies = [b'', b'{', b'[]', b'null', b'{"lora_name":1,"lora_path":2}', b'{"lora_name":"x"}',
              b'{"lora_name":"x","lora_path":"x","lora_path":"y"}', b'{"lora_name":"' + b'x' * 20_000 + b'"}']
    for path in '/v1/load_lora_adapter', '/v1/unload_lora_adapter', '/lora-adapters':
        for body in bodies:
            if path == '/lora-adapters' and body == b'[]':
                continue  # that is all of them at 0
            answer = ask(port, 'POST', path, body)
            checks.expect(400 <= answer.status < 500, f'{path} {body[:20]!r}: {answer.status}')


@probe('adapters', 'the worker answers as before')
def after(arena, checks) -> None:
    port = arena.port('adapters')
    checks.expect(health(port)['adapters'] == 0, 'something was loaded')
    answer = ask(port, 'POST', '/v1/completions', {'prompt': 'x', 'max_tokens': 2})
    checks.expect(answer.status == 200, f'a completion: {answer.status}')
