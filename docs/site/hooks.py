"""Hooks of MkDocs: the site also shows the pages and sources outside docs/ that its pages link to.

README.md is the home page. A link to a source file leads to a page with the file's text. A link to
a folder becomes plain text, because a site has no listing of a folder.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/README.md": "examples/README.md",
    "examples/systems/README.md": "examples/systems/README.md",
}
"""Pages outside docs/: where they are in the repository, and on the site."""
ALONE = ("index.md", "TUTORIAL.md")
"""Pages that are a section by themselves: they need no list of its pages."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(#[^)]*)?\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")
LANGUAGES = {".py": "python", ".java": "java", ".toml": "toml", ".yaml": "yaml"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of `PAGES`, and a page for each source file that some page links to."""
    for repository, site in PAGES.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / repository)))
    pages = [file for file in files if file.is_documentation_page()]
    linked = {path for page in pages for path in linked_sources(page.src_uri, page.content_string)}
    for path in sorted(linked):
        files.append(File.generated(config, source_page(path), content=text_of(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let each link and image be where its target is on the site, and hide lists of one page."""
    here = page.file.src_uri
    if here in ALONE:
        page.meta["hide"] = ["navigation"]

    def moved(link: re.Match[str]) -> str:
        text, target, anchor = link[1], repository_path(here, link[2]), link[3] or ""
        if (ROOT / target).is_dir():
            return text
        uri = posixpath.relpath(site_path(target), posixpath.dirname(here) or ".")
        return f"[{text}]({uri}{anchor})"

    def moved_image(image: re.Match[str]) -> str:
        target = site_path(repository_path(here, image[2]))
        return f"![{image[1]}]({posixpath.relpath(target, posixpath.dirname(here) or '.')})"

    return IMAGE.sub(moved_image, LINK.sub(moved, markdown))


def repository_path(page: str, target: str) -> str:
    """The path in the repository to which a link on a page of the site leads."""
    outside = {site: repository for repository, site in PAGES.items()}
    start = posixpath.dirname(outside.get(page, f"docs/{page}"))
    return posixpath.normpath(posixpath.join(start, target))


def site_path(path: str) -> str:
    """The path on the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PAGES.get(path) or source_page(path)


def linked_sources(page: str, markdown: str) -> set[str]:
    """The source files of the repository to which a page links."""
    paths = {repository_path(page, link[2]) for link in LINK.finditer(markdown)}
    return {
        path
        for path in paths
        if path not in PAGES and not path.startswith("docs/") and (ROOT / path).is_file()
    }


def source_page(path: str) -> str:
    return f"sources/{path}.md"


def text_of(path: str) -> str:
    """The page of a source file, which the search leaves out."""
    language = LANGUAGES.get(Path(path).suffix, "text")
    head = "---\nsearch:\n  exclude: true\nhide:\n  - navigation\n  - toc\n---\n"
    return f"{head}\n# {path}\n\n~~~~~~{language}\n{(ROOT / path).read_text()}\n~~~~~~\n"
