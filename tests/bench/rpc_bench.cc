// What a request costs the server beside its cells: CPU and wake-ups of a unary call, against an echo over the same gRPC.
//
//   rpc.unary_vs_echo          CPU of the server a request at saturation, but for its cells / that of a server that sends each
//                              message back as it came: the same library, asynchronous raw calls, one thread
//   rpc.with_cells_vs_echo     the same with its cells: steps of an LSTM of 8 units
//   rpc.unary_us, rpc.cells_us, rpc.echo_us    that CPU
//   rpc.wakeups_a_request      times that a thread of the server had gone to sleep and was woken, a request
//
// Each alone on one core, in turns; medians of --rounds. Cells are what the device says that it was busy. CPU is what Linux counts for the process's threads, so that a client on another core is not in it.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/grpc_service.pb.h"
#include "tests/bench/report.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(double, seconds, 3, "Of each side of a round.");
ABSL_FLAG(int, rounds, 5, "In each both are measured once.");
ABSL_FLAG(int, in_flight, 128, "Calls that the client keeps open.");
ABSL_FLAG(bool, pin, true, "The servers share one core, and the client has the others.");
ABSL_FLAG(int, steps, 1, "Words of a request: steps of the model.");

namespace cellbatch {
namespace {

constexpr const char* kMethod = "/inference.GRPCInferenceService/ModelInfer";
constexpr int kChannels = 4;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "rpc: %s\n", what.c_str());
  std::exit(1);
}

// Core number `i` of those that this process may use; all of them where there is one only.
void StayOn(int i) {
  if (!absl::GetFlag(FLAGS_pin)) return;
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == i) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof(one), CPU_COUNT(&one) > 0 ? &one : &allowed);
}

// ---- The echo: as little as a server of gRPC's asynchronous raw calls can do. ----

class EchoCall {
 public:
  EchoCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, this);
  }
  void Proceed(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    switch (state_) {
      case State::kCalled:
        new EchoCall(service_, queue_);
        state_ = State::kRead;
        stream_.Read(&message_, this);
        return;
      case State::kRead:
        state_ = State::kAnswered;
        stream_.WriteAndFinish(message_, {}, grpc::Status::OK, this);
        return;
      case State::kAnswered:
        delete this;
    }
  }

 private:
  enum class State : uint8_t { kCalled, kRead, kAnswered };
  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer message_;
  State state_ = State::kCalled;
};

// Tells its port through `out`, and serves until it is killed.
[[noreturn]] void RunEcho(int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as the server does
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (write(out, &port, sizeof(port)) != sizeof(port)) Die("the echo cannot tell its port");
  new EchoCall(service, *queue);
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);) static_cast<EchoCall*>(tag)->Proceed(ok);
  std::exit(0);
}

class EchoProcess {
 public:
  // Before this process has threads.
  EchoProcess() {
    int ends[2];
    if (pipe(ends) != 0) Die("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      StayOn(0);
      RunEcho(ends[1]);
    }
    int port = 0;
    if (read(ends[0], &port, sizeof(port)) != sizeof(port)) Die("the echo does not serve");
    close(ends[0]);
    close(ends[1]);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~EchoProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

// ---- The client: the same calls to either. ----

class Load {
 public:
  Load(const std::string& address, const std::string& message) {
    const grpc::Slice slice(message);
    message_ = grpc::ByteBuffer(&slice, 1);
    for (int i = 0; i < kChannels; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  // Keeps its calls open for so long, then waits for all of them; how many were answered.
  int64_t Run(double seconds) {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(seconds));
    int open = absl::GetFlag(FLAGS_in_flight);
    for (int i = 0; i < open; ++i) Start(static_cast<size_t>(i) % stubs_.size());
    int64_t answered = 0;
    void* tag = nullptr;
    for (bool ok = false; open > 0 && queue_.Next(&tag, &ok);) {
      const std::unique_ptr<Call> call(static_cast<Call*>(tag));
      if (!call->status.ok()) Die("a call failed: " + call->status.error_message());
      ++answered;
      if (std::chrono::steady_clock::now() < end) {
        Start(call->stub);
      } else {
        --open;
      }
    }
    return answered;
  }

 private:
  struct Call {
    size_t stub = 0;
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };
  void Start(size_t stub) {
    auto call = std::make_unique<Call>();
    call->stub = stub;
    call->reader = stubs_[stub]->PrepareUnaryCall(&call->context, kMethod, message_, &queue_);
    call->reader->StartCall();
    Call* const open = call.release();
    open->reader->Finish(&open->answer, &open->status, open);
  }

  grpc::ByteBuffer message_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
};

// ---- What Linux counts. ----

struct Counts {
  double cpu_ns = 0;
  double sleeps = 0;
};

Counts CountsOf(pid_t pid) {
  Counts counts;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    double ns = 0;
    std::ifstream(thread.path() / "schedstat") >> ns;
    counts.cpu_ns += ns;
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;) {
      double sleeps = 0;
      if (word == "voluntary_ctxt_switches:" && status >> sleeps) counts.sleeps += sleeps;
    }
  }
  return counts;
}

// A request's.
struct Cost {
  double us = 0, cells_us = 0, sleeps = 0;
  double busy = 0;  // of a core, all the time: how near it is to saturation
};
struct Costs {
  std::vector<double> us, cells_us, sleeps, busy;
  void Add(const Cost& cost) {
    us.push_back(cost.us);
    cells_us.push_back(cost.cells_us);
    sleeps.push_back(cost.sleeps);
    busy.push_back(cost.busy);
  }
};

double DeviceNs(const ServerProcess* server) {
  if (server == nullptr) return 0;
  std::istringstream page(HttpGet(server->metrics(), "/metrics"));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("cellbatch_device_busy_seconds_total")) continue;
    return std::stod(line.substr(line.rfind(' '))) * 1e9;
  }
  Die("no device on the page of metrics");
}

