"""What the checker knows of C++: enough to look past comments and strings, and to tell where functions end.

No parser: braces are matched over blanked text, and the statement before an opening brace says what it opens.
"""

import collections
import functools
import re

Function = collections.namedtuple("Function", "name line num_lines")

_LEXEME = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<number>\b[0-9](?:[\w.]|'(?=\w)|(?<=[eEpP])[+-])*)
      | (?P<char>'(?:\\.|[^'\\\n])+')
      | (?P<word>[A-Za-z_]\w*)""", re.VERBOSE | re.DOTALL)

_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z_]\w*|[0-9][\w.]*|\S")
_ACCESS = ("public", "private", "protected")
_TYPES = ("class", "struct", "union", "enum")


# Several rules look at each text: what they all need of it is made once.
_once = functools.lru_cache(maxsize=None)


def _blank(text):
    return "\n".join(" " * len(line) for line in text.split("\n"))


@_once
def without_comments(text):
    """The text with comments blanked, line numbers unchanged; strings stay."""
    return _LEXEME.sub(lambda m: _blank(m.group()) if m.lastgroup == "comment" else m.group(), text)


@_once
def code_only(text):
    """The text with comments and the insides of literals blanked, line numbers unchanged."""
    def replace(match):
        whole = match.group()
        if match.group("comment"):
            return _blank(whole)
        if match.group("raw") or match.group("string") or match.group("char"):
            return whole[0] + _blank(whole[1:-1]) + whole[-1]
        return whole
    return _LEXEME.sub(replace, text)


@_once
def directives(text):
    """(line, text) of each preprocessor directive, comments gone, continuations joined."""
    clean = without_comments(text)
    line_of = _line_counter(clean)
    return [(line_of(match.start()), re.sub(r"^#\s*", "#", " ".join(match.group().replace("\\\n", " ").split())))
            for match in _DIRECTIVE.finditer(clean)]


@_once
def _without_directives(text):
    return _DIRECTIVE.sub(lambda m: _blank(m.group()), code_only(text))


def includes(text):
    """(line, path, quoted) of each #include."""
    for line, directive in directives(text):
        match = re.match(r'#include\s*(?:"([^"]+)"|<([^>]+)>)', directive)
        if match:
            yield line, match.group(1) or match.group(2), match.group(1) is not None


def functions(text):
    """Every function that stands outside another, its signature counted; local lambdas count with their function."""
    code = _without_directives(text)
    line_of = _line_counter(code)
    tokens = [(m.group(), line_of(m.start())) for m in _TOKEN.finditer(code)]
    found = []
    stack = []      # of (kind, statement that opened it)
    statement = []  # (token, line) since the last boundary of the enclosing namespace or class
    for i, (token, line) in enumerate(tokens):
        outside = all(kind in ("namespace", "type") for kind, _ in stack)
        if token in "([{":
            kind = "inside"
            if token == "{" and outside:
                kind = _opened_by([word for word, _ in statement])
            stack.append((kind, statement))
            if kind in ("namespace", "type", "function"):
                statement = []
                continue
        elif token in ")]}" and stack:
            kind, opener = stack.pop()
            following = tokens[i + 1][0] if i + 1 < len(tokens) else ""
            if kind == "function" and following in (",", "{") and _has_initialisers(opener):
                statement = opener + [("}", line)]  # a member's braces; the body is yet to come
                continue
            if kind == "function":
                found.append(_measure(opener, line))
            if kind in ("namespace", "type", "function"):
                statement = []
                continue
            outside = all(kind in ("namespace", "type") for kind, _ in stack)
            if outside:
                statement.append((token, line))
                continue
        elif token == ";" and outside:
            statement = []
            continue
        elif token == ":" and outside and statement and statement[-1][0] in _ACCESS:
            statement.pop()
            continue
        if not any(kind == "function" for kind, _ in stack):
            statement.append((token, line))
    return found


