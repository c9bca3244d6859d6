"""scikit-build-core's backend, with one addition: where CMake itself is missing, build the pure Python package.

A failing compiler is handled by the overrides in pyproject.toml; a missing CMake is found before they apply.
``COASSOC_REQUIRE_NATIVE=1`` forbids both.
"""

import os

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
