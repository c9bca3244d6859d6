"""The published evaluation: protocol, runner, tables, page."""
