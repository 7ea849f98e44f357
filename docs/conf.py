"""Sphinx configuration of the site, which `.ci/docs` builds."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from quaddyn import __version__  # noqa: E402

project, author, copyright = "quaddyn", "The quaddyn authors", "The quaddyn authors"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_copybutton",
    "local_mathjax",
    "generated_pages",
]
exclude_patterns = ["_ext", "_static"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# -- Markdown ---------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # code blocks are run by tests/test_docs.py, which also compares what they print
myst_url_schemes = ("http", "https")

# -- Docstrings -------------------------------------------------------------------------------------------------------
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = True

# -- Pages ------------------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "quaddyn"
html_static_path = ["_static"]
html_css_files = ["quaddyn.css"]
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_nav_level": 1,
    "navigation_depth": 2,
    "header_links_before_dropdown": 6,
    "use_edit_page_button": False,
}
