"""Engines with one copy of the weights whose holder or model changes under them, or that do not map it all
the time."""
import fcntl
import os
import resource
import signal
import time

import pytest

from holders import DONE, OWN_DEVICE, READ, WRITE, Held, WeightsClient
from test_shared_weights import SHAPE, answer, mappings, pair, start
from worker_process import BACKEND, PATIENCE, SANITIZED, STRETCH, wait_until

# Of size, for ever, and against new mappings that write (F_SEAL_FUTURE_WRITE, which Python does not name).
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL | 0x10


@pytest.fixture
def sharing(models, tmp_path):
    with Held(models('wide', *SHAPE), tmp_path) as all_of_them:
        all_of_them.start_holder(*OWN_DEVICE)
        yield all_of_them


def newer_model(models):
    """The same shapes with other numbers."""
    return models('wide-other', *SHAPE, '--seed', '2')


def is_complete(held: Held) -> bool:
    """Whether the weights are at the holder, and two engines read them."""
    with WeightsClient(held.folder, OWN_DEVICE[1]) as one:
        state = one.state()
        return bool(state.committed) and state.readers == 2


def test_an_engine_that_starts_with_the_holder_waits_for_one_that_lives(sharing):
    first, second = pair(sharing)
    first.wait_event('weights_shared')
    first.kill()
    second.wait_state('ACTIVE')
    sharing.holder.kill()
    # It cannot offer anything for a moment.
    second.process.send_signal(signal.SIGSTOP)
    try:
        sharing.start_holder(*OWN_DEVICE, ready=False)
        wait_until(lambda: (sharing.folder / 'connections.sock').exists(), PATIENCE, 'the holder is there')
        first = start(sharing, 0, '', '--holder', 'off')
        assert 'an engine that lives' in first.wait_event('weights_wait')['message']
    finally:
        second.process.send_signal(signal.SIGCONT)
    first.wait_event('weights_imported')
    assert not first.events('weights_shared')


def test_an_upgrade_with_room_for_both(sharing, models):
    """docs/failover.md: the new engine 0 has weights beside the old ones, until nobody reads those."""
    first = sharing.start(0, '--share-weights', 'auto', state='ACTIVE')
    first.wait_event('weights_shared')
    second = sharing.start(1, '--share-weights', 'auto', state='STANDBY')
    expected = answer(sharing)
    first.terminate()
    second.wait_state('ACTIVE')
    sharing.model = newer_model(models)
    newer = sharing.start(0, '--share-weights', 'auto', state='STANDBY')
    assert '1 other engine uses weights' in newer.wait_event('weights_not_shared')['message']
    assert answer(sharing) == expected
    assert not newer.events('weights_shared')
    second.terminate()
    newer.wait_state('ACTIVE')
    newer.wait_event('weights_shared')
    sharing.start(1, '--share-weights', 'auto', state='STANDBY').wait_event('weights_imported')
    assert answer(sharing) != expected


def test_an_upgrade_with_room_for_one(sharing, models):
    """The new engine 0 waits until nobody reads the old weights."""
    first, second = pair(sharing)
    first.wait_event('weights_shared')
    first.terminate()
    second.wait_state('ACTIVE')
    sharing.model = newer_model(models)
    newer = start(sharing, 0, '')
    assert '1 other engine uses weights' in newer.wait_event('weights_wait')['message']
    assert newer.state() == 'INIT'
    second.terminate()
    newer.wait_state('ACTIVE')
    newer.wait_event('weights_shared')
    start(sharing, 1, 'STANDBY').wait_event('weights_imported')


def sealed(content) -> int:
    """Memory as an engine gives its weights."""
    made = os.memfd_create('weights', os.MFD_ALLOW_SEALING)
    os.write(made, content)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, SEALS)
    return made


@pytest.mark.skipif(BACKEND != 'host', reason="a GPU's memory is not read through its descriptor")
def test_damaged_weights_are_loaded_again(sharing):
    """Whoever maps them finds it, and engine 0 does not find the same for ever."""
    first = start(sharing, 0, 'ACTIVE')
    first.wait_event('weights_shared')
    expected = answer(sharing)
    with WeightsClient(sharing.folder, OWN_DEVICE[1]) as other:
        granted = other.claim(READ)
        content = bytearray(other.get(b'weights'))
    first.kill()
    content[len(content) // 2] ^= 1
    spoilt = sealed(content)
    with WeightsClient(sharing.folder, OWN_DEVICE[1]) as other:
        assert other.claim(WRITE).mode == WRITE
        other.ask_put(b'weights', len(content), spoilt)
        assert other.receive()[0] == DONE
        other.commit(granted.layout, content=granted.content, metadata=granted.metadata)
    os.close(spoilt)
    reader = start(sharing, 1, '')
    assert reader.wait_exit(PATIENCE * STRETCH) == 71
    assert 'damaged' in reader.wait_event('error', code='STALE_WEIGHTS')['message']
    first = start(sharing, 0, 'ACTIVE')
    first.wait_event('weights_shared')
    assert answer(sharing) == expected
    start(sharing, 1, 'STANDBY').wait_event('weights_imported')


@pytest.mark.skipif(SANITIZED, reason='a sanitizer lacks descriptors itself')
def test_engines_without_descriptors_outlive_the_holder(sharing):
    """What they need to accept by themselves, and for the next one, they get later."""
    both = pair(sharing)
    both[0].wait_event('weights_shared')
    soft, hard = resource.prlimit(both[0].pid, resource.RLIMIT_NOFILE)
    # The GPU's driver waits for its own descriptors by poll(), which fails for more than the limit allows.
    none_free = 3 if BACKEND == 'host' else 32
    for engine in both:
        resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (none_free, hard))
    sharing.holder.kill()
    for engine in both:
        engine.wait_event('holder_lost')
    time.sleep(0.5)  # some tries
    for engine in both:
        assert engine.alive()
        resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert answer(sharing)
    sharing.start_holder(*OWN_DEVICE)
    wait_until(lambda: is_complete(sharing), PATIENCE, 'both have their weights at the holder again')
    assert answer(sharing)


