// Your own unfolder: a shared library that turns requests into graphs of cells.
//
//   model's folder                        config.textproto                       this header
//     config.textproto                      library {                              g++ -shared -fPIC
//     my_unfolder.so  <----------------------- file: "my_unfolder.so"                -o my_unfolder.so
//     1/weights.safetensors                    types: "cell_a" types: "cell_b" }
//
// THE LIBRARY IS TRUSTED CODE. It runs inside the server, on the threads that receive requests: what
// it reads and writes outside of what it was given, and how long it takes, nobody checks; it can crash
// or hang the server. What it says through the functions below is checked, every call, against the
// model and against caps; whatever is wrong ends that request (or the load) with a text, and only that.
//
// A C header: C++ users find a wrapper below that turns errors into exceptions and catches what their
// code throws. The library exports one function:
//
//   const CellbatchUnfolder* cellbatch_unfolder(void);
//
// Words. A *node* is one cell; a *subgraph* is one or more nodes of one cell type: a chain (types that
// carry something from node to node), or independent nodes; links say which nodes of earlier subgraphs
// an input reads. Types have the numbers of the config's list `types`, inputs and columns those of the
// cell's definition. Rows of the request come in by add_input and are read by links like any subgraph.
//
// Where a graph's shape depends on what is computed (parsers, readers that stop early), it grows by pieces. unfold gives
// the first and says how far it may grow; whenever all of it is done, extend reads what came out and adds the next:
//
//   unfold   grow, grow_nodes ..; add_unsent: a tensor for extend to read; add_nodes ..; return_rows into it
//              v   all of it runs; rows for every piece were reserved when the request joined
//   extend   output_data; add_nodes .., which may read earlier pieces: of a chain its last node, or any (keep_rows)
//              v   runs
//   extend   adds nothing, or adds and says close: the request is answered
//
// The model's configuration bounds it: library { max_pieces: .. }, and max_nodes for all pieces together.
//
// Threads: create and destroy once each; unfold on several threads at once, so it must not change
// `self` without a lock; extend likewise, one call at a time for a request, on threads that answer: others wait for it,
// so it is short. Memory: every pointer handed over stays its owner's and may be freed when the
// call returns (for tensors' data: when unfold returns); what is kept is copied, except rows that lie
// inside a tensor of the request.
#ifndef CELLBATCH_CELLS_UNFOLD_CELLBATCH_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_CELLBATCH_UNFOLDER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Tables grow at their end within a version (`size` says how far this one goes); another version is another contract.
enum { CELLBATCH_UNFOLDER_VERSION = 1 };

// Types of tensors.
enum { CELLBATCH_INT32 = 0, CELLBATCH_FP32 = 1 };

// Answers that are no numbers of something.
enum {
  CELLBATCH_FAILED = -1,  // the error is noted, and every later call fails, too
  CELLBATCH_NONE = -1,    // find_..: there is none of that name
  CELLBATCH_NOT_ASKED =
      -2,  // add_output: this request does not ask for it; return_rows to it does nothing
  CELLBATCH_ZEROS = -1  // CellbatchLink::from: reads zeros
};

typedef struct CellbatchModel CellbatchModel;      // one version of a model; during create
typedef struct CellbatchBuilder CellbatchBuilder;  // one request; during unfold and extend

// A tensor of the request: little-endian, row-major.
typedef struct CellbatchTensor {
  int32_t type;
  int32_t rank;
  const int64_t* dims;
  const void* data;
  int64_t bytes;
} CellbatchTensor;

// Input `input` of node t reads node first + t * stride (-1, 0 or 1) of the earlier subgraph `from`; of a
// chain's carry this says what its first node reads. An input without a link reads zeros; one that sums
// takes any number of links, added in their order.
typedef struct CellbatchLink {
  int32_t input;
  int32_t from;
  int32_t first;
  int32_t stride;
} CellbatchLink;

