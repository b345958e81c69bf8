"""A hook of mkdocs (`make site`) for pages and links outside docs/.

In the repository, links are relative to the file, so that they work there. On the site, a link points to the page, or
from target/site to the file in the checkout. A link to a missing file is an error.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
CHECKOUT = "checkout:"
"""Placeholder for the root of the checkout until a page is built: mkdocs refuses links that lead out of the site."""
PAGES = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files at the root of the repository, and their pages."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are outside docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the text of a page with its links changed for the site."""
    del config, files
    sources = {made: name for name, made in PAGES.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return site_text(markdown, source)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Return a page whose links to the checkout are relative to target/site."""
    del page, config
    return output.replace(f'href="{CHECKOUT}', 'href="../../')


def site_text(markdown: str, source: str) -> str:
    """Return the Markdown of a file of the repository, with its links changed for the site. Raises PluginError."""
    parts, last = [], 0
    for code in CODE.finditer(markdown):
        parts += [_linked(markdown[last : code.start()], source), code[0]]
        last = code.end()
    return "".join([*parts, _linked(markdown[last:], source)])


def _linked(text: str, source: str) -> str:
    return LINK.sub(lambda link: site_link(link[1], source) + (link[2] or ""), text)


def site_link(target: str, source: str) -> str:
    """Return the target that a link has on the site. Raises PluginError for a missing file."""
    path = PurePosixPath(os.path.normpath(PurePosixPath(source).parent / target))
    if not (ROOT / path).exists():
        raise PluginError(f"{source}: there is no {path}")
    if str(path) in PAGES:
        return PAGES[str(path)]
    if path.parts[0] == "docs" and (ROOT / path).is_file():
        folder = PurePosixPath(source).parent if source.startswith("docs/") else PurePosixPath("docs")
        return os.path.relpath(path, folder)
    return f"{CHECKOUT}{path}"
