#include "server/policy/policy_codec.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/names/fingerprint.h"
#include "server/repository/model_files.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

constexpr char kFile[] = "policy.textproto";

std::optional<PolicyKind> KindOf(disk::PolicyKind kind) {
  switch (kind) {
    case disk::CELLULAR:
      return PolicyKind::kCellular;
    case disk::AGENDA:
      return PolicyKind::kAgenda;
    case disk::AGENDA_OF_REMAINING:
      return PolicyKind::kAgendaOfRemaining;
    case disk::DEPTH:
      return PolicyKind::kDepth;
    case disk::SUFFICIENT:
      return PolicyKind::kSufficient;
    case disk::LB_GREEDY:
      return PolicyKind::kLbGreedy;
    case disk::FSM:
      return PolicyKind::kFsm;
    case disk::RANDOM:
      return PolicyKind::kRandom;
    default:
      return std::nullopt;
  }
}

disk::PolicyKind OnDisk(PolicyKind kind) {
  for (int k = 0; k < disk::PolicyKind_ARRAYSIZE; ++k) {
    if (KindOf(static_cast<disk::PolicyKind>(k)) == kind) return static_cast<disk::PolicyKind>(k);
  }
  return disk::POLICY_KIND_UNSPECIFIED;
}

std::optional<StateEncoding::Kind> EncodingOf(disk::StateEncodingKind kind) {
  switch (kind) {
    case disk::WHICH_ARE_READY:
      return StateEncoding::Kind::kBase;
    case disk::WHICH_ARE_READY_AND_MOST:
      return StateEncoding::Kind::kMax;
    case disk::MOST_READY_FIRST:
      return StateEncoding::Kind::kSort;
    default:
      return std::nullopt;
  }
}

disk::StateEncodingKind OnDisk(StateEncoding::Kind kind) {
  switch (kind) {
    case StateEncoding::Kind::kBase:
      return disk::WHICH_ARE_READY;
    case StateEncoding::Kind::kMax:
      return disk::WHICH_ARE_READY_AND_MOST;
    case StateEncoding::Kind::kSort:
      return disk::MOST_READY_FIRST;
  }
  return disk::STATE_ENCODING_UNSPECIFIED;
}

std::vector<std::string> TypeNames(const Model& model) {
  std::vector<std::string> names;
  for (const CellType& type : model.types) names.push_back(type.name);
  return names;
}

// What one text said wrong.
class Reader {
 public:
  Reader(const std::string& name, const disk::PolicyFile& file,
         const google::protobuf::TextFormat::ParseInfoTree& places, const Model& model)
      : name_(name), file_(file), places_(places), model_(model) {}

