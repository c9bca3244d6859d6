"""The published evaluation: protocol, runner, tables, page. ``python -m benchmarks.paper --help``."""
