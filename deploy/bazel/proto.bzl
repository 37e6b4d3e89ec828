"""proto(): C++ from one .proto file by Debian's protoc, with or without the gRPC services in it.

    proto(name = "kserve", src = "grpc_service.proto", grpc = True, deps = [":model_config"])

makes a cc_library whose headers are included as "proto/grpc_service.pb.h" and, with grpc,
"proto/grpc_service.grpc.pb.h". What needs the messages of such a file but not gRPC (and may then run under the thread
sanitizer) depends on NAME_messages. Generated code is held to no warnings of ours: its sources are compiled with -w,
its headers declare themselves system headers.
"""

def proto(name, src, grpc = False, deps = [], visibility = None):
    if not src.endswith(".proto"):
        fail("proto %s: src %s is no .proto file" % (name, src))
    stem = src[:-len(".proto")]
    headers = [stem + ".pb.h"]
    sources = [stem + ".pb.cc"]
    plugin = ""
    if grpc:
        headers.append(stem + ".grpc.pb.h")
        sources.append(stem + ".grpc.pb.cc")
        plugin = " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin)"
    native.filegroup(
        name = name + "_proto",
        srcs = [src] + [dep + "_proto" for dep in deps],
        visibility = visibility,
    )
    native.genrule(
        name = name + "_generated",
        srcs = [src, "//deploy/bazel:proto_preamble.inc"] + [dep + "_proto" for dep in deps],
        outs = headers + sources,
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR)" + plugin + " $(location :%s) && " % src +
              "for header in %s; do cat $(location //deploy/bazel:proto_preamble.inc) $$header > $$header.new && mv $$header.new $$header; done" %
              " ".join(["$(location :%s)" % header for header in headers]),
    )
    messages = name + "_messages" if grpc else name
    native.cc_library(
        name = messages,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["//deploy/bazel:protobuf"],
    )
    if grpc:
        native.cc_library(
            name = name,
            srcs = [stem + ".grpc.pb.cc"],
            hdrs = [stem + ".grpc.pb.h"],
            copts = ["-w"],
            visibility = visibility,
            deps = [":" + messages, "//deploy/bazel:grpc"],
        )