  absl::StatusOr<PolicySpec> Read() {
    if (absl::Status s = CheckModel(); !s.ok()) return s;
    PolicySpec spec;
    const std::optional<PolicyKind> kind = KindOf(file_.kind());
    if (!kind) {
      return Wrong(fmt::format("kind is {}, which is no policy's", KindName(file_.kind())));
    }
    spec.kind = *kind;
    spec.taller_first = file_.taller_first();
    spec.about = About();
    for (const std::string& name : file_.may_wait()) {
      const absl::StatusOr<CellTypeId> type = TypeNamed(name, "may_wait");
      if (!type.ok()) return Wrong(std::string(type.status().message()));
      spec.may_wait.push_back(*type);
    }
    if (*kind != PolicyKind::kFsm) {
      if (file_.states_size() == 0) return spec;
      return Wrong(fmt::format("kind is {}, and there are {} states: only an FSM has any",
                               KindName(file_.kind()), file_.states_size()));
    }
    const std::optional<StateEncoding::Kind> encoding = EncodingOf(file_.encoding());
    if (!encoding) {
      return Wrong(
          fmt::format("encoding is {}, an FSM has one of WHICH_ARE_READY, "
                      "WHICH_ARE_READY_AND_MOST and MOST_READY_FIRST",
                      EncodingName(file_.encoding())));
    }
    spec.encoding.kind = *encoding;
    spec.encoding.lowering = file_.lowers();
    spec.encoding.phases = file_.phases() == 0 ? 1 : file_.phases();
    if (spec.encoding.phases < 1 || spec.encoding.phases > StateEncoding::kMostPhases) {
      return Wrong(fmt::format("phases is {}, allowed are 1 to {}", file_.phases(),
                               StateEncoding::kMostPhases));
    }
    spec.encoding.fill = file_.fill();
    if (spec.encoding.fill < 0 || spec.encoding.fill > StateEncoding::kMostFill) {
      return Wrong(
          fmt::format("fill is {}, allowed are 0 to {}", file_.fill(), StateEncoding::kMostFill));
    }
    if (file_.states_in_all() != 0 && file_.states_in_all() != file_.states_size()) {
      return Wrong(fmt::format("states_in_all is {}, there are {} states: it is not all of a file",
                               file_.states_in_all(), file_.states_size()));
    }
    if (file_.states_size() == 0) return Wrong("an FSM without states");
    for (int i = 0; i < file_.states_size(); ++i) {
      const absl::StatusOr<FsmTable::Rule> rule = ReadState(file_.states(i), spec.encoding);
      if (!rule.ok()) {
        return absl::InvalidArgumentError(fmt::format(
            "{}: {}", PlaceOf(places_, *disk::PolicyFile::descriptor(), "states", i, name_),
            std::string(rule.status().message())));
      }
      spec.rules.push_back(*rule);
    }
    const auto policy = MakePolicy(spec, model_.types.size());
    if (!policy.ok()) return Wrong(std::string(policy.status().message()));
    return spec;
  }

 private:
  static std::string KindName(disk::PolicyKind kind) {
    return disk::PolicyKind_IsValid(kind) ? disk::PolicyKind_Name(kind)
                                          : std::to_string(static_cast<int>(kind));
  }
  static std::string EncodingName(disk::StateEncodingKind kind) {
    return disk::StateEncodingKind_IsValid(kind) ? disk::StateEncodingKind_Name(kind)
                                                 : std::to_string(static_cast<int>(kind));
  }
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", name_, what));
  }

  absl::Status CheckModel() const {
    const std::vector<std::string> learned(file_.cell_types().begin(), file_.cell_types().end());
    const std::vector<std::string> served = TypeNames(model_);
    if (learned != served) {
      return Wrong(
          fmt::format("cell_types are [{}], this model's are [{}]: it was learned for "
                      "another model",
                      fmt::join(learned, ", "), fmt::join(served, ", ")));
    }
    const std::string fingerprint = CellTypesFingerprint(model_);
    if (file_.fingerprint() == fingerprint) return absl::OkStatus();
    return Wrong(
        fmt::format("fingerprint is \"{}\", this model's is \"{}\": its cell types have "
                    "changed since, learn it anew",
                    file_.fingerprint(), fingerprint));
  }

  absl::StatusOr<CellTypeId> TypeNamed(const std::string& name, const char* field) const {
    for (const CellType& type : model_.types) {
      if (type.name == name) return type.id;
    }
    return absl::InvalidArgumentError(fmt::format("{} is \"{}\", the model's cell types are {}",
                                                  field, name, fmt::join(TypeNames(model_), ", ")));
  }

  absl::StatusOr<FsmTable::Rule> ReadState(const disk::PolicyState& state,
                                           const StateEncoding& encoding) const {
    std::vector<CellTypeId> types;
    for (const std::string& name : state.ready()) {
      const absl::StatusOr<CellTypeId> type = TypeNamed(name, "ready");
      if (!type.ok()) return type.status();
      types.push_back(*type);
    }
    const bool max = encoding.kind == StateEncoding::Kind::kMax;
    if (max != !state.most().empty()) {
      return absl::InvalidArgumentError(fmt::format("most is \"{}\", and the encoding {}",
                                                    state.most(), EncodingName(file_.encoding())));
    }
    if (max) {
      const absl::StatusOr<CellTypeId> most = TypeNamed(state.most(), "most");
      if (!most.ok()) return most.status();
      types.push_back(*most);
    }
    std::vector<CellTypeId> lowering, filled;
    for (const std::string& name : state.lowers()) {
      const absl::StatusOr<CellTypeId> type = TypeNamed(name, "lowers");
      if (!type.ok()) return type.status();
      lowering.push_back(*type);
    }
    for (const std::string& name : state.filled()) {
      const absl::StatusOr<CellTypeId> type = TypeNamed(name, "filled");
      if (!type.ok()) return type.status();
      filled.push_back(*type);
    }
    const absl::StatusOr<CellTypeId> run = TypeNamed(state.run(), "run");
    if (!run.ok()) return run.status();
    const auto ready = state.ready();
    if (std::find(ready.begin(), ready.end(), state.run()) == ready.end()) {
      return absl::InvalidArgumentError(
          fmt::format("run is \"{}\", ready are {}", state.run(), fmt::join(ready, ", ")));
    }
    const absl::StatusOr<StateKey> key =
        MakeState(encoding, types, state.phase(), lowering, filled);
    if (!key.ok()) return key.status();
    return FsmTable::Rule{*key, *run};
  }

  std::string About() const {
    if (!file_.has_learned()) return "";
    const disk::PolicyOrigin& from = file_.learned();
    if (from.has_serving()) {
      const disk::ServingOrigin& serving = from.serving();
      return fmt::format(
          "learned from {} for latency at {:.0f} % load ({:.2f} mean + {:.2f} p99), costs {}, seed "
          "{}",
          from.requests(), 100 * serving.load(), 1 - serving.tail_weight(), serving.tail_weight(),
          serving.costs(), from.seed());
    }
    return fmt::format("learned from {}, {} batches where none makes fewer than {}, seed {}",
                       from.requests(), from.batches(), from.bound(), from.seed());
  }

  const std::string& name_;
  const disk::PolicyFile& file_;
  const google::protobuf::TextFormat::ParseInfoTree& places_;
  const Model& model_;
};

