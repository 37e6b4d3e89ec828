#include "server/grpc/reflection.h"

#include <set>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace cellbatch {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(absl::StatusCode code, const char* text, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(static_cast<int32_t>(code));
  response.mutable_error_response()->set_error_message(text);
}

// The file, then what it imports, each once.
void AddFiles(const FileDescriptor& file, std::set<std::string>& there,
              ServerReflectionResponse& response) {
  if (!there.insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), there, response);
}

// Null: there is none.
void SetFile(const FileDescriptor* file, ServerReflectionResponse& response) {
  std::set<std::string> there;
  if (file != nullptr) {
    AddFiles(*file, there, response);
  } else {
    SetError(absl::StatusCode::kNotFound, "no such file, symbol or extension", response);
  }
}

const FileDescriptor* FileOfExtension(const grpc::reflection::v1alpha::ExtensionRequest& asked) {
  const Descriptor* type = Pool().FindMessageTypeByName(asked.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* extension = Pool().FindExtensionByNumber(type, asked.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensions(const std::string& name, ServerReflectionResponse& response) {
  const Descriptor* type = Pool().FindMessageTypeByName(name);
  if (type == nullptr) {
    SetError(absl::StatusCode::kNotFound, "no such message", response);
    return;
  }
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

}  // namespace

ServerReflectionResponse Reflect(const std::vector<std::string>& services,
                                 const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(Pool().FindFileByName(request.file_by_filename()), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetFile(FileOfExtension(request.file_containing_extension()), response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kInvalidArgument, "the request asks nothing", response);
      break;
  }
  return response;
}

}  // namespace cellbatch
