"""Runs under an interpreter that has tritonclient[grpc,http]: calls a server with its client for HTTP, unmodified, in JSON
and with binary tensors, and compares the answers of an LSTM and a GRU with NumPy in double and, bit by bit, with those of
its client for gRPC.

    tritonclient_http_calls.py HTTP_HOST:PORT GRPC_HOST:PORT SEED
"""

import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http as triton

import small_state_dict
import tritonclient_calls

LENGTHS = (1, 2, 7, 24, 100, 330)
AT_ONCE = 200


def infer_input(tokens, datatype, binary):
    tensor = triton.InferInput("TOKENS", [len(tokens)], datatype)
    tensor.set_data_from_numpy(np.array(tokens, {"INT32": np.int32, "INT64": np.int64}[datatype]), binary_data=binary)
    return [tensor]


def wanted(binary):
    """None: the client asks for all outputs as binary data with one parameter."""
    return None if binary is None else [triton.InferRequestedOutput("OUTPUT", binary_data=binary)]


def metadata(client, cell):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(cell)
    assert client.is_model_ready(cell, "1") and not client.is_model_ready("nobody")
    server = client.get_server_metadata()
    assert server["name"] != "" and {"binary_tensor_data", "schedule_policy"} <= set(server["extensions"]), server
    described = client.get_model_metadata(cell)
    assert [t["name"] for t in described["outputs"]][0] == "OUTPUT", described
    assert described["inputs"][0]["shape"] == [-1], described
    assert client.get_model_config(cell)["max_batch_size"] == 0
    assert {m["name"] for m in client.get_model_repository_index()} == {"lstm", "gru", "tagger"}


def calls(client, over_grpc, cell, weights, rng):
    done = 0
    for length in LENGTHS:
        tokens = [int(t) for t in rng.integers(0, 50, length)]
        bits = over_grpc.infer(cell, tritonclient_calls.infer_input(tokens, "INT32")).as_numpy("OUTPUT")
        done += 1
        for datatype in ("INT32", "INT64"):
            for binary_in in (True, False):
                for binary_out in (True, False, None):
                    answer = client.infer(cell, infer_input(tokens, datatype, binary_in), request_id="r%d" % length,
                                          outputs=wanted(binary_out))
                    done += 1
                    assert answer.get_response()["id"] == "r%d" % length
                    assert answer.get_response()["model_version"] == "1"
                    tritonclient_calls.check(answer, cell, weights, tokens)
                    got = answer.as_numpy("OUTPUT")
                    assert got.tobytes() == bits.tobytes(), (datatype, binary_in, binary_out, got - bits)
    return done


def asynchronous(client, cell, weights, rng):
    """Many at once, of many lengths, so that they share batches."""
    requests = [[int(t) for t in rng.integers(0, 50, int(rng.integers(1, 60)))] for _ in range(AT_ONCE)]
    pending = [client.async_infer(cell, infer_input(tokens, "INT32", True)) for tokens in requests]
    for tokens, answer in zip(requests, pending):
        tritonclient_calls.check(answer.get_result(), cell, weights, tokens)
    return len(requests)


def tagger(client):
    words = "Barack Obama was born in Honolulu .".split()
    for binary in (True, False):
        text = triton.InferInput("WORDS_TEXT", [len(words)], "BYTES")
        text.set_data_from_numpy(np.array([word.encode() for word in words], dtype=np.object_), binary_data=binary)
        answer = client.infer("tagger", [text], outputs=[triton.InferRequestedOutput(name, binary_data=binary)
                                                         for name in ("LABELS", "OUTPUT")])
        labels = [label if isinstance(label, str) else label.decode() for label in answer.as_numpy("LABELS")]
        assert labels == ["I-PER", "I-PER", "O", "O", "O", "I-LOC", "O"], labels
        assert answer.as_numpy("OUTPUT").shape == (len(words), 5)


def errors(client):
    cases = (("lstm", [50], {}, "400"), ("nobody", [1], {}, "404"),
             ("lstm", [1], {"request_compression_algorithm": "gzip"}, "415"))
    for model, tokens, options, status in cases:
        try:
            client.infer(model, infer_input(tokens, "INT32", True), **options)
            raise AssertionError("no error for %s %s" % (model, tokens))
        except triton.InferenceServerException as error:
            assert error.status() == status, error


def refused(call, status):
    try:
        call()
        raise AssertionError("no error, %s was expected" % status)
    except triton.InferenceServerException as error:
        assert error.status() == status, error


def changes(client):
    """A model goes and comes by call."""
    client.unload_model("gru")
    assert not client.is_model_ready("gru") and client.is_model_ready("lstm")
    refused(lambda: client.infer("gru", infer_input([1], "INT32", True)), "503")
    refused(lambda: client.unload_model("gru"), "404")
    refused(lambda: client.load_model("nobody"), "404")
    refused(lambda: client.load_model("gru", config="{}"), "400")
    client.load_model("gru")
    assert client.is_model_ready("gru")
    client.infer("gru", infer_input([1], "INT32", True))


def log_settings(client):
    read = client.get_log_settings()
    assert read == {"log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
                    "log_format": "default", "log_failed_requests": 1}, read
    assert client.update_log_settings({"log_verbose_level": 1}) == {**read, "log_verbose_level": 1}
    refused(lambda: client.update_log_settings({"log_info": False}), "400")
    assert client.update_log_settings({"log_verbose_level": 0}) == client.get_log_settings() == read


def trace_settings(client):
    read = client.get_trace_settings()
    assert read["trace_level"] == ["TIMESTAMPS"] and read["trace_rate"] == "1000" and read["trace_count"] == "-1", read
    assert client.get_trace_settings("lstm") == read
    written = client.update_trace_settings(settings={"trace_level": ["OFF"], "trace_rate": "7"})
    assert written == {**read, "trace_level": ["OFF"], "trace_rate": "7"}, written
    refused(lambda: client.update_trace_settings(settings={"trace_file": "/tmp/trace"}), "400")
    refused(lambda: client.get_trace_settings("nobody"), "404")
    assert client.update_trace_settings(settings={"trace_level": None, "trace_rate": None}) == read


def main():
    client = triton.InferenceServerClient(sys.argv[1], concurrency=16)
    over_grpc = tritonclient.grpc.InferenceServerClient(sys.argv[2])
    seed = int(sys.argv[3])
    rng = np.random.default_rng(seed)
    for cell in ("lstm", "gru"):
        weights = small_state_dict.draw(cell, seed)
        metadata(client, cell)
        before = client.get_inference_statistics(cell)["model_stats"][0]["inference_stats"]["success"]["count"]
        done = calls(client, over_grpc, cell, weights, rng) + asynchronous(client, cell, weights, rng)
        model_stats = client.get_inference_statistics(cell)["model_stats"][0]
        statistics = model_stats["inference_stats"]
        tasks = sum(int(size["compute_infer"]["count"]) for size in model_stats["batch_stats"])
        assert tasks == int(model_stats["execution_count"]) > 0, model_stats
        assert statistics["success"]["count"] - before == done, (statistics, done)
    tagger(client)
    errors(client)
    changes(client)
    log_settings(client)
    trace_settings(client)
    client.close()
    print("tritonclient over HTTP: lstm, gru and tagger are right")


if __name__ == "__main__":
    main()
