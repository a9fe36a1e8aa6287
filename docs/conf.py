"""How the documentation becomes a site: ``python -m sphinx -W --keep-going -b html docs build/docs``."""

import os
import sys
import tempfile
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

import dpinfer

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dpinfer"
author = "The dpinfer developers"
project_copyright = f"2026, {author}"
version = release = dpinfer.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "mathml",
    "names",
    "outputs",
    "pictures",
]
exclude_patterns = ["_build", "notebooks"]  # notebooks are files to save, made from pages
templates_path = ["_templates"]
smartquotes = False  # formulas write X'X
default_role = "py:obj"

autosummary_generate = True  # a page for each name that docs/api.md lists
autodoc_typehints = "none"  # numpydoc sections say the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
add_module_names = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{word: word for word in DEFAULT_LINKS},  # no links to other sites: the build needs no network
    **{name: f"dpinfer.{name}" for name in dpinfer.__all__ if not name.startswith("_")},
    **{name: f"dpinfer.errors.{name}" for name in dpinfer.errors.__all__},
    "Cost": "dpinfer.privacy.Cost",
    "CombinedResults": "dpinfer.results.descriptions.CombinedResults",
    "ConsistencyTest": "dpinfer.statistics.combination.ConsistencyTest",
    "Data": "dpinfer.kernel.stage.Data",
    "Description": "dpinfer.descriptions.question.Description",
    "DescriptionResults": "dpinfer.results.descriptions.DescriptionResults",
    "ExpFam": "dpinfer.families.question.ExpFam",
    "Explanation": "dpinfer.procedures.procedure.Explanation",
    "FamilyResults": "dpinfer.families.question.FamilyResults",
    "Gram": "dpinfer.regression.linear.Gram",
    "Measurement": "dpinfer.kernel.measurement.Measurement",
    "MeanPrediction": "dpinfer.results.MeanPrediction",
    "MultivariateNormal": "dpinfer.families.question.MultivariateNormal",
    "NoiseLaw": "dpinfer.release.NoiseLaw",
    "OLS": "dpinfer.regression.linear.OLS",
    "Plan": "dpinfer.studies.Plan",
    "Population": "dpinfer.studies.Population",
    "PrivateSummary": "dpinfer.results.printing.PrivateSummary",
    "Rules": "dpinfer.studies.Rules",
    "SharedPlan": "dpinfer.studies.SharedPlan",
    "StudyResults": "dpinfer.studies.StudyResults",
    "TableResults": "dpinfer.results.descriptions.TableResults",
}

myst_heading_anchors = 3
myst_enable_extensions = ["amsmath", "attrs_block", "dollarmath"]
html_math_renderer = "mathml"
os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp()  # a list of fonts of this build's own, whatever others left in the home
os.environ["DPINFER_DOCS"] = str(Path(__file__).parent)  # for the picture of the folders
nb_execution_mode = "force"
nb_execution_in_temp = True  # ledgers and releases that a page writes
nb_execution_timeout = 600  # of a cell, on a machine that does other work, too
nb_execution_raise_on_error = True
nb_execution_show_tb = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # tables of other packages offer Typst beside HTML
nb_output_stderr = "warn"  # a warning in an example is a mistake

html_theme = "pydata_sphinx_theme"
html_title = f"dpinfer {version}"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["dpinfer.css"]
html_js_files = [("dpinfer.js", {"defer": "defer"})]
html_sidebars = {"index": [], "**": ["sidebar-nav-bs"]}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "dpinfer"},
    "header_links_before_dropdown": 9,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "show_nav_level": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_center": ["footer-links"],
    "footer_end": ["sphinx-version"],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
