"""Functions stay short: at most 60 lines and 8 parameters, or the docstring says "More than ..." and why."""

from __future__ import annotations

import ast
from pathlib import Path

import coassoc

SOURCE = Path(coassoc.__file__).parent
MOST_LINES, MOST_PARAMETERS = 60, 8


def test_functions_are_short_and_take_few_parameters_or_say_why():
    """Docstrings do not count, nor do the parameters of constructors, which only store."""
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node, clean=False) or ""
                lines = node.end_lineno - node.lineno + 1 - (text.count("\n") + 1 if text else 0)
                names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                long = lines > MOST_LINES and "More than 60 lines:" not in text
                many = len(names - {"self", "cls"}) > MOST_PARAMETERS and "More than 8 parameters:" not in text
                if long or (many and node.name != "__init__"):
                    found.add(f"{path.relative_to(SOURCE)}: {node.name}")
    assert found == set()
