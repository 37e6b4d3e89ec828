"""Runs under an interpreter that has tritonclient[grpc,http]: calls a server that speaks TLS and asks for tokens with both
clients, unmodified: infer, load, unload, statistics.

    tritonclient_tls_calls.py GRPC_HOST:PORT HTTP_HOST:PORT FOLDER SEED

FOLDER has ca.crt, and own.crt with own.key, which the server asks for, too.
"""

import os
import sys

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


def calls(client, make_input, refused, statuses, weights):
    search, operator = bearer("s3arch"), bearer("0perator")
    assert client.is_server_ready() and client.is_model_ready("lstm"), "probes need no token"
    before = statistics(client, search)
    tritonclient_calls.check(client.infer("lstm", make_input(TOKENS), headers=search), "lstm", weights, TOKENS)
    assert statistics(client, search) == before + 1
    unauthenticated, denied = statuses
    refused(lambda: client.infer("lstm", make_input(TOKENS)), unauthenticated)
    refused(lambda: client.infer("lstm", make_input(TOKENS), headers=bearer("wrong")), unauthenticated)
    refused(lambda: client.infer("gru", make_input(TOKENS), headers=search), denied)
    refused(lambda: client.unload_model("gru", headers=search), denied)
    client.unload_model("gru", headers=operator)
    assert not client.is_model_ready("gru")
    client.load_model("gru", headers=operator)
    assert client.is_model_ready("gru")


def main():
    grpc_address, http_address, folder, seed = sys.argv[1:5]
    paths = [os.path.join(folder, name) for name in ("ca.crt", "own.key", "own.crt")]
    weights = small_state_dict.draw("lstm", int(seed))
    over_grpc = tritonclient.grpc.InferenceServerClient(grpc_address, ssl=True, root_certificates=paths[0],
                                                        private_key=paths[1], certificate_chain=paths[2])
    calls(over_grpc, lambda tokens: tritonclient_calls.infer_input(tokens, "INT32"), tritonclient_calls.refused,
          ("UNAUTHENTICATED", "PERMISSION_DENIED"), weights)
    over_http = tritonclient.http.InferenceServerClient(
        http_address, ssl=True, ssl_options={"ca_certs": paths[0], "keyfile": paths[1], "certfile": paths[2]})
    calls(over_http, lambda tokens: tritonclient_http_calls.infer_input(tokens, "INT32", True),
          tritonclient_http_calls.refused, ("401", "403"), weights)
    print("tritonclient over TLS with tokens: gRPC and HTTP")


if __name__ == "__main__":
    main()