// What the server offers. `size` is the struct's in bytes.
typedef struct CellbatchHost {
  uint32_t size;
  uint32_t version;

  // During create: the model's cells.
  int32_t (*type_count)(const CellbatchModel* model);
  int32_t (*find_type)(const CellbatchModel* model, const char* name);
  int32_t (*find_input)(const CellbatchModel* model, int32_t type, const char* name);
  int32_t (*find_column)(const CellbatchModel* model, int32_t type, const char* name);
  int32_t (*column_width)(const CellbatchModel* model, int32_t type, int32_t column);
  // During create: what requests bring and ask for. dims: -1 is any length from 1. The first output is sent
  // where a request names none; `listed` outputs stand in the model's metadata.
  int32_t (*declare_input)(CellbatchModel* model, const char* name, int32_t type, int32_t rank,
                           const int64_t* dims, int32_t optional);
  int32_t (*declare_output)(CellbatchModel* model, const char* name, int32_t type, int32_t rank,
                            const int64_t* dims, int32_t listed);
  // During create: why the model cannot be loaded.
  void (*refuse)(CellbatchModel* model, const char* why);

  // During unfold and extend, but add_output: the request. Null: an optional tensor that is not there.
  const CellbatchTensor* (*find_tensor)(CellbatchBuilder* builder, const char* name);
  // Its graph. Each answers the number of what it made, or CELLBATCH_FAILED.
  // Rows for input `input` of `type`, which the request brings: packed, of the input's element type and width.
  int32_t (*add_input)(CellbatchBuilder* builder, int32_t type, int32_t input, int32_t rows,
                       const void* data);
  int32_t (*add_nodes)(CellbatchBuilder* builder, int32_t type, int32_t length,
                       const CellbatchLink* links, int32_t num_links);
  // A declared output, with its dimensions in this answer. Every one asked for must be added, in unfold.
  int32_t (*add_output)(CellbatchBuilder* builder, const char* name, int32_t rank,
                        const int64_t* dims);
  // `column` of nodes first .. first + count - 1 of a subgraph goes to elements offset, offset + stride, ..
  int32_t (*return_rows)(CellbatchBuilder* builder, int32_t subgraph, int32_t column, int32_t first,
                         int32_t count, int32_t output, int64_t offset, int64_t stride);
  // This request is wrong: its sender is told why (INVALID_ARGUMENT).
  void (*reject)(CellbatchBuilder* builder, const char* why);
  // The library failed: its sender is told why (INTERNAL).
  void (*fail)(CellbatchBuilder* builder, const char* why);

  // From here on of servers whose graphs grow. 0, or CELLBATCH_FAILED.
  // During unfold: after this piece there may be so many others, at least 1.
  int32_t (*grow)(CellbatchBuilder* builder, int32_t pieces);
  // During unfold: they may have `nodes` more cells of `type`, which keep `rows` rows: each cell its own; of a chain whose
  // last node alone is read by others two, or one of one cell. Adds to what was said before.
  int32_t (*grow_nodes)(CellbatchBuilder* builder, int32_t type, int32_t nodes, int32_t rows);
  // During unfold: and add_input may bring so many more rows for that input.
  int32_t (*grow_input)(CellbatchBuilder* builder, int32_t type, int32_t input, int32_t rows);
  // Pieces to come may read every node of that chain, which this piece added.
  int32_t (*keep_rows)(CellbatchBuilder* builder, int32_t subgraph);
  // During unfold: an output that is not sent, for return_rows to fill and output_data to read. Its number.
  int32_t (*add_unsent)(CellbatchBuilder* builder, int32_t type, int32_t rank, const int64_t* dims);
  // During extend: the elements of an output, zeros where nothing has come yet; extend may write into it. Null: this
  // request does not ask for it, or there is no such output.
  void* (*output_data)(CellbatchBuilder* builder, int32_t output);
  // During unfold, once: what the library remembers of this request. `forget` is called with it when the request ends,
  // however it does, on any thread, and not after the library is closed, but maybe after destroy.
  int32_t (*remember)(CellbatchBuilder* builder, void* memory, void (*forget)(void* memory));
  void* (*remembered)(CellbatchBuilder* builder);  // Null: nothing
  // No piece follows this one.
  int32_t (*close)(CellbatchBuilder* builder);
} CellbatchHost;

