"""Planted bugs: a test for each, linked with mutated sources in place of our own, and a control."""

def _planted_bug_test(name, sources):
    """The simulation notices mutants/NAME.txt, planted into `sources` (labels of .cc files).

    The mutated objects stand in the test itself, so the linker finds their symbols there and never
    takes the originals out of the archives. (A symbol that a mutant lost would be defined twice,
    and the link would fail.)
    """
    mutant = "mutants/%s.txt" % name
    expected = "mutants/%s/expected.cc" % name
    native.genrule(
        name = name + "_expected",
        testonly = True,
        srcs = [mutant],
        outs = [expected],
        cmd = "$(location :mutate) --expected $(location %s) $@" % mutant,
        tools = [":mutate"],
    )
    mutated = []
    for source in sources:
        out = "mutants/%s/%s" % (name, source.split(":")[1])
        native.genrule(
            name = "%s_%s" % (name, source.split(":")[1].replace(".", "_")),
            testonly = True,
            srcs = [
                mutant,
                source,
            ],
            outs = [out],
            cmd = "$(location :mutate) $(location %s) $(location %s) $@" % (mutant, source),
            tools = [":mutate"],
        )
        mutated.append(out)
    native.cc_test(
        name = name + "_test",
        size = "medium",
        srcs = mutated + [expected],
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
            ":planted_bug",
            ":planted_bug_test_main",
            "//scheduler",
        ],
    )

def planted_bug_tests(mutants):
    """A test for each mutant, given as NAME: [labels of .cc files], and control_test: every one of these sources.

    The control goes the same way (written anew, built with the same flags, linked in place of the originals), and the
    same seeds must see nothing: what they see of a mutant is the mutant.
    """
    sources = {}
    for name, planted_into in mutants.items():
        _planted_bug_test(name, planted_into)
        for source in planted_into:
            sources[source] = True
    _planted_bug_test("control", sorted(sources.keys()))
