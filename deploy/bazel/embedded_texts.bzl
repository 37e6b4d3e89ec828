"""Text files as strings of a program, by name."""

def embedded_texts(name, hdr, namespace, type, function, visibility = None):
    """A library of the .textproto files of a package. `hdr` declares the type {name, text} and what returns all of them, by name.

    Args:
      name: of the library.
      hdr: its header.
      namespace: of both.
      type: what one text is called.
      function: returns an absl::Span of constant ones.
      visibility: of the library.
    """
    native.genrule(
        name = name + "_source",
        srcs = native.glob(["*.textproto"]),
        outs = [name + ".cc"],
        cmd = """
        {{
          echo '#include "{path}"'
          echo 'namespace {namespace} {{'
          echo 'namespace {{'
          echo 'constexpr {type} kTexts[] = {{'
          for file in $$(printf '%s\\n' $(SRCS) | LC_ALL=C sort); do
            printf '{{"%s", R"TEXT(' "$$(basename $$file .textproto)"
            cat "$$file"
            echo ')TEXT"}},'
          done
          echo '}};'
          echo '}}  // namespace'
          echo 'absl::Span<const {type}> {function}() {{ return kTexts; }}'
          echo '}}  // namespace {namespace}'
        }} > $@
        """.format(
            path = native.package_name() + "/" + hdr,
            namespace = namespace,
            type = type,
            function = function,
        ),
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_source"],
        hdrs = [hdr],
        visibility = visibility,
        deps = ["//deploy/bazel:absl"],
    )