// `server`: whose cells are told apart; null: it has none.
Cost Measure(pid_t pid, const ServerProcess* server, Load& load) {
  load.Run(0.3);
  const double cells_before = DeviceNs(server);
  const Counts before = CountsOf(pid);
  const auto start = std::chrono::steady_clock::now();
  const auto answered = static_cast<double>(load.Run(absl::GetFlag(FLAGS_seconds)));
  const Counts after = CountsOf(pid);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return {(after.cpu_ns - before.cpu_ns) / answered * 1e-3,
          (DeviceNs(server) - cells_before) / answered * 1e-3,
          (after.sleeps - before.sleeps) / answered, (after.cpu_ns - before.cpu_ns) / took.count()};
}

std::string AskedMessage() {
  inference::ModelInferRequest request;
  request.set_model_name("words");
  auto* input = request.add_inputs();
  input->set_name("TOKENS");
  input->set_datatype("INT32");
  input->add_shape(absl::GetFlag(FLAGS_steps));
  const std::vector<int32_t> tokens(static_cast<size_t>(absl::GetFlag(FLAGS_steps)), 1);
  request.add_raw_input_contents(reinterpret_cast<const char*>(tokens.data()),
                                 tokens.size() * sizeof(int32_t));
  return request.SerializeAsString();
}

int Main() {
  const EchoProcess echo;
  Report report("rpc");
  GoToRunfiles();
  const std::string repository = NewRepository();
  AddModel(repository, {.name = "words", .hidden = 8, .width = 4, .vocabulary = 100});
  StayOn(0);  // and so does what is started now
  const std::unique_ptr<ServerProcess> server = ServerProcess::Serving(repository);
  if (server == nullptr) Die("the server does not serve");
  StayOn(1);
  const std::string message = AskedMessage();
  Load to_server(server->grpc(), message), to_echo(echo.address(), message);
  Costs ours, echoed;
  std::vector<double> beside_cells, with_cells;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const Cost unary = Measure(server->pid(), server.get(), to_server);
    const Cost plain = Measure(echo.pid(), nullptr, to_echo);
    ours.Add(unary);
    echoed.Add(plain);
    beside_cells.push_back((unary.us - unary.cells_us) / plain.us);
    with_cells.push_back(unary.us / plain.us);
  }
  std::filesystem::remove_all(repository);
  Table table({"", "CPU a request, us", "of it cells", "wake-ups a request", "of a core"});
  table.Add({"server", Number(QuartilesOf(ours.us), 2), Number(QuartilesOf(ours.cells_us), 2),
             Number(QuartilesOf(ours.sleeps), 3), Number(QuartilesOf(ours.busy), 2)});
  table.Add({"echo", Number(QuartilesOf(echoed.us), 2), "", Number(QuartilesOf(echoed.sleeps), 3),
             Number(QuartilesOf(echoed.busy), 2)});
  report.Text(table.ToString());
  const Quartiles ratio = QuartilesOf(beside_cells), whole = QuartilesOf(with_cells);
  report.Figure("rpc.unary_vs_echo", ratio.median, "x", &ratio);
  report.Figure("rpc.with_cells_vs_echo", whole.median, "x", &whole);
  report.Figure("rpc.unary_us", QuartilesOf(ours.us).median, "us");
  report.Figure("rpc.cells_us", QuartilesOf(ours.cells_us).median, "us");
  report.Figure("rpc.echo_us", QuartilesOf(echoed.us).median, "us");
  report.Figure("rpc.wakeups_a_request", QuartilesOf(ours.sleeps).median, "");
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("A unary call's CPU and wake-ups against an echo.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
