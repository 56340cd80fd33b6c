"""What mkdocs calls before it builds the site. Adds the pages of the repository, in the Markdown that mkdocs reads, and
what they link to: source files as pages with their code, folders as lists of files, and the reports of tools/report.py.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from mkdocs.structure.files import File, InclusionLevel

TOOLS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))

import figures
import records

PAGES = ["*.md", "0?_*/**/*.md", "tools/**/*.md"]
FIRST = ["README.md", "01_memory_model/GLOSSARY.md", "tools/gpus.md", "reports.md"]  # then the others by their names
COPIED = {".csv", ".svg", ".png", ".ipynb"}  # other files become a page
LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".sh": "sh", ".cmake": "cmake",
             ".json": "json", ".yml": "yaml"}


def pages():
    """The names of the repository's pages; in a folder, the README is the first."""
    found = {page.relative_to(ROOT).as_posix() for pattern in PAGES for page in ROOT.glob(pattern)}
    return sorted(found, key=lambda name: name.replace("README", ""))


# ---- anchors, as GitHub makes them -----------------------------------------------------------------------------------


class Slugs:
    """`peak: the simplest` becomes `peak-the-simplest`; where a page has it again, `peak-the-simplest-1`."""

    def __call__(self, heading, _):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        self.seen[slug] = self.seen.get(slug, -1) + 1
        return f"{slug}-{self.seen[slug]}" if self.seen[slug] else slug


slugs = Slugs()


def on_page_markdown(markdown, **_):
    slugs.seen = {}


# ---- a page's Markdown -----------------------------------------------------------------------------------------------

PIECE = re.compile(r"(?P<code>^ *(?P<fence>```+).*?^ *(?P=fence)$|`[^`\n]+`)"
                   r"|(?P<comment><!--.*?-->)"
                   r"|^(?P<indent> *)(<details><summary>(?P<summary>.*?)</summary>|</details>)$"
                   r"|\]\((?P<link>[^()\s]+)\)", re.M | re.S)


def place(path):
    """What the site calls a file or a folder of the repository. Hidden ones are not published, so they lose their dot."""
    name = (path / "README.md" if path.is_dir() else path).relative_to(ROOT).as_posix()
    name += "" if pathlib.Path(name).suffix in {".md", *COPIED} else ".md"
    return re.sub(r"(^|/)\.", r"\1dot-", name)


def link_on_site(page, link, linked):
    """Where a link leads on the site. Adds to `linked` the file or folder of the repository."""
    path, anchor = re.fullmatch(r"([^#]*)(.*)", link).groups()
    if not path or re.match(r"[a-z]+:", path):
        return link
    target = (page.parent / path).resolve()
    linked.add(target)
    return os.path.relpath(ROOT / place(target), page.parent).replace(os.sep, "/") + anchor


def lists_indented_by_four(text):
    """What belongs to an item of a list begins at its text on GitHub, and four characters in at mkdocs'."""
    indent, before, written = None, "", []
    for line in text.split("\n"):
        item = re.match(r"(-|\d+\.) +", line)
        if item:
            indent = item.end()
        elif indent and line.startswith(" " * indent):
            line = " " * (4 - indent) + line
        elif line and not before:
            indent = None  # the list has ended
        written.append(line)
        before = line
    return "\n".join(written)


def converted(page, linked):
    """The page as mkdocs reads it: links as on the site, folded answers as its blocks, no comments. Adds to `linked` what
    the page links to."""
    def piece(found):
        if found["code"]:
            return found["code"] if found["fence"] else found["code"].replace(r"\|", "|")  # of a table
        if found["comment"]:
            return ""
        if found["link"]:
            return f"]({link_on_site(page, found['link'], linked)})"
        folded = f"/// details | {found['summary']}" if found["summary"] else "///"
        return f"\n{found['indent']}{folded}\n"

    return lists_indented_by_four(PIECE.sub(piece, page.read_text(encoding="utf-8")))


# ---- what is no page of the repository ---------------------------------------------------------------------------------


def code_page(path):
    language, code = LANGUAGES.get(path.suffix, "text"), path.read_text(encoding="utf-8")
    return f"# {path.relative_to(ROOT).as_posix()}\n\n~~~~ {language}\n{code}\n~~~~\n"


def folder_page(path, files):
    links = "".join(f"- [{file.name}]({pathlib.Path(place(file)).name})\n" for file in files)
    return f"# {path.relative_to(ROOT).as_posix()}\n\n{links}"


def reports():
    """(name, HTML) of the report on each GPU, from the committed results and figures."""
    topics = sorted(main.parent for main in ROOT.glob("0?_*/main.cu"))
    for gpu in records.by_gpu(ROOT.glob("0?_*/results/*.csv")):
        slug = records.slug(gpu)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for topic in topics:
                if (topic / f"results/{slug}.csv").exists():
                    shutil.copy(topic / f"results/{slug}.csv", folder / f"{topic.name}.csv")
                for output, _, _ in figures.figures(topic / "README.md"):
                    if slug in output:
                        shutil.copy(topic / output, figures.drawn_from(folder, topic.name, output))
            subprocess.run([sys.executable, TOOLS / "report.py", *sorted(folder.glob("*.csv"))], check=True,
                           stdout=subprocess.DEVNULL)
            yield gpu, slug, (folder / "index.html").read_text(encoding="utf-8")


# ---- what mkdocs calls -----------------------------------------------------------------------------------------------


def on_config(config):
    config.nav = FIRST + [page for page in pages() if page not in FIRST]
    config.mdx_configs["toc"]["slugify"] = slugs
    if os.environ.get("SITE_REPOSITORY"):
        config.extra["social"] = [{"icon": "fontawesome/brands/github", "link": os.environ["SITE_REPOSITORY"]}]


def on_files(files, config):
    def add(path, content, inclusion=InclusionLevel.UNDEFINED):
        files.append(File.generated(config, path, content=content, inclusion=inclusion))

    def add_apart(path, content):  # found by links, neither by the navigation nor by the search
        add(path, f"---\nsearch: {{exclude: true}}\n---\n{content}", InclusionLevel.NOT_IN_NAV)

    linked = set()
    for page in pages():
        first = "---\nsearch: {boost: 2}\n---\n" if page.endswith("GLOSSARY.md") else ""
        add(page, first + converted(ROOT / page, linked))

    for path in sorted(linked):
        if path.is_dir() and not (path / "README.md").exists():
            files_in = sorted(file for file in path.iterdir() if file.is_file())
            add_apart(place(path), folder_page(path, files_in))
            linked.update(files_in)
    for path in sorted(linked):
        if path.is_file() and path.suffix in COPIED:
            add(place(path), path.read_bytes())
        elif path.is_file() and path.suffix != ".md":
            add_apart(place(path), code_page(path))

    lines = ["# Reports\n\nAll verdicts, tables and figures of a GPU on one page, as a run leaves them:\n"]
    for gpu, slug, report in reports():
        add(f"reports/{slug}.html", report)
        lines.append(f"- [{gpu}](reports/{slug}.html)")
    add("reports.md", "\n".join(lines))
    return files
