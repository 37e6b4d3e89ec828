#include "loadgen/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "client/flags.h"

namespace cellbatch {
namespace {

constexpr char kPurpose[] =
    "Sends requests to a server in an open loop and tells how long they took.\n"
    "\n"
    "No coordinated omission: the whole schedule is made before the run from the seed, each "
    "request\n"
    "is sent when it is due whatever became of those before it, and its latency counts from then.\n"
    "Exit code 0: VALID. 1: INVALID, or not every run was made. 2: wrong flags.";

// Flags that are texts before they are options.
struct Texts {
  std::string rate = "100";
  std::string sweep;
  std::string arrivals = "poisson";
  std::string mix;
  std::string null_target;
  SecurityFlags security;
  // Fields of a mix entry that are flags, too; empty: not said.
  std::string model, version, call, many, data, lengths, outputs, steps, piece, streams, spelled,
      priority, timeout_us;
};

// What is sent. A mix's entries have the same fields (loadgen/mix.h).
void AddLoadFlags(Texts& texts, Flags& flags) {
  flags.Add("model", &texts.model, "NAME",
            "Which model; its inputs and vocabularies are asked for.");
  flags.Add("mix", &texts.mix, "NAME,FIELD=VALUE,..;NAME,..",
            "Several models instead, each with weight=W, its share of the requests, and any of the "
            "fields version, call, many, data, lengths, outputs, steps, piece, streams, spelled, "
            "priority, timeout-us; what an entry does not say, the flags of these names do.");
  flags.Add("version", &texts.version, "N", "Which version; none = the one being served.");
  flags.Add("call", &texts.call, "infer|typed|decode",
            "ModelInfer (the default); cellbatch.v1 Infer; Decode, words as they come.");
  flags.Add("many", &texts.many, "N", "Inputs in one message; with call=typed.");
  flags.Add("data", &texts.data, "FILE",
            "Items, one a line: bracketed trees, heads, lattices, pairs, sentences, lengths, "
            "requests in JSON; none = built-in ones that fit the model.");
  flags.Add("lengths", &texts.lengths, "FILE",
            "Sequence lengths, the first number of each line; none = built-in, like Europarl's.");
  flags.Add("outputs", &texts.outputs, "NAME+NAME", "What to ask for; none = OUTPUT.");
  flags.Add("steps", &texts.steps, "data|model",
            "How long a decoder goes on: as the data's target (the default), or until it ends.");
  flags.Add("piece", &texts.piece, "STEPS",
            "Sequences come in pieces of so many steps, as live streams do: a request each, which "
            "brings a state and asks for the one that it leaves; none = whole.");
  flags.Add(
      "streams", &texts.streams, "N",
      "With --piece: so many sequences are live at a time, in turns, and the server keeps their "
      "states (sequence_id); none = pieces bring states.");
  flags.Add("spelled", &texts.spelled, "SHARE",
            "Of running words, spelled out for models that read characters; none = 0.23.");
  flags.Add("priority", &texts.priority, "N", "KServe's request parameter; none = not sent.");
  flags.Add("timeout-us", &texts.timeout_us, "MICROSECONDS",
            "KServe's request parameter `timeout`; none = not sent.");
}

Flags MakeFlags(Options& options, Texts& texts) {
  Flags flags("cellbatch-loadgen --model=NAME", kPurpose);
  flags.Add("url", &options.url, "HOST:PORT", "The server's gRPC address.");
  texts.security.AddTo(flags);
  AddLoadFlags(texts, flags);
  flags.Add("rate", &texts.rate, "RATE",
            "Requests a second; or a share such as 40% of the capacity, which is measured first.");
  flags.Add("duration", &options.duration, "SECONDS", "How long to measure.");
  flags.Add("warmup", &options.warmup, "SECONDS", "How long to send before; not measured.");
  flags.Add("seed", &options.seed, "N", "Decides arrivals, order of lengths and contents.");
  flags.Add("arrivals", &texts.arrivals, "poisson|constant", "Exponential or equal gaps.");
  flags.Add("sweep", &texts.sweep, "FROM:TO:STEP",
            "One run for each rate, such as 20:200:20 or 10%:110%:10%; instead of --rate.");
  flags.Add("cooldown", &options.cooldown, "SECONDS", "Rest between the points of a sweep.");
  flags.Add("json", &options.json, "FILE",
            "Writes everything measured; - is stdout, and the tables go to stderr.");
  flags.Add("csv", &options.csv, "FILE", "Writes one line for each run; - as of --json.");
  flags.Add("records", &options.records, "FILE",
            "Writes every request of the last run as CSV; - as of --json.");
  flags.Add("measure-capacity", &options.measure_capacity, "",
            "Only measures how many requests a second the server can answer (closed loop).");
  flags.Add("in-flight", &options.in_flight, "N",
            "Requests kept in flight to measure capacity; at most one of each of --streams.");
  flags.Add("capacity-warmup", &options.capacity_warmup, "SECONDS",
            "At least so long before capacity is measured.");
  flags.Add("capacity-duration", &options.capacity_duration, "SECONDS",
            "At least so long capacity is measured, and until all that is in flight was answered.");
  flags.Add("timeout", &options.timeout, "SECONDS",
            "A request without an answer after so long has failed.");
  flags.Add("connections", &options.connections, "N", "Connections to spread requests over.");
  flags.Add("most-outstanding", &options.most_outstanding, "N",
            "Requests in flight. Beyond: the run ends, INVALID.");
  flags.Add("min-answers", &options.min_answers, "N", "Fewer make a run INVALID; a p99 needs 459.");
  flags.Add("null-target", &texts.null_target, "MILLISECONDS",
            "Measures the generator itself, against a server of its own that answers after so "
            "long; none = the server at --url.");
  return flags;
}

absl::Status CheckNumbers(const Options& options) {
  constexpr double kMostSeconds = 1e8;  // three years: what nanoseconds hold, by far
  constexpr double kMostAtOnce = 1 << 20;
  constexpr double kMostAnswers = 1e8;  // as of a schedule
  struct Bound {
    const char* name;
    double value, most;
  };
  const Bound positive[] = {
      {"duration", options.duration, kMostSeconds},
      {"timeout", options.timeout, kMostSeconds},
      {"connections", static_cast<double>(options.connections), kMostAtOnce},
      {"most-outstanding", static_cast<double>(options.most_outstanding), kMostAtOnce},
      {"in-flight", static_cast<double>(options.in_flight), kMostAtOnce},
      {"capacity-duration", options.capacity_duration, kMostSeconds}};
  for (const auto& [name, value, most] : positive) {
    if (!(value > 0)) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={:g}: wants a positive number", name, value));
    }
    if (value > most) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={:.17g}: the most is {:.17g}", name, value, most));
    }
  }
  const Bound not_negative[] = {
      {"warmup", options.warmup, kMostSeconds},
      {"cooldown", options.cooldown, kMostSeconds},
      {"min-answers", static_cast<double>(options.min_answers), kMostAnswers},
      {"capacity-warmup", options.capacity_warmup, kMostSeconds}};
  for (const auto& [name, value, most] : not_negative) {
    if (!(value >= 0)) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={:g}: must not be negative", name, value));
    }
    if (value > most) {
      return absl::InvalidArgumentError(
          fmt::format("--{}={:.17g}: the most is {:.17g}", name, value, most));
    }
  }
  return absl::OkStatus();
}

