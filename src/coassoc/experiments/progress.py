"""Progress and remaining time of a long run, on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    seconds = max(0, round(seconds))
    if seconds < 90:
        return f"{seconds} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """A line that is rewritten on a terminal, and one line every `every` seconds elsewhere.

    `update(share, text)` takes the share of the work that is done; the time left assumes the rest goes at the same
    pace.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 10.0, quiet: bool = False):
        self.stream = sys.stderr if stream is None else stream
        self.every = every
        self.quiet = quiet
        self.start = time.monotonic()
        self.last = -1e9
        self.bar: Any = None
        terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.rewrite = terminal
        if terminal and not quiet:
            self.bar = _rich_bar(self.stream)

    def update(self, share: float, text: str) -> None:
        """Show what was done last."""
        if self.quiet:
            return
        now = time.monotonic()
        if share < 1 and now - self.last < (0.2 if self.rewrite else self.every):
            return
        self.last = now
        spent = now - self.start
        left = duration(spent / share * (1 - share)) if share > 0 else "unknown"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=share, description=f"{text}, {left} left")
            return
        line = f"{100 * share:3.0f} % {text}, about {left} left"
        print(
            f"\r\x1b[2K{line}" if self.rewrite else line, end="" if self.rewrite else "\n", file=self.stream, flush=True
        )

    def close(self) -> None:
        """End the line."""
        if self.bar is not None:
            self.bar.stop()
        elif self.rewrite and not self.quiet and self.last > 0:
            print(file=self.stream)


def _rich_bar(stream: TextIO) -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    bar = RichProgress(
        TaskProgressColumn(), BarColumn(), TextColumn("{task.description}"), console=Console(file=stream)
    )
    bar.add_task("starting", total=1.0)
    bar.start()
    return bar