// What the library offers.
typedef struct CellbatchUnfolder {
  uint32_t size;
  uint32_t version;
  // Once a model version. `config` is the text of the model's `library { config }`. Null: refused.
  void* (*create)(const CellbatchHost* host, CellbatchModel* model, const char* config);
  // One request. 0: its graph is complete.
  int32_t (*unfold)(const void* self, const CellbatchHost* host, CellbatchBuilder* builder);
  void (*destroy)(void* self);
  // Null, or a table that ends before it: graphs do not grow. One request whose graph does: its next piece. 0: that is it.
  int32_t (*extend)(const void* self, const CellbatchHost* host, CellbatchBuilder* builder);
} CellbatchUnfolder;

__attribute__((visibility("default"))) const CellbatchUnfolder* cellbatch_unfolder(void);

#ifdef __cplusplus
}  // extern "C"

#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// The same in C++. A class with a constructor T(Model&, const std::string& config) and a member
// void Unfold(Request&) const becomes a library by
//
//   const CellbatchUnfolder* cellbatch_unfolder() { return cellbatch_unfolder_cpp::Table<T>(); }
//
// With a member void Extend(Request&) const its graphs may grow.
// What any of them throws ends the load or the request with its text: BadRequest as the sender's fault,
// anything else as the library's. Nothing is thrown out of the library.
namespace cellbatch_unfolder_cpp {

struct BadRequest : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The host noted what is wrong.
struct CallFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Dims = std::vector<int64_t>;
using Link = CellbatchLink;

class Model {
 public:
  Model(const CellbatchHost* host, CellbatchModel* model) : host_(host), model_(model) {}

  int32_t Type(const char* name) { return Found(host_->find_type(model_, name), "type", name); }
  int32_t Input(int32_t type, const char* name) {
    return Found(host_->find_input(model_, type, name), "input", name);
  }
  int32_t Column(int32_t type, const char* name) {
    return Found(host_->find_column(model_, type, name), "column", name);
  }
  int32_t Width(int32_t type, int32_t column) {
    return Found(host_->column_width(model_, type, column), "column", "");
  }
  void DeclareInput(const char* name, int32_t type, const Dims& dims, bool optional = false) {
    const int32_t rank = static_cast<int32_t>(dims.size());
    Found(host_->declare_input(model_, name, type, rank, dims.data(), optional), "input", name);
  }
  void DeclareOutput(const char* name, int32_t type, const Dims& dims, bool listed = true) {
    const int32_t rank = static_cast<int32_t>(dims.size());
    Found(host_->declare_output(model_, name, type, rank, dims.data(), listed), "output", name);
  }

 private:
  static int32_t Found(int32_t number, const char* what, const char* name) {
    if (number >= 0) return number;
    throw CallFailed(std::string("no ") + what + " \"" + name + "\"");
  }

  const CellbatchHost* host_;
  CellbatchModel* model_;
};

class Request {
 public:
  Request(const CellbatchHost* host, CellbatchBuilder* builder) : host_(host), builder_(builder) {}

  // Null: not there, and declared optional.
  const CellbatchTensor* Find(const char* name) { return host_->find_tensor(builder_, name); }
  const CellbatchTensor& Get(const char* name) {
    const CellbatchTensor* tensor = Find(name);
    if (tensor == nullptr) throw BadRequest(std::string("input ") + name + ": missing");
    return *tensor;
  }

  int32_t AddInput(int32_t type, int32_t input, int32_t rows, const void* data) {
    return Made(host_->add_input(builder_, type, input, rows, data));
  }
  int32_t AddNodes(int32_t type, int32_t length, const std::vector<Link>& links) {
    return Made(
        host_->add_nodes(builder_, type, length, links.data(), static_cast<int32_t>(links.size())));
  }
  // Not asked for: a number that ReturnRows takes and ignores.
  int32_t AddOutput(const char* name, const Dims& dims) {
    const int32_t output =
        host_->add_output(builder_, name, static_cast<int32_t>(dims.size()), dims.data());
    return output == CELLBATCH_NOT_ASKED ? output : Made(output);
  }
  void ReturnRows(int32_t subgraph, int32_t column, int32_t first, int32_t count, int32_t output,
                  int64_t offset, int64_t stride) {
    Made(host_->return_rows(builder_, subgraph, column, first, count, output, offset, stride));
  }