// A lane keeps what the others read.
absl::Status CheckServed(PolicyKind kind, std::string_view place) {
  if (kind != PolicyKind::kSufficient) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: policy {} is for closed workloads, it is not served", place,
                  disk::PolicyKind_Name(OnDisk(kind))));
}

std::string Quoted(const std::string& text) { return "\"" + absl::CEscape(text) + "\""; }

template <typename Names>
std::string Listed(const Names& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(Quoted(name));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

absl::StatusOr<PolicySpec> ReadPolicyFile(const disk::PolicyChoice* choice,
                                          const std::string& model_folder, const Model& model,
                                          int64_t max_bytes) {
  const std::string file = fmt::format("{}/{}", model.version, kFile);
  const absl::StatusOr<std::string> text = ReadModelFile(model_folder, file, max_bytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  absl::StatusOr<PolicySpec> spec = ParsePolicy(*text, file, model);
  if (spec.ok() && choice != nullptr && choice->kind() == disk::FSM &&
      spec->kind != PolicyKind::kFsm) {
    return absl::InvalidArgumentError(
        fmt::format("{}: kind is {}, the configuration's policy is FSM", file,
                    disk::PolicyKind_Name(OnDisk(spec->kind))));
  }
  if (!spec.ok()) return spec;
  const absl::Status served = CheckServed(spec->kind, file);
  if (!served.ok()) return served;
  return spec;
}

}  // namespace

std::string CellTypesFingerprint(const Model& model) {
  Fingerprint print;
  for (const CellType& type : model.types) {
    print.Add(type.name);
    print.Add(type.definition->name());
    const absl::Span<const Input> inputs = type.definition->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      print.Add(inputs[i].name);
      print.Add(inputs[i].arity == Arity::kSum ? "sum" : "one");
      print.Add(type.in[i].value());
    }
    print.Add(type.out.value());
    print.Add(type.definition->carry() ? type.definition->carry()->value() : -1);
  }
  return print.Hex();
}

