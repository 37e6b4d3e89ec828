"""Runs under an interpreter that has tritonclient[grpc]: calls a server with it, unmodified, and compares the answers
of an LSTM and a GRU with NumPy in double; the tagger that is shipped reads text.

    tritonclient_calls.py HOST:PORT SEED
"""

import queue
import sys
import threading

import numpy as np
import tritonclient.grpc as triton

import small_state_dict


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(cell, weights, tokens):
    w = {name.split(".")[1]: np.array(values, np.float64).reshape(shape) for name, (shape, values) in weights.items()}
    hidden = w["weight_hh_l0"].shape[1]
    h, c = np.zeros(hidden), np.zeros(hidden)
    for token in tokens:
        a = w["weight_ih_l0"] @ w["weight"][token] + w["bias_ih_l0"]
        b = w["weight_hh_l0"] @ h + w["bias_hh_l0"]
        if cell == "lstm":
            i, f, g, o = np.split(a + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
            r, z = sigmoid(ar + br), sigmoid(az + bz)
            h = (1 - z) * np.tanh(an + r * bn) + z * h
    return h


def infer_input(tokens, datatype):
    tensor = triton.InferInput("TOKENS", [len(tokens)], datatype)
    tensor.set_data_from_numpy(np.array(tokens, {"INT32": np.int32, "INT64": np.int64}[datatype]))
    return [tensor]


def check(answer, cell, weights, tokens):
    got, want = answer.as_numpy("OUTPUT"), reference(cell, weights, tokens)
    assert got.dtype == np.float32 and got.shape == want.shape, (got.dtype, got.shape)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert error <= 1e-5, (cell, len(tokens), error)


def metadata(client, cell):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(cell)
    assert not client.is_model_ready("nobody") and not client.is_model_ready(cell, "7")
    assert not client.get_server_metadata().name == ""
    described = client.get_model_metadata(cell)
    assert [t.name for t in described.outputs][0] == "OUTPUT", described
    assert client.get_model_config(cell).config.max_batch_size == 0
    assert {m.name for m in client.get_model_repository_index().models} == {"lstm", "gru", "tagger"}


def calls(client, cell, weights, rng):
    for length in (1, 2, 7, 24, 100, 330):
        tokens = [int(t) for t in rng.integers(0, 50, length)]
        for datatype in ("INT32", "INT64"):
            answer = client.infer(cell, infer_input(tokens, datatype), request_id="r%d" % length,
                                  outputs=[triton.InferRequestedOutput("OUTPUT")])
            assert answer.get_response().id == "r%d" % length
            assert answer.get_response().model_version == "1"
            check(answer, cell, weights, tokens)


def in_pieces(client, cell, rng):
    """A sequence that comes in pieces, each of which begins from what the one before it left: the bits of the whole."""
    tokens = [int(t) for t in rng.integers(0, 50, 60)]
    parts = ["H", "C"] if cell == "lstm" else ["H"]
    whole = client.infer(cell, infer_input(tokens, "INT32")).as_numpy("OUTPUT")
    asked = [triton.InferRequestedOutput(name) for name in ["OUTPUT"] + ["FINAL_" + part for part in parts]]
    left, done = {}, 0
    while done < len(tokens):
        piece = tokens[done:done + int(rng.integers(1, 9))]
        inputs = infer_input(piece, "INT32")
        for part, state in left.items():
            inputs.append(triton.InferInput("INITIAL_" + part, state.shape, "FP32"))
            inputs[-1].set_data_from_numpy(state)
        answer = client.infer(cell, inputs, outputs=asked)
        left = {part: answer.as_numpy("FINAL_" + part) for part in parts}
        done += len(piece)
    assert np.array_equal(answer.as_numpy("OUTPUT"), whole)
    refused(lambda: client.infer(cell, inputs[:1] + [triton.InferInput("INITIAL_H", [2, 10], "FP32")
                                                     .set_data_from_numpy(np.zeros((2, 10), np.float32))]),
            "INVALID_ARGUMENT")


def kept(client, cell, rng):
    """The same by sequence_id, of either kind: the server keeps the state. Twenty sequences beside each other, on one stream, no
    piece of which waits for an answer."""
    extensions = client.get_server_metadata().extensions
    assert {"sequence", "sequence(string_id)"} <= set(extensions), extensions
    tokens = {number: [int(t) for t in rng.integers(0, 50, 30)] for number in range(1, 21)}
    wholes = {number: client.infer(cell, infer_input(of_it, "INT32")).as_numpy("OUTPUT") for number, of_it in tokens.items()}
    answers, last, failures, all_done = [], {}, [], threading.Event()

    def arrived(result, error):
        if error is not None:
            failures.append(error)
        else:
            number, at = result.get_response().id.split(".")
            if int(at) == 27:
                last[int(number)] = result.as_numpy("OUTPUT")
        answers.append(1)
        if len(answers) == 200:
            all_done.set()

    client.start_stream(arrived)
    for at in range(0, 30, 3):
        for number, of_it in tokens.items():
            client.async_stream_infer(cell, infer_input(of_it[at:at + 3], "INT32"), request_id="%d.%d" % (number, at),
                                      sequence_id=number if number % 2 else "call %d" % number, sequence_start=at == 0,
                                      sequence_end=at == 27)
    assert all_done.wait(120), "%d of 200 answers" % len(answers)
    client.stop_stream()
    assert not failures, failures[0]
    assert all(np.array_equal(last[number], whole) for number, whole in wholes.items())
    refused(lambda: client.infer(cell, infer_input([1], "INT32"), sequence_id=1), "INVALID_ARGUMENT")


def asynchronous(client, cell, weights, rng):
    """Many at once, of many lengths, so that they share batches."""
    done, failures, all_done = [], [], threading.Event()
    requests = [[int(t) for t in rng.integers(0, 50, int(rng.integers(1, 60)))] for _ in range(200)]

    def arrived(tokens, result, error):
        try:
            assert error is None, error
            check(result, cell, weights, tokens)
        except AssertionError as failure:
            failures.append(failure)
        done.append(1)
        if len(done) == len(requests):
            all_done.set()

    for tokens in requests:
        client.async_infer(cell, infer_input(tokens, "INT32"),
                           callback=lambda result, error, tokens=tokens: arrived(tokens, result, error))
    assert all_done.wait(120), "%d of %d answers" % (len(done), len(requests))
    assert not failures, failures[0]


def tagger(client):
    words = "Barack Obama was born in Honolulu .".split()
    text = triton.InferInput("WORDS_TEXT", [len(words)], "BYTES")
    text.set_data_from_numpy(np.array([word.encode() for word in words], dtype=np.object_))
    answer = client.infer("tagger", [text], outputs=[triton.InferRequestedOutput(name) for name in ("LABELS", "OUTPUT")])
    labels = [label.decode() for label in answer.as_numpy("LABELS")]
    assert labels == ["I-PER", "I-PER", "O", "O", "O", "I-LOC", "O"], labels
    assert answer.as_numpy("OUTPUT").shape == (len(words), 5)


def errors(client):
    for model, tokens, status in (("lstm", [50], "INVALID_ARGUMENT"), ("nobody", [1], "NOT_FOUND")):
        try:
            client.infer(model, infer_input(tokens, "INT32"))
            raise AssertionError("no error for %s %s" % (model, tokens))
        except triton.InferenceServerException as error:
            assert status in error.status(), error


def refused(call, status):
    try:
        call()
        raise AssertionError("no error, %s was expected" % status)
    except triton.InferenceServerException as error:
        assert status in error.status(), error


def changes(client, weights):
    """A model goes and comes by call, and answers as before."""
    client.unload_model("gru")
    assert not client.is_model_ready("gru") and client.is_model_ready("lstm")
    index = {model.name: model for model in client.get_model_repository_index().models}
    assert (index["gru"].state, index["gru"].reason) == ("UNAVAILABLE", "unloaded"), index["gru"]
    refused(lambda: client.infer("gru", infer_input([1], "INT32")), "UNAVAILABLE")
    refused(lambda: client.unload_model("gru"), "NOT_FOUND")
    refused(lambda: client.load_model("nobody"), "NOT_FOUND")
    refused(lambda: client.load_model("gru", config="{}"), "INVALID_ARGUMENT")
    client.load_model("gru")
    assert client.is_model_ready("gru")
    check(client.infer("gru", infer_input([3, 1, 4], "INT32")), "gru", weights, [3, 1, 4])


def log_settings(client):
    read = client.get_log_settings(as_json=True)["settings"]
    assert read["log_info"] == {"bool_param": True} and read["log_verbose_level"] == {"uint32_param": 0}, read
    written = client.update_log_settings({"log_verbose_level": 1}, as_json=True)["settings"]
    assert written["log_verbose_level"] == {"uint32_param": 1}, written
    assert client.get_log_settings(as_json=True)["settings"] == written
    refused(lambda: client.update_log_settings({"log_info": False}), "INVALID_ARGUMENT")
    refused(lambda: client.update_log_settings({"log_file": "/tmp/log"}), "INVALID_ARGUMENT")
    assert client.update_log_settings({"log_verbose_level": 0}, as_json=True)["settings"] == read


def streams(client, cell, weights, rng, headers=None):
    """Many at once on one stream, answered in their order; what is wrong with one is its own answer, and the stream goes on."""
    results = queue.Queue()
    client.start_stream(callback=lambda result, error: results.put((result, error)), headers=headers)
    requests = [[int(t) for t in rng.integers(0, 50, int(rng.integers(1, 60)))] for _ in range(300)]
    requests[100] = [50]  # not in the vocabulary
    for number, tokens in enumerate(requests):
        client.async_stream_infer(cell, infer_input(tokens, "INT32"), request_id="s%d" % number)
    for number, tokens in enumerate(requests):
        result, error = results.get(timeout=120)
        if number == 100:
            assert error is not None and "vocabulary" in error.message(), error
            continue
        assert error is None, error
        response = result.get_response()
        assert response.id == "s%d" % number, (response.id, number)
        assert response.parameters["triton_final_response"].bool_param, response.parameters
        check(result, cell, weights, tokens)
    client.stop_stream()
    assert results.empty()


def batches(statistics, cells):
    """Every task is in one batch size, and all their cells were computed."""
    sizes = statistics.batch_stats
    assert sum(size.compute_infer.count for size in sizes) == statistics.execution_count, statistics
    assert all(size.batch_size >= 1 and size.compute_infer.ns > 0 for size in sizes), statistics
    assert all(size.compute_input.count == size.compute_output.count == size.compute_infer.count for size in sizes)
    assert sum(size.batch_size * size.compute_infer.count for size in sizes) >= cells * 0.9, statistics


def trace_settings(client):
    read = client.get_trace_settings(as_json=True)["settings"]
    assert read["trace_level"] == {"value": ["TIMESTAMPS"]} and read["trace_rate"] == {"value": ["1000"]}, read
    assert read["trace_mode"] == {"value": ["opentelemetry"]}, read
    assert client.get_trace_settings(model_name="lstm", as_json=True)["settings"] == read
    written = client.update_trace_settings(settings={"trace_level": ["OFF"], "trace_rate": "7"}, as_json=True)["settings"]
    assert written["trace_level"] == {"value": ["OFF"]} and written["trace_rate"] == {"value": ["7"]}, written
    refused(lambda: client.update_trace_settings(settings={"trace_level": ["TENSORS"]}), "INVALID_ARGUMENT")
    refused(lambda: client.update_trace_settings(model_name="lstm", settings={"trace_rate": "1"}), "INVALID_ARGUMENT")
    refused(lambda: client.get_trace_settings(model_name="nobody"), "NOT_FOUND")
    back = client.update_trace_settings(settings={"trace_level": None, "trace_rate": None}, as_json=True)["settings"]
    assert back == read, back


def main():
    client = triton.InferenceServerClient(sys.argv[1])
    seed = int(sys.argv[2])
    rng = np.random.default_rng(seed)
    for cell in ("lstm", "gru"):
        weights = small_state_dict.draw(cell, seed)
        metadata(client, cell)
        calls(client, cell, weights, rng)
        asynchronous(client, cell, weights, rng)
        model_stats = client.get_inference_statistics(cell).model_stats[0]
        statistics = model_stats.inference_stats
        assert statistics.success.count == statistics.compute_infer.count == 212, statistics
        batches(model_stats, 212)
        streams(client, cell, weights, rng)
        in_pieces(client, cell, rng)
        kept(client, cell, rng)
    tagger(client)
    errors(client)
    changes(client, small_state_dict.draw("gru", seed))
    log_settings(client)
    trace_settings(client)
    print("tritonclient: lstm, gru and tagger are right")


if __name__ == "__main__":
    main()
