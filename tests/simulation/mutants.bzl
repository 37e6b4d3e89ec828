"""Planted bugs: a test for each, linked with mutated sources in place of our own."""

def planted_bug_test(name, sources):
    """The simulation catches mutants/NAME.txt, planted into `sources` (labels of .cc files).

    The mutated objects stand in the test itself, so the linker finds their symbols there and never
    takes the originals out of the archives. (A symbol that a mutant lost would be defined twice,
    and the link would fail.)
    """
    mutated = []
    for source in sources:
        out = "mutants/%s/%s" % (name, source.split(":")[1])
        native.genrule(
            name = "%s_%s" % (name, source.split(":")[1].replace(".", "_")),
            testonly = True,
            srcs = [
                "mutants/%s.txt" % name,
                source,
            ],
            outs = [out],
            cmd = "$(location :mutate) $(location mutants/%s.txt) $(location %s) $@" % (name, source),
            tools = [":mutate"],
        )
        mutated.append(out)
    native.cc_test(
        name = name + "_test",
        size = "medium",
        srcs = mutated,
        copts = [
            "-O1",
            "-Wno-unused",
            "-Wno-unused-parameter",
        ],
        tags = [
            "no-asan",
            "no-tsan",
        ],
        deps = [
            ":planted_bug_test_main",
            "//scheduler",
        ],
    )