disk::PolicyFile ToPolicyFile(const PolicySpec& spec, const Model& model) {
  disk::PolicyFile file;
  file.set_kind(OnDisk(spec.kind));
  file.set_taller_first(spec.taller_first);
  for (std::string& name : TypeNames(model)) file.add_cell_types(std::move(name));
  for (const CellTypeId type : spec.may_wait) file.add_may_wait(model.type(type).name);
  file.set_fingerprint(CellTypesFingerprint(model));
  if (spec.kind != PolicyKind::kFsm) return file;
  file.set_encoding(OnDisk(spec.encoding.kind));
  file.set_phases(spec.encoding.phases);
  file.set_lowers(spec.encoding.lowering);
  file.set_fill(spec.encoding.fill);
  file.set_states_in_all(static_cast<int32_t>(spec.rules.size()));
  for (const FsmTable::Rule& rule : spec.rules) {
    disk::PolicyState& state = *file.add_states();
    std::vector<CellTypeId> types = TypesOf(rule.state);
    if (spec.encoding.kind == StateEncoding::Kind::kMax) {
      state.set_most(model.type(types.back()).name);
      types.pop_back();
    }
    for (const CellTypeId type : types) state.add_ready(model.type(type).name);
    for (const CellTypeId type : LoweringOf(rule.state)) state.add_lowers(model.type(type).name);
    for (const CellTypeId type : FilledOf(rule.state)) state.add_filled(model.type(type).name);
    state.set_phase(PhaseOf(rule.state));
    state.set_run(model.type(rule.action).name);
  }
  return file;
}

std::string PolicyText(const disk::PolicyFile& file) {
  disk::PolicyFile head = file;
  head.clear_states();
  std::string text =
      "# Which cell type runs next, by what is ready: written by a learner (proto/policy.proto).\n";
  std::string fields;
  google::protobuf::TextFormat::PrintToString(head, &fields);
  text += fields;
  for (const disk::PolicyState& state : file.states()) {
    text += "states { ready: " + Listed(state.ready());
    if (state.lowers_size() > 0) text += " lowers: " + Listed(state.lowers());
    if (state.filled_size() > 0) text += " filled: " + Listed(state.filled());
    if (!state.most().empty()) text += " most: " + Quoted(state.most());
    if (state.phase() != 0) text += fmt::format(" phase: {}", state.phase());
    text += fmt::format(" run: {} }}\n", Quoted(state.run()));
  }
  return text;
}

absl::StatusOr<PolicySpec> ParsePolicy(std::string_view text, const std::string& name,
                                       const Model& model) {
  disk::PolicyFile file;
  google::protobuf::TextFormat::ParseInfoTree places;
  if (absl::Status s = ParseTextFormat(text, name, file, &places); !s.ok()) return s;
  if (file.ByteSizeLong() == 0) {
    return absl::InvalidArgumentError(fmt::format("{}: there is nothing in it", name));
  }
  return Reader(name, file, places, model).Read();
}

absl::StatusOr<PolicySpec> ReadPolicy(const disk::PolicyChoice* choice, const std::string& place,
                                      const std::string& model_folder, const Model& model,
                                      int64_t max_bytes) {
  const disk::PolicyKind kind = choice == nullptr ? disk::POLICY_KIND_UNSPECIFIED : choice->kind();
  std::error_code error;
  const bool file_decides =
      kind == disk::FSM || kind == disk::LEARNED ||
      (kind == disk::POLICY_KIND_UNSPECIFIED &&
       std::filesystem::exists(fmt::format("{}/{}/{}", model_folder, model.version, kFile), error));
  PolicySpec spec;
  if (file_decides) {
    absl::StatusOr<PolicySpec> read = ReadPolicyFile(choice, model_folder, model, max_bytes);
    if (read.ok() || choice == nullptr || !choice->else_cellular()) return read;
    spec.about = fmt::format("{}: {}", kInPlaceOf, std::string(read.status().message()));
    return spec;
  }
  if (choice == nullptr || kind == disk::POLICY_KIND_UNSPECIFIED) return spec;
  const std::optional<PolicyKind> named = KindOf(kind);
  if (!named) {
    return absl::InvalidArgumentError(
        fmt::format("{}: policy kind is {}, which is no policy's", place, static_cast<int>(kind)));
  }
  if (absl::Status s = CheckServed(*named, place); !s.ok()) return s;
  spec.kind = *named;
  spec.seed = choice->seed();
  spec.taller_first = choice->taller_first();
  return spec;
}

}  // namespace cellbatch