def types(text):
    """(qualified name, line) of each type defined at namespace scope; none of an unnamed namespace or within a type."""
    code = _without_directives(text)
    line_of = _line_counter(code)
    stack, statement = [], []  # of namespaces' names, None for whatever else; words since the last boundary
    for match in _TOKEN.finditer(code):
        token = match.group()
        if token == "{":
            words = _without_prefixes(statement)
            if words[:1] == ["namespace"]:
                stack.append("".join(words[1:]) or "(unnamed)")
            else:
                outside = None not in stack and "(unnamed)" not in stack
                if outside and words[:1] and words[0] in _TYPES and words[-1] != ")":
                    yield "::".join(stack + [_type_name(words)]), line_of(match.start())
                stack.append(None)
            statement = []
        elif token in "};":
            if token == "}" and stack:
                stack.pop()
            statement = []
        else:
            statement.append(token)


def _type_name(words):
    words = words[2:] if words[:2] in (["enum", "class"], ["enum", "struct"]) else words[1:]
    name = ""
    for i, word in enumerate(words):
        if word == "final" or (word == ":" and ":" not in (words[i - 1:i] + words[i + 1:i + 2])):
            break
        name += word
    return re.sub(r"^(\[\[.*?\]\]|alignas\(.*?\))*", "", name)


def switches_with_default(text):
    """The line of each `default:` in a switch whose cases are enumerators (`case Kind::kName:`)."""
    code = code_only(text)
    stack = []  # of [enumerators seen, offset of default], one a brace; None for braces that are no switch
    opens_switch = False
    for match in re.finditer(r"\bswitch\b|\bcase\s+[\w:]*::k[A-Z]|\bdefault\s*:|[{};]", code):
        token = match.group()
        if token == "switch":
            opens_switch = True
        elif token == "{":
            stack.append([False, None] if opens_switch else None)
            opens_switch = False
        elif token == "}" and stack:
            found = stack.pop()
            if found and found[0] and found[1] is not None:
                yield code.count("\n", 0, found[1]) + 1
        elif stack and stack[-1] is not None:
            if token.startswith("case"):
                stack[-1][0] = True
            elif token.startswith("default"):
                stack[-1][1] = match.start()


def _line_counter(code):
    starts = [0] + [m.end() for m in re.finditer("\n", code)]
    position = {"line": 0}

    def line_of(offset):
        while position["line"] + 1 < len(starts) and starts[position["line"] + 1] <= offset:
            position["line"] += 1
        return position["line"] + 1
    return line_of


def _has_initialisers(statement):
    words = [word for word, _ in statement]
    return any(words[i] == ":" and words[i - 1] != ":" and words[i + 1] != ":"
               for i in range(1, len(words) - 1))


def _without_prefixes(words):
    """Drops leading template parameter lists, attributes and specifiers."""
    while words:
        if words[0] == "template" and len(words) > 1:
            depth = 0
            for i, word in enumerate(words[1:], 1):
                depth += (word == "<") - (word == ">")
                if depth == 0:
                    break
            words = words[i + 1:]
        elif words[:2] == ["[", "["]:
            words = words[words.index("]") + 2:] if "]" in words else []
        elif words[0] in ("typedef", "static", "inline", "constexpr", "const", "export"):
            words = words[1:]
        else:
            break
    return words


def _opened_by(words):
    words = _without_prefixes(words)
    if not words or words[-1] == "=":
        return "inside"
    if words[0] == "namespace" or (words[0] == "extern" and "(" not in words):
        return "namespace"
    if words[0] in _TYPES and words[-1] != ")":
        return "type"
    if "(" in words or words[-1] == "]":
        return "function"
    return "inside"


def _measure(statement, last_line):
    words = [word for word, _ in statement]
    name = "lambda"
    for i, word in enumerate(words):
        if word == "(" and i > 0 and re.match(r"\w", words[i - 1]) and words[i - 1] != "alignas":
            name = words[i - 1]
            if name.startswith("TEST"):
                name += "(" + " ".join(words[i + 1:words.index(")", i)]).replace(" ,", ",") + ")"
            break
    first_line = statement[0][1]
    return Function(name, first_line, last_line - first_line + 1)
