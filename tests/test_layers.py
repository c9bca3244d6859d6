"""Imports point one way: each package may import the packages below it, at the top of a module."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import coassoc

SOURCE = Path(coassoc.__file__).parent
LAYERS = ["core", "engines", "ensemble", "metrics", "consensus", "report", "cli"]  # lowest first
LEVEL = {package: level for level, package in enumerate(LAYERS)}
BACKENDS = {"cupy", "cupyx", "dask", "distributed", "_kernels"}  # engines/ alone imports these
DRAWING = {"matplotlib", "jinja2"}  # report/ alone imports these
SHARED = {"__version__", "_kernels", "_version"}  # private names that any package may import


def statements():
    """(module, import statement, what it imports, whether inside a function); dotted names below coassoc."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        package = ["coassoc", *module.split(".")][:-1]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        inner = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                target = ".".join(part for part in (*base, node.module) if part)
                names = [f"{target}.{alias.name}" for alias in node.names] if target == "coassoc" else [target]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                yield module, node, name, id(node) in inner


IMPORTS = list(statements())


def package_of(dotted: str) -> str:
    return dotted.removeprefix("coassoc.").split(".")[0]


def edges(allowed=lambda package, target, inside: False):
    """(module, what it imports) of imports that are not allowed."""
    return {(m, target) for m, _, target, inside in IMPORTS if not allowed(package_of(m), target, inside)}


def is_own(package, target):
    return target.startswith("coassoc.") and package in LEVEL and package_of(target) in LEVEL


def within(names, home):
    """Imports of these top-level names, from the package `home` alone."""
    return lambda package, target, _: package == home or not names & {*target.split(".")[:2]}


RULES = {
    "imports point downwards": lambda package, target, _: (
        not is_own(package, target) or package == package_of(target) or LEVEL[package] > LEVEL[package_of(target)]
    ),
    "only commands import the whole package, which leads upwards": lambda package, target, _: (
        target != "coassoc" or package == "cli"
    ),
    "imports inside functions are for optional packages and commands": lambda package, target, inside: (
        not inside or not is_own(package, target) or package == "cli"
    ),
    "engines alone import a backend": within(BACKENDS, "engines"),
    "report alone draws": within(DRAWING, "report"),
    "nothing imports the evaluation": within({"benchmarks"}, None),
    "core knows NumPy alone": lambda package, target, _: (
        package != "core" or target.split(".")[0] in sys.stdlib_module_names | {"numpy", "coassoc"}
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_imports(rule):
    assert edges(RULES[rule]) == set()


def test_every_package_has_a_layer():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages == set(LEVEL)


def test_no_package_imports_private_names_of_another():
    relative = [(m, node) for m, node, _, _ in IMPORTS if isinstance(node, ast.ImportFrom) and node.level]
    private = {(m, alias.name) for m, node in relative for alias in node.names if alias.name.startswith("_")}
    assert {(m, name) for m, name in private if name not in SHARED} == set()
