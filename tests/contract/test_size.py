"""Functions stay short: at most 60 lines and 8 parameters, or a comment says "More than ..." and why."""

from __future__ import annotations

import ast
from pathlib import Path

import coassoc

SOURCE = Path(coassoc.__file__).parent
MOST_LINES, MOST_PARAMETERS = 60, 8


def test_functions_are_short_and_take_few_parameters_or_say_why():
    """Docstrings do not count, nor do the parameters of constructors and those that a docstring explains one by one."""
    too_long = set()
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node, clean=False) or ""
                lines = node.end_lineno - node.lineno + 1 - (text.count("\n") + 1 if text else 0)
                names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                long = lines > MOST_LINES
                explained = node.name == "__init__" or "    Parameters\n" in text
                many = len(names - {"self", "cls"}) > MOST_PARAMETERS and not explained
                wanted = ["More than 60 lines:"] * long + ["More than 8 parameters:"] * many
                if wanted and not all(reason in ast.get_source_segment(source, node) for reason in wanted):
                    too_long.add(f"{path.relative_to(SOURCE)}: {node.name}")
    assert too_long == set()
