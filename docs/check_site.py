"""Checks the size of the built site, that its links and anchors exist, and that no page loads from another host.

``python docs/check_site.py build/site``
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Maximum size of the site [MB].
MAX_SIZE = 40.0

#: Attributes whose targets a browser loads automatically.
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


class Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects the links and anchors of one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loads.append(given[LOADED[tag]])


def problems(site: Path) -> list[str]:
    """Returns a text for every broken link, every request to another host, and a site that is too large."""
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for target in page.links + page.loads:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https") or parts.netloc:
                if target in page.loads:
                    found.append(f"{where} loads {target}")
                continue
            if parts.scheme:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not to.exists():
                found.append(f"{where}: {target} does not exist")
            elif to in pages and unquote(parts.fragment) not in pages[to].anchors:
                found.append(f"{where}: {target} has no such anchor")
    for style in site.rglob("*.css"):
        if any(
            mark in style.read_text(encoding="utf-8")
            for mark in ("@import url(http", "url(http", "url(//", 'url("http')
        ):
            found.append(f"{style.relative_to(site)} loads from another host")
    if (size := site_size(site)) > MAX_SIZE:
        found.append(f"the site has {size:.1f} MB, but at most {MAX_SIZE:g} are permitted")
    return found


def site_size(site: Path) -> float:
    """Returns the size of all files of the site [MB]."""
    return sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    wrong = problems(folder)
    print("\n".join(wrong) or f"{site_size(folder):.1f} MB; every link exists; no page loads from another host")
    sys.exit(bool(wrong))
