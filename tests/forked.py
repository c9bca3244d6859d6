"""A forked child, waited for with an end."""

from __future__ import annotations

import os
import signal
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
