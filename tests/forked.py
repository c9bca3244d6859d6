"""Children of a test, waited for with an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest


def exit_code(child: int, seconds: float = 60) -> int:
    """How the child ended; one that hangs is killed and fails the test."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the forked child hangs")


def seconds_to_stop(code: str) -> float:
    """How long Python takes to end on Ctrl-C, sent half a second after `code` printed "ready"."""
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = child.stdout.readline()
        if line != "ready\n":  # killed first: an endless child would never close its stderr
            child.kill()
            pytest.fail(f"the child said {line!r} and {child.communicate()[1]}")
        time.sleep(0.5)
        sent = time.perf_counter()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
        took = time.perf_counter() - sent
    finally:
        child.kill()
    assert "KeyboardInterrupt" in errors
    return took
