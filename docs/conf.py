"""Sphinx configuration. Build: python -m sphinx -W -n -b html docs docs/_build/html"""

import os
import re
import tomllib
from pathlib import Path

import coassoc

project = "coassoc"
author = "the coassoc developers"
release = coassoc.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
if os.environ.get("READTHEDOCS"):  # elsewhere the site builds without a network
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "anndata": ("https://anndata.readthedocs.io/en/stable", None),
    }
exclude_patterns = [
    "_build",
    "results",
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/*.md5",
    "gallery/GALLERY_HEADER.rst",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
autosummary_generate = True
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!coassoc).*"),  # links into other projects are not ours to check
    (r"py:.*", r"coassoc\.\w+\.[\w.]+\.\w+"),  # annotations that name a class by its module
]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
suppress_warnings = ["config.cache", "myst.header"]  # sections of generated tables are of the third level

html_theme = "pydata_sphinx_theme"
html_title = "coassoc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["globaltoc.html"]}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": True,
    "navbar_center": [],  # the sidebar has every page
    "secondary_sidebar_items": ["page-toc"],
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "plot_gallery": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
}


# Pages also link to files of the repository that are no part of the site; a repository's page follows those links.
SETTINGS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
REPOSITORY = next(of["repository"] for of in SETTINGS["dynamic-metadata"] if "repository" in of).rstrip("/")
OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)*(?:benchmarks|SECURITY|results)[\w./-]*?)(#[\w-]*)?\)")


def name_files(app, docname, source):
    """In the site, name the file instead of linking to it, or link to the repository once pyproject.toml has its address."""
    def named(link):
        path = "docs/" + link[2] if link[2].startswith("results") else link[2].replace("../", "")
        return f"[{link[1]}]({REPOSITORY}/blob/HEAD/{path}{link[3] or ''})" if REPOSITORY else f"{link[1]} (`{path}`)"

    source[0] = OUTSIDE.sub(named, source[0])


def setup(app):
    app.connect("source-read", name_files)
