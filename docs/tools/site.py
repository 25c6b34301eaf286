"""mkdocs hooks of mkdocs.yml: the site has the repository's layout, so that a link works on the site and in the tree.

Pages are all Markdown files of the tree, and the manual pages, which are made into Markdown here. A file of the tree to which a page links, such as
an example, is copied. mkdocs checks the links (--strict).
"""
import pathlib
import re
import subprocess

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = ROOT / "build/site.pages"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FONTS = re.compile(r"\\f([BIRP])")


def tracked():
    """The files of the tree, without those that git ignores."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.stdout.strip():
        return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    return [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file() and "build" not in path.relative_to(ROOT).parts]


def words(text):
    """A line of roff as Markdown: fonts become code or emphasis, escapes become characters."""
    text = re.sub(r"\\f[BI](.+?)\\f[RP]", lambda found: f"`{found[1]}`", text)
    text = FONTS.sub("", text)
    for escape, character in (("\\-", "-"), ("\\(aq", "'"), ("\\(bu", "-"), ("\\&", ""), ("\\e", "\\"), ("\\ ", " "), ("\\(en", "-"), ("\\|", "")):
        text = text.replace(escape, character)
    return text.replace("<", "&lt;") if "`" not in text else text


def arguments(line):
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]


def one_font(rest):
    return f"`{words(' '.join(arguments(rest)))}`"


def fonts_in_turn(macro, rest):
    """.BR and its like: the arguments in two fonts in turn, without a space between them."""
    parts = [(macro[1 + index % 2], words(argument)) for index, argument in enumerate(arguments(rest))]
    return "".join(text if font == "R" else f"`{text}`" for font, text in parts).replace("``", "")


def markdown_of(roff, name):
    """A manual page as Markdown: headings, terms, paragraphs and literal blocks."""
    out, literal, term = [f"# {name}", ""], False, False
    for line in roff.split("\n"):
        if line.startswith(('.\\"', "'\\\"")):
            continue
        macro, _, rest = line.partition(" ")
        if macro in (".SH", ".SS"):
            out += ["", ("## " if macro == ".SH" else "### ") + words(rest.strip('"')), ""]
        elif macro in (".nf", ".EX"):
            literal = True
            out += ["", "```text"]
        elif macro in (".fi", ".EE"):
            literal = False
            out += ["```", ""]
        elif macro in (".PP", ".P", ".LP", ".TP", ".IP", ".TQ", ".br", ".sp", ".RS", ".RE"):
            if not literal:
                out += [""]
            term = macro in (".TP", ".TQ")
            if macro == ".IP" and arguments(rest):
                out += [words(arguments(rest)[0]), ""]
        elif macro in (".B", ".I", ".BR", ".RB", ".BI", ".IB", ".IR", ".RI"):
            out += [one_font(rest) if len(macro) == 2 else fonts_in_turn(macro, rest)]
            if literal:
                out[-1] = out[-1].replace("`", "")
        elif line.startswith("."):
            continue  # spacing, tabs, the page's head
        elif line.strip():
            out += [words(line).replace("`", "") if literal else words(line)]
        else:
            out += [""]
        if term and not line.startswith(".TP") and not line.startswith(".TQ"):
            out += [""]
            term = False
    return "\n".join(out) + "\n"


def make_manual():
    """Writes the manual pages as Markdown, and their list. Returns the paths below MADE."""
    folder = MADE / "docs/man"
    folder.mkdir(parents=True, exist_ok=True)
    pages = sorted((ROOT / "packaging/man").glob("*.1"))
    for page in pages:
        (folder / f"{page.stem}.md").write_text(markdown_of(page.read_text(), page.stem + "(1)"))
    listed = "".join(f"- [{page.stem}(1)]({page.stem}.md)\n" for page in pages)
    (folder / "README.md").write_text(f"# Manual pages\n\nThe same pages are in the package: `man quern`.\n\n{listed}")
    return [f"docs/man/{name}" for name in ["README.md"] + [f"{page.stem}.md" for page in pages]]


def on_files(files, config):
    """Only the theme's own files stay of what mkdocs found; the tree's pages take the place of docs/."""
    kept = [file for file in files if not pathlib.Path(file.abs_src_path).is_relative_to(ROOT / "docs")]

    def added(path, folder):
        return File(path, str(folder), config["site_dir"], config["use_directory_urls"])

    names = tracked()
    present, pages = set(names), {name for name in names if name.endswith(".md")}
    linked = set()
    for name in pages:
        for target in LINK.findall((ROOT / name).read_text()):
            if "://" not in target:
                path = (ROOT / name).parent.joinpath(target).resolve()
                if path.is_relative_to(ROOT):
                    linked.add(path.relative_to(ROOT).as_posix())
    made = make_manual()
    return Files(kept + [added(name, ROOT) for name in sorted(pages | (linked & present))] + [added(name, MADE) for name in made])


def on_page_markdown(markdown, page, config, files):
    """A list needs a blank line in front of it on the site, which the tree's pages do not need."""
    out, fenced = [], False
    for line in markdown.split("\n"):
        starts = re.match(r"(?:[-*]|\d+\.) ", line)
        before = out[-1] if out else ""
        if not fenced and starts and before.strip() and not re.match(r"\s*(?:[-*]|\d+\.) |  ", before):
            out.append("")
        fenced ^= line.lstrip().startswith("```")
        out.append(line)
    return "\n".join(out)