# --- weights that are not mapped while the engine waits ---------------------------------------------------

def maps_weights(engine) -> bool:
    """On the host; a GPU's memory is in no table of the kernel."""
    return mappings(engine, 'orcd-weights').Size > 0


def sleeping_pair(held: Held, *options: str):
    """The second one has given its right to read back."""
    first = start(held, 0, 'ACTIVE')
    second = start(held, 1, 'STANDBY', '--standby-weights', 'unmapped', *options)
    second.wait_event('weights_unmapped')
    return first, second


def test_remap_success(sharing):
    first, second = sleeping_pair(sharing)
    expected = answer(sharing)
    assert not maps_weights(second)
    with WeightsClient(sharing.folder, OWN_DEVICE[1]) as one:
        assert one.state().readers == 1
    first.kill()
    second.wait_state('ACTIVE')
    second.wait_event('weights_mapped')
    assert answer(sharing) == expected
    assert maps_weights(second) or BACKEND != 'host'
    # Its right to read is there again, and it offers what it has to the next holder.
    sharing.holder.kill()
    sharing.start_holder(*OWN_DEVICE)

    def is_there() -> bool:
        with WeightsClient(sharing.folder, OWN_DEVICE[1]) as one:
            return one.state()[3:] == (1, 0, 0, 1)
    wait_until(is_there, PATIENCE, 'it has offered them')


def test_remap_by_the_one_that_has_loaded(sharing):
    first, second = pair(sharing)
    expected = answer(sharing)
    first.kill()
    second.wait_state('ACTIVE')
    # Nobody has the weights any more, and it has to load them while another one has the lock.
    second.kill()
    sharing.holder.kill()
    sharing.start_holder(*OWN_DEVICE)
    with open(sharing.folder / 'failover.lock', 'r+', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = start(sharing, 0, 'STANDBY', '--standby-weights', 'unmapped')
        first.wait_event('weights_unmapped')
        assert not maps_weights(first)
    first.wait_state('ACTIVE')
    assert answer(sharing) == expected


def wakes_beside_a_writer(held: Held, *options: str):
    """The engine that waits has the lock, and somebody else writes to the device."""
    first, second = sleeping_pair(held, *options)
    writer = WeightsClient(held.folder, OWN_DEVICE[1])
    writer.ask_claim(WRITE, engine=5)
    wait_until(lambda: waiting(held) == 1, PATIENCE, 'it has asked')
    first.kill()
    assert writer.granted().mode == WRITE
    return second, writer


def waiting(held: Held) -> int:
    with WeightsClient(held.folder, OWN_DEVICE[1]) as one:
        return one.state().waiting


def test_remap_timeout(sharing):
    second, writer = wakes_beside_a_writer(sharing, '--remap-timeout-ms', '300')
    with writer:
        assert second.wait_exit(PATIENCE * STRETCH) == 72
    assert 'not granted within 300 ms' in second.wait_event('error', code='WEIGHTS_LOST')['message']
    assert not second.events('failover_state', to='ACTIVE')


def test_remap_stale_layout(sharing):
    second, writer = wakes_beside_a_writer(sharing)
    with writer:
        writer.put(b'weights', b'others')
        writer.commit(bytes(range(32)))
        assert second.wait_exit(PATIENCE * STRETCH) == 71
    assert 'the layout is not what it was' in second.wait_event('error', code='STALE_WEIGHTS')['message']


@pytest.mark.skipif(BACKEND != 'host', reason="a GPU's memory is not read through its descriptor")
def test_remap_damaged_content(sharing):
    """The same hashes are told of other bytes: who wakes hashes what it maps, and does not serve."""
    first, second = sleeping_pair(sharing)
    with WeightsClient(sharing.folder, OWN_DEVICE[1]) as reader:
        granted = reader.claim(READ)
        content = bytearray(reader.get(b'weights'))
    content[len(content) // 3] ^= 1
    with WeightsClient(sharing.folder, OWN_DEVICE[1]) as writer:
        writer.ask_claim(WRITE, engine=5)
        wait_until(lambda: waiting(sharing) == 1, PATIENCE, 'it has asked')
        first.kill()
        assert writer.granted().mode == WRITE
        spoilt = sealed(content)
        writer.ask_put(b'weights', len(content), spoilt)
        os.close(spoilt)
        assert writer.receive()[0] == DONE
        writer.commit(granted.layout, content=granted.content, metadata=granted.metadata)
        assert second.wait_exit(PATIENCE * STRETCH) == 71
    assert 'damaged' in second.wait_event('error', code='STALE_WEIGHTS')['message']
    assert not second.events('failover_state', to='ACTIVE')


def test_remap_gms_dead(sharing):
    first, second = sleeping_pair(sharing)
    sharing.holder.kill()
    first.kill()
    assert second.wait_exit(PATIENCE * STRETCH) == 72
    assert second.wait_event('error')['code'] == 'WEIGHTS_LOST'
