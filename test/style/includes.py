"""The rules about what includes what, which need the whole project: no circle among units, and inside a
top folder the arrows between its rooms point one way. (That the arrows between the top folders do is
rules.include_direction, one file at a time.)

A unit is a path without its suffix: X.hpp, X.cuh, X.cpp and X.cu are one thing that is read together.
"""
import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Dict, Iterator, List, Mapping, NamedTuple, Set, Tuple

import cpp_text
import rules

# Each room with those that it stands on: it may include them and what they stand on in turn. A room is a
# folder with what is below it, or a single unit; a top folder's own entry is for the files right in it.
# Rooms stand on rooms that are listed before them, so that there is no circle of rooms.
ROOMS: Dict[str, Tuple[str, ...]] = {
    'net/limits': (),
    'net/json': ('net/limits',),
    'net/journal': (),
    'net/http': ('net/json', 'net/journal'),
    # What the model and its adapters are called, and which adapters there are.
    'net/models': ('net/http',),
    'net/status': ('net/models',),
    'net/failover': ('net/status',),
    'net/discovery': ('net/status',),
    # Responses that are kept for a later request.
    'net/store': ('net/http',),
    'net/traces': ('net/status',),
    'net/jobs': ('net/traces', 'net/store'),
    'net/execute': ('net/jobs',),
    # A request of any API becomes a completion here, and its answer's parts texts.
    'net/completion': ('net/jobs',),
    'net/openai': ('net/completion',),
    'net/anthropic': ('net/completion',),
    'net/llama': ('net/completion',),
    'net/responses': ('net/completion',),
    'net/pooled': ('net/completion',),
    'net/ollama': ('net/pooled',),
    'net/server': ('net/failover', 'net/execute', 'net/openai', 'net/anthropic', 'net/llama', 'net/ollama',
                   'net/responses'),

    'gpu': (),
    'gpu/include': (),
    # Memory that outlives a process or is watched: arenas, their hashes, the audit.
    'gpu/memory': ('gpu',),
    'gpu/plan': ('gpu/memory',),
    'gpu/host': ('gpu/plan',),
    'gpu/cuda': ('gpu/host',),
    'gpu/capi': ('gpu/cuda', 'gpu/include'),

    'kernels/device': (),
    # The file's own blocks, which host code reads too.
    'kernels/product/quant_blocks': (),
    'kernels/product/quant_grids': (),
    'kernels/product': ('kernels/device', 'kernels/product/quant_blocks', 'kernels/product/quant_grids'),
    'kernels/images': ('kernels/product',),
    'kernels/recurrent': ('kernels/product',),
    'kernels/attention': ('kernels/product',),
    # What routers of both sides are told.
    'kernels/layer/expert_groups': (),
    'kernels/layer': ('kernels/images', 'kernels/layer/expert_groups'),
    'kernels/sample': ('kernels/device',),
    # Of pictures and sounds.
    'kernels/tower': ('kernels/attention',),
    'kernels/decode_program': ('kernels/attention', 'kernels/layer', 'kernels/sample'),
    'kernels/host': ('kernels/product/quant_blocks', 'kernels/product/quant_grids',
                     'kernels/layer/expert_groups'),

    'engine/base': (),
    'engine/gguf': ('engine/base',),
    'engine/safetensors': ('engine/gguf',),
    'engine/model': ('engine/gguf',),
    # Pictures, what becomes of them, and the towers that see them.
    'engine/media': ('engine/model',),
    # Adapters of a model, read into pairs of matrices.
    'engine/lora': ('engine/model', 'engine/safetensors'),
    'engine/text': ('engine/gguf',),
    'engine/jinja': ('engine/text',),
    'engine/sampling': ('engine/base',),
    'engine/grammar': ('engine/sampling', 'engine/text'),
    'engine/grammar/schema': ('engine/grammar',),
    'engine/chat': ('engine/jinja', 'engine/grammar/schema'),
    # The interface that gpu/ implements and the scheduler calls.
    'engine/accelerator': ('engine/lora', 'engine/media', 'engine/sampling'),
    'engine/schedule': ('engine/accelerator',),
    # How a model is told a conversation.
    'engine/conversation': ('engine/chat',),
    # What serving knows of a model file before a weight is loaded.
    'engine/served': ('engine/schedule', 'engine/text'),
    'engine': ('engine/served', 'engine/conversation'),

    # Which build a program is of.
    'app/version': (),
    # How all programs write about texts of others.
    'app/console': (),
    # What the process has to do with a service manager.
    'app/service': ('app/console',),
    # What engines of one device tell each other about their weights.
    'app/weights': (),
    # What every process does with signals, memory and descriptors, its log, and the codes that it ends with.
    'app/process': ('app/console',),
    # What an operator can set: its rows, how it is read and checked.
    'app/options': ('app/process', 'app/version'),
    # What decides an engine's answers.
    'app/identity': ('app/options',),
    # Opens and checks a model.
    'app/model': ('app/options',),
    # Decodes strangers' pictures in a process of its own; the worker knows how to talk to it.
    'app/decoder': (),
    'app/media': ('app/decoder',),
    # The serving process, where all parts meet.
    'app/worker': ('app/identity', 'app/media', 'app/model', 'app/service', 'app/weights'),
    'app/inspect': ('app/version', 'app/console'),
    'app/pod': ('app/version', 'app/console'),
    # Model files of trainers into model files of this engine.
    'app/quantize': ('app/version', 'app/console'),
    'app/holder': ('app/options', 'app/service'),
    # The token pipe of the Trillim SDK.
    'app/pipe': ('app/model',),
    'app/main': ('app/worker', 'app/inspect', 'app/holder', 'app/pipe', 'app/pod', 'app/quantize',
                 'app/decoder'),
}

INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


class Include(NamedTuple):
    line: int
    target: str


@lru_cache(maxsize=None)
def unit_of(path: str) -> str:
    """The path without its suffix."""
    return str(PurePosixPath(path).with_suffix(''))


def is_checked(path: PurePosixPath) -> bool:
    return path.suffix in rules.CPP and path.parts[0] in rules.LAYERS


def includes_of(text: str) -> List[Include]:
    """Includes of the project's own files."""
    found = ((line, INCLUDE.match(content)) for line, content in
             rules.numbered(cpp_text.without_comments(text)))
    return [Include(line, match.group(1)) for line, match in found if match]


def rings(graph: Mapping[str, Set[str]]) -> List[List[str]]:
    """The sets of two and more nodes that reach one another (strongly connected components), by Tarjan."""
    index: Dict[str, int] = {}
    lowest: Dict[str, int] = {}
    stack: List[str] = []
    found: List[List[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            first = stack.index(node)
            if len(stack) - first > 1:
                found.append(sorted(stack[first:]))
            del stack[first:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def circles(sources: Mapping[str, str]) -> Iterator[str]:
    """One line for each set of units that include one another. `sources`: path to text."""
    graph: Dict[str, Set[str]] = {}
    paths: Dict[str, str] = {}
    for path, text in sorted(sources.items()):
        unit = unit_of(path)
        paths.setdefault(unit, path)
        targets = {unit_of(include.target) for include in includes_of(text)}
        graph.setdefault(unit, set()).update(targets - {unit})
    for ring in rings(graph):
        yield (f'{paths[ring[0]]}:1: circle of includes: {", ".join(ring)}; '
               'what several of them need gets a header of its own')


def room_of(path: str) -> str:
    """The room of a file; empty when ROOMS has none for it."""
    unit = unit_of(path)
    if unit in ROOMS and '/' in unit:
        return unit
    folder = str(PurePosixPath(path).parent)
    if folder in ROOMS:
        return folder
    below = (str(parent) for parent in PurePosixPath(folder).parents)
    return next((room for room in below if room in ROOMS and '/' in room), '')


def rooms_below(room: str) -> Set[str]:
    """The rooms that a room may include, itself among them."""
    found = {room}
    for lower in ROOMS[room]:
        found |= rooms_below(lower)
    return found


def upward(sources: Mapping[str, str]) -> Iterator[str]:
    """Each include of a room that the includer's room does not stand on, inside one top folder."""
    for path, text in sorted(sources.items()):
        room = room_of(path)
        if not room:
            yield f'{path}:1: {PurePosixPath(path).parent}/ has no place in ROOMS of test/style/includes.py'
            continue
        for include in includes_of(text):
            if include.target.split('/')[0] != path.split('/')[0]:
                continue
            target = room_of(include.target)
            if target not in rooms_below(room):
                allowed = ', '.join(sorted(rooms_below(room) - {room})) or 'nothing beside itself'
                yield (f'{path}:{include.line}: {room} may not include {include.target}; '
                       f'in {path.split("/")[0]}/ it may include: {allowed}')


def check(sources: Mapping[str, str]) -> List[str]:
    """Breaches of both rules; `sources` holds every checked file of the project by path."""
    return [*circles(sources), *upward(sources)]
