"""Imports point one way: each package may import the packages below it, at the top of a module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import coassoc

SOURCE = Path(coassoc.__file__).parent
# highest first; packages on one line are neighbours that do not know each other
LAYERS = [
    {"cli"},
    {"experiments"},
    {"report", "datasets"},
    {"consensus"},
    {"metrics"},
    {"ensemble"},
    {"engines"},
    {"core"},
]
LEVEL = {package: len(LAYERS) - depth for depth, packages in enumerate(LAYERS) for package in packages}
BACKENDS = {"cupy", "cupyx", "dask", "distributed", "_kernels"}  # engines/ alone imports these
DRAWING = {"matplotlib", "jinja2"}  # report/ and experiments/ alone import these
# what is still to be mended: the list only shrinks
KNOWN: set[tuple[str, str]] = {
    ("cli.fit_large", "distributed"),
    ("consensus.base", "coassoc.ensemble.gpu_inputs"),
    ("consensus.bisecting", "coassoc.ensemble.gpu"),
    ("consensus.choose_k", "coassoc.report.k_curves"),
    ("consensus.features", "_check_clusterers"),
    ("consensus.features", "_plan"),
    ("consensus.features", "coassoc.metrics"),
    ("engines.__init__", "coassoc.engines.cuda.device"),
    ("engines.__init__", "coassoc.engines.cuda.engine"),
    ("engines.__init__", "coassoc.engines.dask.engine"),
    ("engines.__init__", "coassoc.engines.native.engine"),
    ("engines.__init__", "coassoc.engines.stream.engine"),
    ("engines.config", "coassoc.engines"),
    ("engines.config", "coassoc.engines.native"),
    ("engines.cuda.engine", "coassoc.engines.cuda.device"),
    ("engines.cuda.tables", "coassoc.engines.native.engine"),
    ("engines.dask.session", "coassoc.ensemble.io.blocks"),
    ("engines.dask.tasks", "coassoc.ensemble.io.blocks"),
    ("engines.native.rows", "_first_different"),
    ("engines.stream.chunked", "coassoc.core.moves"),
    ("engines.stream.chunks", "coassoc.engines.native.engine"),
    ("engines.stream.chunks", "coassoc.engines.numpy"),
    ("ensemble.ensemble", "coassoc.engines.native"),
    ("ensemble.ensemble", "coassoc.ensemble.gpu"),
    ("ensemble.ensemble", "coassoc.ensemble.stored"),
    ("ensemble.generate_large", "_Recipe"),
    ("ensemble.generate_large", "_check_clusterers"),
    ("ensemble.generate_large", "_configured"),
    ("ensemble.generate_large", "_plan"),
    ("ensemble.generate_large", "_some"),
    ("ensemble.generate_large", "dask"),
    ("ensemble.gpu", "coassoc.engines.cuda.device"),
    ("ensemble.gpu", "coassoc.engines.cuda.engine"),
    ("ensemble.gpu_inputs", "_is_negative"),
    ("ensemble.gpu_inputs", "coassoc.metrics.labels"),
    ("ensemble.io.arrays", "coassoc.ensemble.encode"),
    ("ensemble.io.blocks", "coassoc.ensemble.io.parquet"),
    ("ensemble.io.reading", "coassoc.ensemble.io.arrays"),
    ("ensemble.io.reading", "coassoc.ensemble.io.h5ad"),
    ("ensemble.io.reading", "coassoc.ensemble.io.parquet"),
    ("ensemble.io.reading", "coassoc.ensemble.io.text"),
    ("ensemble.io.writing", "coassoc.ensemble.io.h5ad"),
    ("ensemble.io.writing", "coassoc.ensemble.io.parquet"),
    ("ensemble.stored", "coassoc.engines"),
    ("ensemble.stored", "coassoc.ensemble.vocabulary"),
    ("ensemble.vocabulary", "coassoc.ensemble.ensemble"),
    ("ensemble.vocabulary", "coassoc.ensemble.tables"),
    ("experiments.runner", "coassoc.metrics"),
    ("experiments.speed", "coassoc.experiments.synthetic"),
    ("experiments.speed_worker", "coassoc.core.tables"),
    ("experiments.speed_worker", "coassoc.engines"),
    ("metrics.labels", "coassoc.ensemble.gpu_inputs"),
    ("report.__init__", "coassoc.report.page"),
    ("report.comparison", "coassoc.consensus.registry"),
    ("report.comparison", "coassoc.core.checks"),
    ("report.comparison", "coassoc.core.densities"),
    ("report.comparison", "coassoc.core.memory"),
    ("report.comparison", "coassoc.ensemble"),
    ("report.comparison", "coassoc.metrics"),
    ("report.comparison", "coassoc.metrics.agreement"),
    ("report.comparison", "coassoc.metrics.densities"),
    ("report.comparison", "coassoc.metrics.labels"),
    ("report.k_curves", "coassoc.ensemble.io.output"),
    ("report.summary", "coassoc.consensus"),
    ("report.summary", "coassoc.report.comparison"),
}


def imports() -> list[tuple[str, str, bool]]:
    """(module, what it imports, whether inside a function), both as dotted names below coassoc."""
    found = []
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
            found += [(module, name, id(node) in inner) for name in names]
    return found


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


def check(found: set[tuple[str, str]]) -> None:
    assert found - KNOWN == set(), "new imports against the layers"


def test_every_package_has_a_layer():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages == set(LEVEL)


def test_imports_point_downwards():
    upwards = {(m, t) for m, t, _ in own() if LEVEL[package_of(m)] <= LEVEL[package_of(t)]}
    check({(m, t) for m, t in upwards if package_of(m) != package_of(t)})


def test_imports_inside_functions_are_for_optional_packages_and_commands():
    check({(m, t) for m, t, inside in own() if inside and package_of(m) != "cli"})


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_engines_alone_import_a_backend(name):
    check({(m, t) for m, t, _ in IMPORTS if name in t.split(".")[:2] and package_of(m) != "engines"})


@pytest.mark.parametrize("name", sorted(DRAWING))
def test_report_and_experiments_alone_draw(name):
    check({(m, t) for m, t, _ in IMPORTS if t.split(".")[0] == name and package_of(m) not in ("report", "experiments")})


def test_core_knows_numpy_alone():
    standard = __import__("sys").stdlib_module_names
    outside = {(m, t) for m, t, _ in IMPORTS if package_of(m) == "core" and not t.startswith("coassoc")}
    check({(m, t) for m, t in outside if t.split(".")[0] not in standard | {"numpy"}})


def test_no_package_imports_private_names_of_another():
    private = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                private |= {
                    (module, alias.name)
                    for alias in node.names
                    if alias.name.startswith("_") and alias.name not in ("_kernels", "_version")
                }
    check(private)
