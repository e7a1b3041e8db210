"""The only sleep of the tests in Python; the check of style refuses any other."""
import time


def pause(seconds: float, why: str) -> None:
    """For time that is itself a part of the test: a pace, a silence, a delay, or how long something must not
    happen. A test that waits for something to happen waits for that: Worker.wait_event, or wait_until where
    it can only be asked for. `why` is for the reader."""
    assert why
    time.sleep(seconds)
