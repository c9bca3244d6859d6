"""Imports point one way: each package may import the packages below it, at the top of a module."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import coassoc

SOURCE = Path(coassoc.__file__).parent
LAYERS = ["core", "engines", "ensemble", "metrics", "consensus", "report", "cli"]  # lowest first
LEVEL = {package: level for level, package in enumerate(LAYERS)}
BACKENDS = {"cupy", "cupyx", "dask", "distributed", "_kernels"}  # engines/ alone imports these
DRAWING = {"matplotlib", "jinja2"}  # report/ alone imports these


def imports() -> list[tuple[str, str, bool]]:
    """(module, what it imports, whether inside a function), both as dotted names below coassoc."""
    edges = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        package = ["coassoc", *module.split(".")][: None if path.name == "__init__.py" else -1]
        if path.name == "__init__.py":
            package = package[:-1]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
                target = ".".join(part for part in (base, node.module) if part)
                names = [f"{target}.{alias.name}" for alias in node.names] if target == "coassoc" else [target]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            edges += [(module, name, id(node) in inner) for name in names]
    return edges


IMPORTS = imports()


def package_of(dotted: str) -> str:
    return dotted.removeprefix("coassoc.").split(".")[0]


def own() -> list[tuple[str, str, bool]]:
    """Imports between packages of coassoc."""
    return [
        (module, target, inside)
        for module, target, inside in IMPORTS
        if target.startswith("coassoc.") and package_of(module) in LEVEL and package_of(target) in LEVEL
    ]


def test_every_package_has_a_layer():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages == set(LEVEL)


def test_imports_point_downwards():
    upwards = {(m, t) for m, t, _ in own() if LEVEL[package_of(m)] <= LEVEL[package_of(t)]}
    assert {(m, t) for m, t in upwards if package_of(m) != package_of(t)} == set()


def test_nothing_below_the_command_line_imports_the_whole_package():
    """``import coassoc`` leads upwards from everywhere."""
    assert {(m, t) for m, t, _ in IMPORTS if t == "coassoc" and package_of(m) != "cli"} == set()


def test_imports_inside_functions_are_for_optional_packages_and_commands():
    assert {(m, t) for m, t, inside in own() if inside and package_of(m) != "cli"} == set()


def test_engines_alone_import_a_backend_report_alone_draws_and_nothing_imports_the_evaluation():
    assert {(m, t) for m, t, _ in IMPORTS if BACKENDS & {*t.split(".")[:2]} and package_of(m) != "engines"} == set()
    drawing = {(m, t) for m, t, _ in IMPORTS if t.split(".")[0] in DRAWING}
    assert {package_of(m) for m, _ in drawing} <= {"report"}, drawing
    assert {(m, t) for m, t, _ in IMPORTS if t.split(".")[0] == "benchmarks"} == set()


def test_core_knows_numpy_alone():
    outside = {(m, t) for m, t, _ in IMPORTS if package_of(m) == "core" and not t.startswith("coassoc")}
    assert {(m, t) for m, t in outside if t.split(".")[0] not in sys.stdlib_module_names | {"numpy"}} == set()


def test_no_package_imports_private_names_of_another():
    private = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                private |= {
                    (module, alias.name)
                    for alias in node.names
                    if alias.name.startswith("_") and alias.name not in ("__version__", "_kernels", "_version")
                }
    assert private == set()
