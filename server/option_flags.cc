#include "server/option_flags.h"

namespace cellbatch {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

using O = ServerOptions;

constexpr OptionFlag kFlags[] = {
    {"model-repository", &O::model_repository,
     "Folder of model folders: DIR/MODEL/config.textproto, "
     "DIR/MODEL/VERSION/weights.safetensors. Required."},
    {"grpc-address", &O::grpc_address,
     "HOST:PORT of the gRPC services. Port 0: any free one. 0.0.0.0: IPv6, too, here and below."},
    {"http-address", &O::http_address,
     "HOST:PORT of KServe v2 over HTTP, health, metrics and the status page."},
    {"metrics-address", &O::metrics_address, "HOST:PORT of Prometheus metrics alone."},
    {"devices", &O::devices,
     "What computes: auto (one CPU device over the cores it may use), cpu, cpu:0-1,cpu:2-3 (core "
     "ranges), cuda (every GPU), cuda:0,cuda:1 (GPUs), or both kinds: then a model lives on GPUs, "
     "or on the "
     "kind that its configuration names (devices: CPU), or on both (bits: MAY_DIFFER); one of "
     "PRECISION_W8 on CPUs."},
    {"cuda-libraries", &O::cuda_libraries,
     "Folder where libcuda.so.1 and libnvrtc.so.13 (or .12) are looked for first. Empty: only "
     "where "
     "the system finds libraries."},
    {"cuda-host-bytes",
     &O::cuda_host_bytes,
     "Bytes of this machine's memory that are pinned for GPUs at the start: what requests on GPUs "
     "bring and are answered with lies there. One that finds no room: RESOURCE_EXHAUSTED.",
     {1 << 20}},
    {"cuda-fp32", &O::cuda_fp32,
     "How GPUs multiply in PRECISION_FP32: 3xtf32 (three products of TF32 on tensor cores) or fma "
     "(one multiply-add for each weight: slower, within the same bound but of other last bits)."},
    {"cuda-tasks-a-launch",
     &O::cuda_tasks_a_launch,
     "Batched tasks that a GPU runs as one launch, at most: 1, 2 or 4. Tasks go together while "
     "they "
     "queue, so it costs nothing where there are few.",
     {1, 4}},
    {"calibration-cache", &O::calibration_cache,
     "Folder to keep what cell types take (T(b)) in, from one start to the next: then a few tasks "
     "confirm it, instead of many that measure it. Made where it is not there. Empty: measured at "
     "every start."},
    {"record", &O::record,
     "File to write the shapes of all requests to, and what the scheduler saw and did: to learn "
     "from, and for cellbatch-replay. No payload. What the file had before is gone. Empty: none."},
    {"record-limit",
     &O::record_limit,
     "Bytes of that file. Then it is closed, and the server goes on without it.",
     {1 << 16}},
    {"policy-poll",
     &O::policy_poll,
     "How often to look for a policy.textproto that changed beside a served model, to take it over "
     "while it serves. 0: only at SIGHUP.",
     {0, kMaxInt}},
    {"model-control", &O::model_control,
     "Who says which models are served. none: all that are in the repository at the start. "
     "explicit: those of --load-model, then who calls RepositoryModelLoad and "
     "RepositoryModelUnload. poll: all, then what the repository's folders show every "
     "--repository-poll."},
    {"load-model", &O::load_models,
     "With --model-control=explicit: a model that is loaded at the start; *: all. May be given "
     "many times."},
    {"repository-poll",
     &O::repository_poll,
     "With --model-control=poll: how often to look at the folders. A folder is loaded, or loaded "
     "again, when it has changed and looks the same twice; a model whose folder is gone is "
     "unloaded.",
     {10, kMaxInt}},
    {"max-model-changes",
     &O::max_model_changes,
     "Loads and unloads by call that wait or are being made, one after the other. Beyond: "
     "RESOURCE_EXHAUSTED.",
     {1, 4096}},
    {"max-models",
     &O::max_models,
     "Models that are served at once, each of their versions for itself; what takes the place of "
     "its own model's old versions counts once. The next one is not loaded: RESOURCE_EXHAUSTED.",
     {1, 256}},
    {"ended-versions",
     &O::ended_versions,
     "Model versions that are served no more whose metrics stay. Beyond: those of the one that "
     "ended longest ago go.",
     {0, 4096}},
    {"check", &O::check,
     "Read every model, report every problem of all of them, a line each, and exit: 0 if all "
     "could be served. Uses no device."},
    {"explain", &O::explain,
     "Load the model of that name alone, measure it, print what became of it (equations, program, "
     "plan, kernels, copies, T(b)), and exit. Serves nothing. Empty: none."},

    {"max-queued-requests",
     &O::max_queued_requests,
     "Requests admitted whose clients do not have their answers yet, over all models. Beyond: "
     "RESOURCE_EXHAUSTED with a retry hint.",
     {1, 1 << 24}},
    {"max-queued-cells",
     &O::max_queued_cells,
     "Cells admitted and not answered, over all models. Beyond: RESOURCE_EXHAUSTED and a hint.",
     {1}},
    {"max-queued-bytes",
     &O::max_queued_bytes,
     "Bytes of messages, rows and answers, each until it is done with: an answer, until its client "
     "has it. Beyond: RESOURCE_EXHAUSTED with a retry hint. Default: at most a quarter of the "
     "memory that can be had.",
     {1}},
    {"client-share-percent",
     &O::client_share_percent,
     "Of each --max-queued-..., the most that one client has when it is alone. Who has its share "
     "gets no more while others come: RESOURCE_EXHAUSTED with a retry hint. 100: one can have all.",
     {1, 100}},
    {"model-share-percent", &O::model_share_percent, "The same of one model.", {1, 100}},
    {"clients",
     &O::clients,
     "Clients told apart for that, by x-cellbatch-tenant, else authorization, else address.",
     {1, 1 << 20}},
    {"max-answer-bytes",
     &O::max_answer_bytes,
     "Bytes of one answer, known before anything is computed. Beyond: RESOURCE_EXHAUSTED. Default: "
     "at most a sixteenth of the memory that can be had.",
     {1, kMaxInt}},
    {"deadline-admission", &O::deadline_admission,
     "Refuse at once what could not be answered before its deadline, at the speed lately seen: "
     "RESOURCE_EXHAUSTED with a retry hint. false: it is computed until then."},
    {"max-sequences",
     &O::max_sequences,
     "Sequences (sequence_id) whose state the server keeps between their pieces, over all models. "
     "The next one to start: RESOURCE_EXHAUSTED with a retry hint. 0: none is kept.",
     {0, 1 << 24}},
    {"max-sequence-bytes",
     &O::max_sequence_bytes,
     "Bytes of their states. Likewise. Default: at most a thirty-second of the memory that can be "
     "had.",
     {1}},
    {"sequence-idle",
     &O::sequence_idle,
     "How long the state of a sequence is kept of which no piece comes or is under way. Then its "
     "next piece must start it anew: INVALID_ARGUMENT.",
     {1, kMaxInt}},
    {"row-budget",
     &O::row_budget,
     "Bytes of rows (state between cells) of one model. A request joins when its rows fit; one "
     "that never can: RESOURCE_EXHAUSTED. Default: at most an eighth of the memory that can be "
     "had.",
     {kLeastRowBudget}},
    {"fold-budget",
     &O::fold_budget,
     "Bytes, over all models, of what is computed at load for each word of a vocabulary (embedding "
     "times matrix, leaves of trees). Spent where it saves most time per byte, over all models "
     "there at the start; a model that is loaded later gets what is left, one that leaves gives "
     "its part back. Beyond: computed each time. Default: a quarter of the memory that can be had.",
     {0}},
    {"max-tasks-in-flight",
     &O::max_tasks_in_flight,
     "Batched tasks submitted to one device and not done (MaxTasksToSubmit). 0: 1 with one CPU "
     "device, else 2; on GPUs 2 launches' (--cuda-tasks-a-launch) of chains that do not stop "
     "early, "
     "while one model runs.",
     {0, 64}},
    {"max-wait-tasks",
     &O::max_wait_tasks,
     "Tasks of its model that a cell type with ready cells may be passed over.",
     {1, kMaxInt}},
    {"priority-ageing",
     &O::priority_ageing,
     "Of models with priority_levels: a request counts as having arrived so many tasks of its "
     "model later for each level below the most urgent; nobody who comes later overtakes it.",
     {1, 1'000'000}},
    {"task-time-limit",
     &O::task_time_limit,
     "A device that runs by itself (a GPU) hangs, and is given up, when a task takes longer than "
     "this and than --task-time-factor times what such a task took last. 0: never. A CPU is not "
     "watched.",
     {0, kMaxInt}},
    {"task-time-factor", &O::task_time_factor, "See --task-time-limit.", {1, 1 << 20}},
    {"batch-limit", &O::batch_limit, "Largest batch of any cell type, in cells.", {1, 4096}},

    {"grpc-threads",
     &O::grpc_threads,
     "Threads that receive requests. 0: one for every 8 cores.",
     {0, 64}},
    {"responder-threads", &O::responder_threads, "Threads that encode and send answers.", {1, 64}},
    {"grpc-max-connections",
     &O::grpc_max_connections,
     "Connections of the gRPC port, of two files each, and at most a quarter of the files that the "
     "process may open. The next one takes the place of the one over which nothing came for "
     "longest, without a call under way if there is such a one.",
     {16, 1 << 20}},
    {"grpc-max-streams",
     &O::grpc_max_streams,
     "Streams that a connection may have open; as many it may open before it has acknowledged our "
     "settings, and as many without a whole message may be open on all connections together. "
     "Beyond: the connection, or the one with most of them, is hung up on. Default: at most one "
     "for every 96 KiB of memory that can be had.",
     {1, kMaxInt}},
    {"grpc-max-header-block-bytes",
     &O::grpc_max_header_block_bytes,
     "Bytes of a call's headers as they come, over all frames, which may be 4 and one for every 16 "
     "KiB. Beyond: the connection is hung up on.",
     {1024, kMaxInt}},
    {"grpc-max-resets-per-second",
     &O::grpc_max_resets_per_second,
     "Streams that a connection may open and reset within 100 to 200 ms, so many a second and two "
     "seconds' worth at once; eight times as many on all connections together. Beyond: the "
     "connection is hung up on.",
     {1, 1'000'000}},
    {"grpc-max-unfinished-bytes",
     &O::grpc_max_unfinished_bytes,
     "Bytes that messages half sent keep, over all connections. Beyond: of the connections whose "
     "message takes more than a second the one that keeps most is hung up on. Default: at most a "
     "sixth of the memory that can be had.",
     {1024}},
    {"grpc-message-timeout",
     &O::grpc_message_timeout,
     "Time for a whole message, from its first byte. Beyond: the connection is hung up on.",
     {1, kMaxInt}},
    {"grpc-max-message-bytes",
     &O::grpc_max_message_bytes,
     "Largest message. Beyond: RESOURCE_EXHAUSTED.",
     {1024, kMaxInt}},
    {"grpc-max-inflated-bytes",
     &O::grpc_max_inflated_bytes,
     "What a compressed message may become, at most --grpc-max-message-bytes. Beyond: "
     "RESOURCE_EXHAUSTED, before more is made of it.",
     {1024, kMaxInt}},
    {"grpc-max-query-bytes",
     &O::grpc_max_query_bytes,
     "Largest message of a call that asks for no inference. Beyond: RESOURCE_EXHAUSTED.",
     {1024, kMaxInt}},
    {"grpc-max-reflection-streams",
     &O::grpc_max_reflection_streams,
     "Streams of gRPC's reflection, open at once. Beyond: RESOURCE_EXHAUSTED.",
     {0, kMaxInt}},
    {"grpc-stream-requests",
     &O::grpc_stream_requests,
     "Requests under way on one stream of ModelStreamInfer. Beyond: the next one is not read yet.",
     {1, 1 << 16}},
    {"grpc-max-health-watches",
     &O::grpc_max_health_watches,
     "Watches of gRPC's health, open at once. Beyond: RESOURCE_EXHAUSTED.",
     {0, kMaxInt}},
    {"grpc-max-slow-calls",
     &O::grpc_max_slow_calls,
     "Calls that wait for the one thread that takes messages beyond 256 KiB, compressed ones and "
     "queries that are no probes. Beyond: RESOURCE_EXHAUSTED with a retry hint.",
     {1, kMaxInt}},
    {"grpc-max-slow-bytes",
     &O::grpc_max_slow_bytes,
     "Bytes of their messages; one alone may have more. Beyond: RESOURCE_EXHAUSTED with a retry "
     "hint. Default: at most an eighth of the memory that can be had.",
     {1024}},
    {"grpc-channelz", &O::grpc_channelz,
     "gRPC's channelz service, for people on trusted networks: the library reads its messages "
     "without our bounds, on 64 threads."},
    {"grpc-reflection", &O::grpc_reflection,
     "gRPC's reflection, which tells tools what is served. false: UNIMPLEMENTED."},
    {"grpc-max-unknown-fields",
     &O::grpc_max_unknown_fields,
     "Most fields of a message that its kind does not have, at all levels; as many are left out. "
     "Beyond this bound and the four that follow: INVALID_ARGUMENT, before anything is parsed.",
     {0, kMaxInt}},
    {"grpc-max-unknown-bytes", &O::grpc_max_unknown_bytes, "Most bytes of them.", {0, kMaxInt}},
    {"grpc-max-submessages",
     &O::grpc_max_submessages,
     "Most messages, and entries of maps, inside one message.",
     {1, kMaxInt}},
    {"grpc-max-texts",
     &O::grpc_max_texts,
     "Most texts, names and raw tensors inside one message.",
     {1, kMaxInt}},
    {"grpc-max-numbers",
     &O::grpc_max_numbers,
     "Most numbers inside one message, raw tensors apart.",
     {1, kMaxInt}},
    {"grpc-max-metadata-bytes",
     &O::grpc_max_metadata_bytes,
     "Most metadata of a call. Beyond: RESOURCE_EXHAUSTED.",
     {1024, kMaxInt}},
    {"grpc-stream-buffer",
     &O::grpc_stream_buffer,
     "Bytes of one stream that wait for a client who does not read. Beyond: the stream ends, "
     "RESOURCE_EXHAUSTED.",
     {1024, kMaxInt}},
    {"grpc-keepalive-time",
     &O::grpc_keepalive_time,
     "Idle time after which a connection is pinged.",
     {1, kMaxInt}},
    {"grpc-keepalive-timeout",
     &O::grpc_keepalive_timeout,
     "Time to answer a ping; then the connection is closed.",
     {1, kMaxInt}},
    {"grpc-min-ping-interval",
     &O::grpc_min_ping_interval,
     "Pings of an idle client closer than this are strikes; after two the connection is closed.",
     {0, kMaxInt}},
    {"grpc-max-connection-age",
     &O::grpc_max_connection_age,
     "Age at which a connection is asked to go, so that clients spread over servers. 0: never.",
     {0, kMaxInt}},
    {"grpc-max-connection-age-grace",
     &O::grpc_max_connection_age_grace,
     "Time for its calls to finish then.",
     {0, kMaxInt}},

    {"http-threads",
     &O::http_threads,
     "Threads that read requests for inference over HTTP. 0: one for every 8 cores.",
     {0, 64}},
    {"http-max-connections",
     &O::http_max_connections,
     "Connections of each HTTP port, and at most a quarter of the files that the process may open. "
     "The next one takes the place of the one that has been idle longest, else of the oldest that "
     "is slow to send or to read; a sixteenth is kept from requests that wait to be answered.",
     {16, 1 << 20}},
    {"http-max-header-bytes",
     &O::http_max_header_bytes,
     "Longest head of a request over HTTP. Beyond: 431.",
     {256, 1 << 20}},
    {"http-max-body-bytes",
     &O::http_max_body_bytes,
     "Longest body of a request over HTTP. Beyond: 413.",
     {1024, kMaxInt}},
    {"http-max-held-bytes",
     &O::http_max_held_bytes,
     "Bytes of all bodies that are coming in and replies that are being read on an HTTP port. "
     "Beyond: the oldest that is slow is hung up on. Default: at most a sixteenth of the memory "
     "that can be had.",
     {1024}},
    {"http-header-timeout",
     &O::http_header_timeout,
     "Time for a whole head. Beyond: the connection is closed.",
     {1, kMaxInt}},
    {"http-body-timeout",
     &O::http_body_timeout,
     "Time for a whole body. Beyond: the connection is closed.",
     {1, kMaxInt}},
    {"http-reply-timeout",
     &O::http_reply_timeout,
     "Time for a client to read a whole reply. Beyond: the connection is closed.",
     {1, kMaxInt}},
    {"http-idle-timeout",
     &O::http_idle_timeout,
     "Time between two requests of a connection. Beyond: it is closed.",
     {1, kMaxInt}},

    {"tls-certificate", &O::tls_certificate,
     "File of PEM: the server's certificate, then those that lead to its root. gRPC and HTTP speak "
     "TLS (1.2 at least) then. Taken again when it changes, with its key. Empty: no TLS."},
    {"tls-key", &O::tls_key, "File of PEM: its key, without a passphrase."},
    {"tls-client-ca", &O::tls_client_ca,
     "File of PEM: roots of clients' certificates, each of which must bring one then; probes, too. "
     "Taken again when it changes. Empty: none is asked for."},
    {"tls-metrics", &O::tls_metrics, "The port of metrics speaks TLS, too."},
    {"tls-handshake-timeout",
     &O::tls_handshake_timeout,
     "Time for a handshake. Beyond: hung up on.",
     {1, kMaxInt}},
    {"tls-max-handshakes",
     &O::tls_max_handshakes,
     "Handshakes under way, at all ports; each takes 160 KiB at most. Beyond: the oldest is hung "
     "up "
     "on. Default: at most an eighth of the memory that can be had.",
     {1, 1 << 20}},
    {"tls-threads",
     &O::tls_threads,
     "Threads that encrypt and decrypt, beside one for handshakes. 0: one for every 8 cores.",
     {0, 64}},
    {"tokens", &O::tokens,
     "File of who may call, and how much (proto/tokens.proto): calls bring \"authorization: Bearer "
     "TOKEN\"; probes need none. UNAUTHENTICATED, PERMISSION_DENIED, or RESOURCE_EXHAUSTED beyond "
     "a "
     "token's own bounds. Taken again when it changes. Empty: whoever reaches the ports may call."},
    {"reload-poll",
     &O::reload_poll,
     "How often to look whether certificates or tokens changed. 0: only at SIGHUP.",
     {0, kMaxInt}},

    {"drain-delay",
     &O::drain_delay,
     "After SIGTERM: time of serving on while not ready, for load balancers to notice.",
     {0, kMaxInt}},
    {"drain-timeout",
     &O::drain_timeout,
     "After that: time for accepted requests to finish. Beyond: they get UNAVAILABLE, and whoever "
     "does not read holds up the end for 6 s at most (16 s with TLS, and 2 s more with traces).",
     {0, kMaxInt}},
    {"unload-limit",
     &O::unload_limit,
     "Time for a model's requests to finish when it is unloaded, or replaced by another version. "
     "Beyond: they get UNAVAILABLE.",
     {0, kMaxInt}},
    {"unfolder-libraries", &O::unfolder_libraries,
     "Load the shared libraries that models name as their own unfolders. They are trusted code: "
     "they run in this process. Off: such models are refused."},
    {"strict-readiness", &O::strict_readiness,
     "A model that cannot be served ends the start. Off: the others are served."},
    {"nv-metrics", &O::nv_metrics,
     "Also export the nv_inference_* names that Triton's dashboards query."},
    {"latency-samples",
     &O::latency_samples,
     "Requests whose times are remembered for exact percentiles, per responder; a power of two. "
     "Beyond: the oldest go.",
     {16, 1 << 26}},
    {"log-level", &O::log_level, "debug, info, warn, error or off; logs go to stderr."},
    {"log-control", &O::log_control,
     "Callers of LogSettings (/v2/logging) may change the level, the format and "
     "--log-failed-requests while the server runs. Off: they may read them."},
    {"notify-socket", &O::notify_socket,
     "Socket of the service manager that started the server, as systemd's NOTIFY_SOCKET names it: "
     "it "
     "hears when every model is warm, and when the server stops. Empty: nobody does."},
    {"log-format", &O::log_format, "text, or json: an object a line."},
    {"log-failed-requests",
     &O::log_failed_requests,
     "Lines a second for requests that did not end OK, a minute's worth of them at once; what is "
     "left out is counted. 0: none.",
     {0, 1'000'000}},
    {"trace-otlp", &O::trace_otlp,
     "http://HOST[:PORT][/PATH] of a collector that takes traces by OTLP over HTTP, in protobuf: "
     "http://127.0.0.1:4318/v1/traces (its port and path are those of who names none). Traced are "
     "requests that bring a sampled traceparent, some "
     "of the others, and those that fail. Empty: nothing is traced."},
    {"trace-rate",
     &O::trace_rate,
     "Of requests that bring no traceparent one in so many is traced.",
     {1, kMaxInt}},
    {"trace-max-spans",
     &O::trace_max_spans,
     "Spans that wait to be sent to the collector, about a KiB each. Beyond: they are dropped, and "
     "counted.",
     {1, 1 << 20}},
    {"trace-control", &O::trace_control,
     "Callers of TraceSetting (/v2/trace/setting) may change what is traced while the server runs. "
     "Off: they may read it."},
    {"version", &O::version, "Print the version and exit."},
    {"help", &O::help, "Print this and exit."},
};

}  // namespace

absl::Span<const OptionFlag> OptionFlags() { return kFlags; }

}  // namespace cellbatch
