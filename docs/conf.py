"""Configuration of Sphinx for ``make docs``."""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

_SOURCE = Path(__file__).parent.parent / "src" / "onnx_passes" / "__init__.py"

project = "onnx-passes"
version = release = re.search(r'^__version__ = "(.+)"', _SOURCE.read_text(encoding="utf-8"), re.MULTILINE)[1]
copyright = "the authors of onnx-passes, MIT licence"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build", "generators"]
nitpicky = True
# Whether each page is in the contents is tested by tests/docs.
suppress_warnings = ["toc.not_included"]
lexers["onnx"] = TextLexer()

myst_enable_extensions = ["deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"onnx-passes {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "tango"
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b63a5", "color-brand-content": "#0b63a5"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
    "sidebar_hide_name": False,
}