  void Grow(int32_t pieces) { Made(Growing()->grow(builder_, pieces)); }
  void GrowNodes(int32_t type, int32_t nodes, int32_t rows) {
    Made(Growing()->grow_nodes(builder_, type, nodes, rows));
  }
  void GrowInput(int32_t type, int32_t input, int32_t rows) {
    Made(Growing()->grow_input(builder_, type, input, rows));
  }
  void KeepRows(int32_t subgraph) { Made(Growing()->keep_rows(builder_, subgraph)); }
  int32_t AddUnsent(int32_t type, const Dims& dims) {
    return Made(
        Growing()->add_unsent(builder_, type, static_cast<int32_t>(dims.size()), dims.data()));
  }
  // Null: not asked for.
  template <typename T>
  T* Data(int32_t output) {
    return static_cast<T*>(Growing()->output_data(builder_, output));
  }
  template <typename T>
  T& Remember(std::unique_ptr<T> memory) {
    const CellbatchHost* const host = Growing();
    T* const kept = memory.release();
    Made(host->remember(builder_, kept, [](void* old) { delete static_cast<T*>(old); }));
    return *kept;
  }
  template <typename T>
  T& Remembered() {
    return *static_cast<T*>(Growing()->remembered(builder_));
  }
  void Close() { Made(Growing()->close(builder_)); }

 private:
  const CellbatchHost* Growing() const {
    if (host_->size >= sizeof(CellbatchHost)) return host_;
    throw std::runtime_error("graphs do not grow on this server, which is older than the library");
  }
  static int32_t Made(int32_t number) {
    if (number < 0) throw CallFailed("a call to the server failed");
    return number;
  }

  const CellbatchHost* host_;
  CellbatchBuilder* builder_;
};

// Calls `code`; what it throws becomes a text for `bad` (BadRequest) or `broken` (all else).
template <typename Code, typename Bad, typename Broken>
bool Guarded(Code code, Bad bad, Broken broken) {
  try {
    code();
    return true;
  } catch (const CallFailed& e) {
    broken(e.what());  // the host keeps the first text, which says more
  } catch (const BadRequest& e) {
    bad(e.what());
  } catch (const std::exception& e) {
    broken((std::string("exception: ") + e.what()).c_str());
  } catch (...) {
    broken("an exception that is no std::exception");
  }
  return false;
}

// What unfold and extend answer.
template <typename Code>
int32_t Answered(const CellbatchHost* host, CellbatchBuilder* builder, Code code) {
  const bool done = Guarded(
      [&] {
        Request wrapped(host, builder);
        code(wrapped);
      },
      [&](const char* why) { host->reject(builder, why); },
      [&](const char* why) { host->fail(builder, why); });
  return done ? 0 : CELLBATCH_FAILED;
}

template <typename T, typename = void>
struct Extends : std::false_type {};
template <typename T>
struct Extends<T, decltype(std::declval<const T&>().Extend(std::declval<Request&>()))>
    : std::true_type {};

template <typename T>
constexpr decltype(CellbatchUnfolder::extend) ExtendOf() {
  if constexpr (Extends<T>::value) {
    return [](const void* self, const CellbatchHost* host, CellbatchBuilder* builder) {
      return Answered(host, builder,
                      [&](Request& request) { static_cast<const T*>(self)->Extend(request); });
    };
  } else {
    return nullptr;
  }
}

template <typename T>
const CellbatchUnfolder* Table() {
  static const CellbatchUnfolder table = {
      sizeof(CellbatchUnfolder),
      CELLBATCH_UNFOLDER_VERSION,
      [](const CellbatchHost* host, CellbatchModel* model, const char* config) -> void* {
        T* made = nullptr;
        const auto refuse = [&](const char* why) { host->refuse(model, why); };
        Guarded(
            [&] {
              Model wrapped(host, model);
              made = new T(wrapped, std::string(config));
            },
            refuse, refuse);
        return made;
      },
      [](const void* self, const CellbatchHost* host, CellbatchBuilder* builder) {
        return Answered(host, builder,
                        [&](Request& request) { static_cast<const T*>(self)->Unfold(request); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      ExtendOf<T>()};
  return &table;
}

}  // namespace cellbatch_unfolder_cpp

#endif  // __cplusplus
#endif  // CELLBATCH_CELLS_UNFOLD_CELLBATCH_UNFOLDER_H_
