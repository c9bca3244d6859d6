"""scikit-build-core's backend, with two additions.

It builds the pure Python package where CMake is missing, and fills the addresses from one line of pyproject.toml.

A failing compiler is handled by the overrides in pyproject.toml; a missing CMake is found before they apply.
``COASSOC_REQUIRE_NATIVE=1`` forbids both.
"""

import os
import re
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.errors import NotFoundError


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _or_pure(_build.build_wheel, wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _or_pure(_build.build_editable, wheel_directory, config_settings, metadata_directory)


def _or_pure(build, wheel_directory, config_settings, metadata_directory):
    try:
        return build(wheel_directory, config_settings, metadata_directory)
    except NotFoundError:
        if os.environ.get("COASSOC_REQUIRE_NATIVE", "0").lower() not in ("", "0", "false", "no", "off"):
            raise
        pure = {"wheel.cmake": "false", "wheel.py-api": "", "wheel.exclude": "coassoc/_kernels*"}
        return build(wheel_directory, {**(config_settings or {}), **pure}, metadata_directory)


def dynamic_metadata(settings, project):
    """Project URLs, and the README with absolute links, since a package index does not have the files beside it."""
    text = Path("README.md").read_text(encoding="utf-8")
    repository, urls = settings["repository"].rstrip("/"), {}
    if repository:
        pages = {"Source": "", "Documentation": "/blob/HEAD/docs/index.md", "Changelog": "/blob/HEAD/CHANGELOG.md"}
        urls = {name: repository + path for name, path in {**pages, "Issues": "/issues"}.items()}
        text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\1{repository}/raw/HEAD/", text)
        text = re.sub(r"(\]\()(?!\w+:|#)", rf"\1{repository}/blob/HEAD/", text)
    return {"readme": {"content-type": "text/markdown", "text": text}, "urls": urls}
