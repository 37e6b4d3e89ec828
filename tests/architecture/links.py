"""Links between the Markdown pages of the tree: what one leads to, file, folder or heading, is there. Who renames a heading
is told which pages led to it."""

import posixpath
import re

_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def _without_blocks(text):
    return _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def anchors(text):
    """What a page's headings are called in links, as GitHub makes it of them; the second of one name is name-1."""
    found = []
    for heading in _HEADING.findall(_without_blocks(text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").lower()
        name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again = sum(1 for one in found if one == name or re.fullmatch(re.escape(name) + r"-\d+", one))
        found.append("%s-%d" % (name, again) if again else name)
    return found


def problems(files, exists):
    """Yields (path, line, text) for each link that leads nowhere, of a tree given as {path: text}. exists(path): whether
    there is such a file or folder that is no text of `files`, a picture, say."""
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        page = _without_blocks(text)
        for link in _LINK.finditer(page):
            target = link[1] or link[2]
            if _ELSEWHERE.match(target):
                continue
            to, _, anchor = target.partition("#")
            to = posixpath.normpath(posixpath.join(posixpath.dirname(path), to)) if to else path
            line = page.count("\n", 0, link.start()) + 1
            if to not in files and not any(other.startswith(to + "/") for other in files) and not exists(to):
                yield path, line, "%s is not there" % to
            elif anchor and anchor not in anchors(files.get(to, "")):
                yield path, line, "%s has no heading that is called %s in links" % (to, anchor)