// Two of them on stdout could be read by nobody.
absl::Status CheckStdout(const Options& options) {
  std::string first;
  for (const auto& [flag, path] :
       {std::pair("--json", &options.json), std::pair("--csv", &options.csv),
        std::pair("--records", &options.records)}) {
    if (*path != "-") {
      continue;
    }
    if (!first.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}=- and {}=-: only one of them can be stdout", first, flag));
    }
    first = flag;
  }
  return absl::OkStatus();
}

// Which server: one of its own, or a real one.
absl::Status ReadNullTarget(const Texts& texts, Options& options) {
  if (texts.null_target.empty()) {
    return texts.model.empty() && texts.mix.empty()
               ? absl::InvalidArgumentError("--model=NAME is needed")
               : absl::OkStatus();
  }
  constexpr double kMostMs = 1e11;  // three years
  double& ms = options.null_target_ms;
  if (!absl::SimpleAtod(texts.null_target, &ms) || !(ms >= 0 && ms <= kMostMs)) {
    return absl::InvalidArgumentError(
        fmt::format("--null-target={}: wants milliseconds, 0 to {:g}", texts.null_target, kMostMs));
  }
  return texts.mix.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError("--null-target and --mix exclude each other");
}

absl::Status ReadEntries(const Texts& texts, Options& options) {
  MixEntry entry;
  entry.model = texts.model;
  const std::pair<const char*, const std::string*> fields[] = {
      {"version", &texts.version},   {"call", &texts.call},
      {"many", &texts.many},         {"data", &texts.data},
      {"lengths", &texts.lengths},   {"outputs", &texts.outputs},
      {"steps", &texts.steps},       {"piece", &texts.piece},
      {"streams", &texts.streams},   {"spelled", &texts.spelled},
      {"priority", &texts.priority}, {"timeout-us", &texts.timeout_us}};
  for (const auto& [field, text] : fields) {
    const absl::Status set = text->empty() ? absl::OkStatus() : SetField(field, *text, entry);
    if (!set.ok()) {
      return absl::InvalidArgumentError("--" + std::string(set.message()));
    }
  }
  if (texts.mix.empty()) {
    if (const absl::Status fits = CheckEntry(entry); !fits.ok()) {
      return absl::InvalidArgumentError("--" + std::string(fits.message()));
    }
    options.entries = {entry};
    return absl::OkStatus();
  }
  if (!texts.model.empty()) {
    return absl::InvalidArgumentError("--model and --mix exclude each other");
  }
  auto entries = ParseMix(texts.mix, entry);
  if (!entries.ok()) {
    return entries.status();
  }
  options.entries = *std::move(entries);
  return absl::OkStatus();
}

