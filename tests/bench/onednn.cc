#include "tests/bench/onednn.h"

namespace cellbatch::onednn {
namespace {

constexpr int kCpu = 1, kAnyTag = 1, kWeightsDescriptor = 131, kInOrder = 1;

}  // namespace

bool Library::Open(void* shared_object) {
  shared_object_ = shared_object;
  version_ = Find<const VersionInfo*()>("dnnl_version");
  stream_wait_ = Find<Status(void*)>("dnnl_stream_wait");
  memory_create_ = Find<Status(void**, const void*, void*, void*)>("dnnl_memory_create");
  memory_destroy_ = Find<Status(void*)>("dnnl_memory_destroy");
  primitive_create_ = Find<CreatePrimitive>("dnnl_primitive_create");
  primitive_destroy_ = Find<Status(void*)>("dnnl_primitive_destroy");
  execute_ = Find<Status(const void*, void*, int, const Argument*)>("dnnl_primitive_execute");
  if (version_ == nullptr || execute_ == nullptr) return false;
  // The OpenMP builds ask this; the others see the one CPU that the thread is pinned to.
  if (auto* threads = Find<void(int)>("omp_set_num_threads")) threads(1);
  major_ = version_()->major;
  auto* const create_engine = Find<Status(void**, int, size_t)>("dnnl_engine_create");
  auto* const create_stream = Find<Status(void**, void*, unsigned)>("dnnl_stream_create");
  return major_ >= 2 && create_engine(&engine_, kCpu, 0) == 0 &&
         create_stream(&stream_, engine_, kInOrder) == 0;
}

std::string Library::name() const {
  const VersionInfo* v = version_();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

bool Library::Describe(int num_dims, const Dims& dims, const int64_t* strides, Descriptor* to,
                       Numbers numbers) const {
  const int type = static_cast<int>(numbers);
  if (major_ >= 3) {
    using WithTag = Status(void**, int, const int64_t*, int, int);
    using WithStrides = Status(void**, int, const int64_t*, int, const int64_t*);
    return strides == nullptr ? Find<WithTag>("dnnl_memory_desc_create_with_tag")(
                                    &to->pointer, num_dims, dims, type, kAnyTag) == 0
                              : Find<WithStrides>("dnnl_memory_desc_create_with_strides")(
                                    &to->pointer, num_dims, dims, type, strides) == 0;
  }
  using WithTag = Status(void*, int, const int64_t*, int, int);
  using WithStrides = Status(void*, int, const int64_t*, int, const int64_t*);
  return strides == nullptr ? Find<WithTag>("dnnl_memory_desc_init_by_tag")(
                                  to->bytes.data(), num_dims, dims, type, kAnyTag) == 0
                            : Find<WithStrides>("dnnl_memory_desc_init_by_strides")(
                                  to->bytes.data(), num_dims, dims, type, strides) == 0;
}

void* Library::Chosen(const void* operation) const {
  using Create = Status(void**, const void*, const void*, void*, const void*);
  void* chosen = nullptr;
  Find<Create>("dnnl_primitive_desc_create")(&chosen, operation, nullptr, engine_, nullptr);
  return chosen;
}

void* Library::Make(CreatePrimitive* create, const void* descriptor) {
  void* made = nullptr;
  return descriptor != nullptr && create(&made, descriptor) == 0 ? made : nullptr;
}

void* Library::MemoryAt(const void* descriptor, const void* data) const {
  void* memory = nullptr;
  memory_create_(&memory, descriptor, engine_, const_cast<void*>(data));
  return memory;
}

void* Library::Conversion(const void* from, const void* to) const {
  using Reorder = Status(void**, const void*, void*, const void*, void*, const void*);
  void* chosen = nullptr;
  Find<Reorder>("dnnl_reorder_primitive_desc_create")(&chosen, from, engine_, to, engine_, nullptr);
  return Primitive(chosen);
}

void* Library::Packed(void* chosen, int which, const Descriptor& plain, const float* data,
                      kernels::PackedMemory* room) const {
  using Query = const void*(const void*, int, int);
  using Size = size_t(const void*);
  const void* const wanted =
      Find<Query>("dnnl_primitive_desc_query_md")(chosen, kWeightsDescriptor, which);
  const size_t bytes = Find<Size>("dnnl_memory_desc_get_size")(wanted);
  *room = kernels::PackedMemory(static_cast<int64_t>(bytes / sizeof(float) + 1));
  void* reorder = Conversion(plain.Get(major_), wanted);
  if (reorder == nullptr) return nullptr;
  void* from = MemoryAt(plain.Get(major_), data);
  void* to = MemoryAt(wanted, room->data());
  const Argument arguments[] = {{kSource, from}, {kDestination, to}};
  if (!Execute(reorder, arguments, 2)) Destroy(&to);
  Destroy(&from);
  DestroyPrimitive(&reorder);
  return to;
}

void Library::Destroy(void** memory) const {
  if (*memory != nullptr) memory_destroy_(*memory);
  *memory = nullptr;
}

void Library::DestroyPrimitive(void** primitive) const {
  if (*primitive != nullptr) primitive_destroy_(*primitive);
  *primitive = nullptr;
}

}  // namespace cellbatch::onednn
