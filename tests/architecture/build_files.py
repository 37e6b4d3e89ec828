"""What the checker knows of BUILD files: their targets, and the labels each depends on. BUILD files are Python syntax."""

import ast
import collections

Target = collections.namedtuple("Target", "label rule line deps tags sources")

_EDGES = ("deps", "implementation_deps", "srcs", "hdrs", "data", "tools", "textual_hdrs")
GRPC = "//deploy/bazel:grpc"
PROTOBUF = "//deploy/bazel:protobuf"
SKIPS = "//tests/external:skips"


def absolute(label, package):
    """The full form of a label, or None for a file of the package itself or a label of another repository."""
    if label.startswith("//"):
        return label if ":" in label else "%s:%s" % (label, label.rsplit("/", 1)[-1])
    if label.startswith(":"):
        return "//%s%s" % (package, label)
    return None


def _strings(node, variables):
    """Every string in an expression: lists, concatenations, selects, and names of lists assigned in the file."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and part.id in variables:
            yield from _strings(variables[part.id], {})


def targets(text, package):
    """The targets of a BUILD file. SyntaxError if it is none."""
    tree = ast.parse(text)
    variables = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            variables[node.targets[0].id] = node.value
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Name, ast.Attribute)):
            continue
        rule = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
        arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        if rule == "package" or not isinstance(arguments.get("name"), ast.AST):
            continue
        name = "".join(_strings(arguments["name"], {}))
        deps = []
        for edge in _EDGES:
            if edge in arguments:
                deps += [absolute(label, package) for label in _strings(arguments[edge], variables)]
        if rule == "proto":
            deps.append(GRPC if "grpc" in arguments else PROTOBUF)
        tags = list(_strings(arguments["tags"], variables)) if "tags" in arguments else []
        sources = []
        if "srcs" in arguments:
            sources = ["%s/%s" % (package, file) for file in _strings(arguments["srcs"], variables) if ":" not in file]
        found.append(Target("//%s:%s" % (package, name), rule, call.lineno,
                            [dep for dep in deps if dep], tags, sources))
    return found


def reaches(start, goal, by_label):
    """Whether target `start` depends on label `goal`, however far down."""
    seen, waiting = set(), [start]
    while waiting:
        label = waiting.pop()
        if label == goal:
            return True
        if label not in seen and label in by_label:
            seen.add(label)
            waiting += by_label[label].deps
    return False
