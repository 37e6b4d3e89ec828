// A message as JSON the way KServe writes it over HTTP: numbers as numbers (protobuf's own JSON makes texts of 64 bits),
// names as in the .proto, enums by name, and every plain field, set or not.
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_PROTO_JSON_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_PROTO_JSON_H_

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace cellbatch {

nlohmann::ordered_json JsonOf(const google::protobuf::Message& message);
// Its text. What is no UTF-8 in it is replaced.
std::string TextOf(const nlohmann::ordered_json& json);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_PROTO_JSON_H_
