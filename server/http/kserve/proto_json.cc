#include "server/http/kserve/proto_json.h"

#include <string>

#include "google/protobuf/descriptor.h"

namespace cellbatch {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

// `at`: which of a repeated field, -1 of one that is not.
ordered_json ValueOf(const Message& message, const FieldDescriptor& field, int at) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) {
    return at < 0 ? (reflection.*single)(message, &field)
                  : (reflection.*repeated)(message, &field, at);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return JsonOf(at < 0 ? reflection.GetMessage(message, &field)
                           : reflection.GetRepeatedMessage(message, &field, at));
  }
  return nullptr;
}

ordered_json RepeatedOf(const Message& message, const FieldDescriptor& field) {
  const int count = message.GetReflection()->FieldSize(message, &field);
  ordered_json out = field.is_map() ? ordered_json::object() : ordered_json::array();
  for (int i = 0; i < count; ++i) {
    ordered_json value = ValueOf(message, field, i);
    if (!field.is_map()) {
      out.push_back(std::move(value));
      continue;
    }
    const ordered_json& key = value["key"];
    out[key.is_string() ? key.get<std::string>() : key.dump()] = value["value"];
  }
  return out;
}

}  // namespace

ordered_json JsonOf(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  ordered_json out = ordered_json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      out[field.name()] = RepeatedOf(message, field);
    } else if (!field.has_presence() || message.GetReflection()->HasField(message, &field)) {
      out[field.name()] = ValueOf(message, field, -1);
    }
  }
  return out;
}

std::string TextOf(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace cellbatch
