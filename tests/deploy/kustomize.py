"""deploy/kubernetes rendered where no kustomize can be had: the part of Kustomize that those folders use, and no more.

    render(folder)   -> the documents, as dictionaries; Unsupported for whatever is not in the part below

resources (files and folders), components, JSON patches (RFC 6902: add, remove, replace) for one named document, and ConfigMaps of
files without a hash in their names. Strategic merges, name prefixes, images and the rest are refused, never passed over.
schema_test holds it against the real one, which says the same of each folder.
"""

import copy
import os
import sys

try:
    import yaml
except ImportError:  # a Python of one's own: Debian's package (deploy/packages.txt) is pure Python
    sys.path.append("/usr/lib/python3/dist-packages")
    import yaml


class Unsupported(Exception):
    """A kustomization says something that is not in our part of it."""


def documents_of(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def _only(what, where, *keys):
    unknown = sorted(set(what) - set(keys))
    if unknown:
        raise Unsupported("%s says %s" % (where, ", ".join(unknown)))


def _step(at, step, where):
    if isinstance(at, list):
        if not step.isdigit() or int(step) >= len(at):
            raise Unsupported("%s: a list of %d has no %r" % (where, len(at), step))
        return int(step)
    if not isinstance(at, dict) or step not in at:
        raise Unsupported("%s: there is no %r" % (where, step))
    return step


def patch(document, operations, where):
    """RFC 6902, in place."""
    for operation in operations:
        _only(operation, where, "op", "path", "value")
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        at = document
        for step in way:
            at = at[_step(at, step, where)]
        value = copy.deepcopy(operation.get("value"))
        if operation["op"] == "add" and isinstance(at, list):
            at.insert(len(at) if last == "-" else _step(at, last, where), value)
        elif operation["op"] == "add":
            at[last] = value
        elif operation["op"] == "replace":
            at[_step(at, last, where)] = value
        elif operation["op"] == "remove":
            del at[_step(at, last, where)]
        else:
            raise Unsupported("%s: operation %r" % (where, operation["op"]))


def _patch_one(documents, said, folder, where):
    _only(said, where, "target", "path", "patch")
    if set(said.get("target", {})) != {"kind", "name"}:
        raise Unsupported("%s: a patch that is not of one kind and name" % where)
    found = [d for d in documents if (d["kind"], d["metadata"]["name"]) == (said["target"]["kind"], said["target"]["name"])]
    if len(found) != 1:
        raise Unsupported("%s: %d documents are %s" % (where, len(found), said["target"]))
    if ("path" in said) == ("patch" in said):
        raise Unsupported("%s: a patch is a path or a text" % where)
    if "path" in said:
        operations, = documents_of(os.path.join(folder, said["path"]))
    else:
        operations = yaml.safe_load(said["patch"])
    if not isinstance(operations, list):
        raise Unsupported("%s: a strategic merge" % where)
    patch(found[0], operations, where)


def _config_map(said, folder, where):
    _only(said, where, "name", "files", "options")
    options = said.get("options", {})
    _only(options, where, "disableNameSuffixHash", "labels")
    if options.get("disableNameSuffixHash") is not True:
        raise Unsupported("%s: names with a hash" % where)
    data = {}
    for name in said["files"]:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            data[os.path.basename(name)] = file.read()
    metadata = {"name": said["name"]}
    if "labels" in options:
        metadata["labels"] = options["labels"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _build(folder, documents):
    """Adds to `documents` what the folder's kustomization says, or changes them as it says."""
    where = os.path.join(folder, "kustomization.yaml")
    said, = documents_of(where)
    _only(said, where, "apiVersion", "kind", "resources", "components", "patches", "configMapGenerator")
    for name in said.get("resources", []):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            own = []
            _build(path, own)
            documents += own
        else:
            documents += documents_of(path)
    for name in said.get("components", []):
        _build(os.path.join(folder, name), documents)
    documents += [_config_map(one, folder, where) for one in said.get("configMapGenerator", [])]
    for one in said.get("patches", []):
        _patch_one(documents, one, folder, where)


def render(folder):
    documents = []
    _build(os.path.normpath(folder), documents)
    return documents


def text_of(documents):
    return yaml.safe_dump_all(documents, sort_keys=False)


def parse(text):
    return [document for document in yaml.safe_load_all(text) if document]
