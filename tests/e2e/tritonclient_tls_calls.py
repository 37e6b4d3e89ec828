"""Runs under an interpreter that has tritonclient[grpc,http]: calls a server that speaks TLS and asks for tokens with both
clients, unmodified: infer, load, unload, statistics, the index, and streams over gRPC (HTTP has none).

    tritonclient_tls_calls.py GRPC_HOST:PORT HTTP_HOST:PORT FOLDER SEED

FOLDER has ca.crt, and own.crt with own.key, which the server asks for, too.
"""

import os
import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http

import small_state_dict
import tritonclient_calls
import tritonclient_http_calls

TOKENS = [3, 1, 4]


def bearer(token):
    return {"authorization": "Bearer " + token}


def statistics(client, headers):
    counted = client.get_inference_statistics("lstm", headers=headers)
    if isinstance(counted, dict):
        return int(counted["model_stats"][0]["inference_stats"]["success"]["count"])
    return counted.model_stats[0].inference_stats.success.count


def listed(client, headers):
    index = client.get_model_repository_index(headers=headers)
    return {model["name"] for model in index} if isinstance(index, list) else {model.name for model in index.models}


def calls(client, make_input, refused, statuses, weights):
    search, operator = bearer("s3arch"), bearer("0perator")
    assert client.is_server_ready() and client.is_model_ready("lstm"), "probes need no token"
    before = statistics(client, search)
    tritonclient_calls.check(client.infer("lstm", make_input(TOKENS), headers=search), "lstm", weights, TOKENS)
    assert statistics(client, search) == before + 1
    assert listed(client, search) == {"lstm"} and listed(client, operator) == {"lstm", "gru", "tagger"}
    unauthenticated, denied = statuses
    refused(lambda: client.infer("lstm", make_input(TOKENS)), unauthenticated)
    refused(lambda: client.infer("lstm", make_input(TOKENS), headers=bearer("wrong")), unauthenticated)
    refused(lambda: client.infer("gru", make_input(TOKENS), headers=search), denied)
    refused(lambda: client.unload_model("gru", headers=search), denied)
    client.unload_model("gru", headers=operator)
    assert not client.is_model_ready("gru")
    client.load_model("gru", headers=operator)
    assert client.is_model_ready("gru")


def stream(client, headers, model="lstm"):
    """What one request on a stream of its own is told."""
    results = queue.Queue()
    client.start_stream(callback=lambda result, error: results.put(error), headers=headers)
    try:
        client.async_stream_infer(model, tritonclient_calls.infer_input(TOKENS, "INT32"))
    except tritonclient.grpc.InferenceServerException:
        pass  # refused already: the callback has been told why
    error = results.get(timeout=120)
    client.stop_stream()
    return str(error)


def streams(client, weights, rng):
    """A stream belongs to the token that it was opened with, and each of its requests is held to that."""
    tritonclient_calls.streams(client, "lstm", weights, rng, bearer("s3arch"))
    assert stream(client, bearer("s3arch")) == "None"
    denied = stream(client, bearer("s3arch"), "gru")
    assert "token search may not ask of model" in denied, denied
    for stranger in (None, bearer("wrong")):
        told = stream(client, stranger)
        assert "UNAUTHENTICATED" in told, told


def main():
    grpc_address, http_address, folder, seed = sys.argv[1:5]
    paths = [os.path.join(folder, name) for name in ("ca.crt", "own.key", "own.crt")]
    weights = small_state_dict.draw("lstm", int(seed))
    over_grpc = tritonclient.grpc.InferenceServerClient(grpc_address, ssl=True, root_certificates=paths[0],
                                                        private_key=paths[1], certificate_chain=paths[2])
    calls(over_grpc, lambda tokens: tritonclient_calls.infer_input(tokens, "INT32"), tritonclient_calls.refused,
          ("UNAUTHENTICATED", "PERMISSION_DENIED"), weights)
    streams(over_grpc, weights, np.random.default_rng(int(seed)))
    over_http = tritonclient.http.InferenceServerClient(
        http_address, ssl=True, ssl_options={"ca_certs": paths[0], "keyfile": paths[1], "certfile": paths[2]})
    calls(over_http, lambda tokens: tritonclient_http_calls.infer_input(tokens, "INT32", True),
          tritonclient_http_calls.refused, ("401", "403"), weights)
    print("tritonclient over TLS with tokens: gRPC, its streams, and HTTP")


if __name__ == "__main__":
    main()