absl::Status ReadTexts(const Texts& texts, Options& options) {
  if (texts.arrivals != "poisson" && texts.arrivals != "constant") {
    return absl::InvalidArgumentError(
        fmt::format("--arrivals={}: neither poisson nor constant", texts.arrivals));
  }
  options.process =
      texts.arrivals == "poisson" ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
  options.sweep = !texts.sweep.empty();
  if (options.measure_capacity) {
    return options.sweep
               ? absl::InvalidArgumentError("--measure-capacity and --sweep exclude each other")
               : absl::OkStatus();
  }
  if (options.sweep) {
    auto rates = ParseSweep(texts.sweep);
    if (!rates.ok()) {
      return rates.status();
    }
    options.rates = *std::move(rates);
    return absl::OkStatus();
  }
  const auto rate = ParseRate("rate", texts.rate);
  if (!rate.ok()) {
    return rate.status();
  }
  options.rates = {*rate};
  return absl::OkStatus();
}

}  // namespace

bool Options::stdout_is_a_file() const { return json == "-" || csv == "-" || records == "-"; }

bool Options::needs_capacity() const {
  return measure_capacity ||
         std::any_of(rates.begin(), rates.end(), [](const Rate& rate) { return rate.of_capacity; });
}

absl::StatusOr<std::optional<Options>> ParseOptions(const std::vector<std::string>& arguments,
                                                    std::string& help) {
  Options options;
  Texts texts;
  Flags flags = MakeFlags(options, texts);
  const auto words = flags.Parse(arguments);
  if (flags.help_wanted()) {
    help = flags.Help();
    return std::optional<Options>();
  }
  if (!words.ok()) {
    return words.status();
  }
  if (!words->empty()) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no flag; --help lists them", words->front()));
  }
  if (absl::Status status = ReadNullTarget(texts, options); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckNumbers(options); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckStdout(options); !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadEntries(texts, options); !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadTexts(texts, options); !status.ok()) {
    return status;
  }
  auto security = texts.security.Read();
  if (!security.ok()) {
    return security.status();
  }
  options.security = *std::move(security);
  return std::optional<Options>(std::move(options));
}

}  // namespace cellbatch
