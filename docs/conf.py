"""How Sphinx builds the documentation: `make docs`, without a network."""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

import ot_draft

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # results.py, and proofs_checks
gc.set_threshold(100_000)  # of many nodes few are garbage; by default, looking for it takes a sixth of the time

project = "ot_draft"
author = "The ot_draft authors"
version = release = ot_draft.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "results",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
default_role = "code"  # single backticks in docstrings
smartquotes_action = "qe"  # no dashes: options start with two hyphens
templates_path = ["templates"]

autosummary_generate = True
autosummary_imported_members = True
numpydoc_show_class_members = False  # the template of a class has its members
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
add_module_names = False

exclude_patterns = ["out", "templates"]
html_extra_path = ["transport.html"]  # the playground, a page of its own

html_theme = "furo"
html_title = f"ot_draft {release}"

# MathJax from its wheel instead of a server of somebody's: the pages read without a network.
_mathjax = find_spec("jupyter_server_mathjax")
assert _mathjax is not None and _mathjax.submodule_search_locations, "install the extra `docs`"
html_static_path = [str(Path(_mathjax.submodule_search_locations[0]) / "static")]
mathjax_path = "MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
mathjax2_config = {
    "tex2jax": {
        "inlineMath": [["\\(", "\\)"]],
        "displayMath": [["\\[", "\\]"]],
        "processClass": "tex2jax_process|mathjax_process|math",
    },
    "HTML-CSS": {"availableFonts": ["TeX"]},
}
myst_update_mathjax = False  # its way is that of MathJax 3; the wheel holds MathJax 2
